//! Block requests: read from traces, generated from published statistics, described and converted.
//!
//! Everything a simulated or a served device is asked to do arrives as a [`Request`]; everything
//! that yields requests is a [`Source`]. Nothing here knows what an SSD does with them.
#![doc = ""]
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod beside;
mod detect;
pub mod fio;
mod formats;
mod info;
mod input;
mod options;
mod order;
mod parse;
mod quiet;
mod request;
mod row;
pub mod synthetic;
mod trace;
mod write;

pub use formats::parquet::table;
pub use info::{Info, InfoOptions, OpInfo, PageInfo, piece_bits};
pub use nandle_io::Op;
pub use options::{Format, Options, RegexFormat, TimeUnit};
pub use quiet::quietly;
pub use request::{Error, Request, Source, Turn};
pub use trace::{Counts, Trace, Volume, open, open_reader};
pub use write::{WRITABLE, Writer, Written, convert, create, create_in, replace};
