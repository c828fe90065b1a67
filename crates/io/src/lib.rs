//! What a host asks of a drive, and how it ends: the words that every crate and every transport shares.
//!
//! A [`Command`] names an [`Op`] and sectors; its [`Completion`] carries a [`Status`]. Commands about
//! objects list [`Range`]s.
#![no_std]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

extern crate alloc;

mod command;
mod op;
mod range;

pub use command::{Command, Completion, Status};
pub use op::Op;
pub use range::{Range, decode, encode};
