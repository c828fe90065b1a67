//! The command line of nandle as a function, for programs that add schemes of their own to it.
//!
//! ```no_run
//! use nandle::{Outside, register};
//! # use nandle_ssd::schemes::Scheme;
//! # #[derive(Clone, Debug)]
//! # struct Mine;
//! # impl Scheme for Mine {
//! #     fn boxed(&self) -> Box<dyn Scheme> {
//! #         Box::new(self.clone())
//! #     }
//! # }
//! register(Outside::new("mine", "What is new about it.", || Box::new(Mine))).expect("a free name");
//! nandle::main();
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod cli;
mod progress;
mod table;

pub use cli::main;
pub use nandle_lab::config::{Outside, register};
