//! Block requests: read from traces, generated from published statistics, described and converted.
//!
//! Everything a simulated or a served device is asked to do arrives as a [`Request`]; everything
//! that yields requests is a [`Source`]. Nothing here knows what an SSD does with them.
#![warn(missing_docs)]

pub mod fio;
mod request;
pub mod synthetic;

pub use request::{Error, Op, Request, Source};
