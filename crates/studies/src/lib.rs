//! Studies: many runs of the laboratory, and what follows from them.
//!
//! [`reproduce`] repeats the papers' experiments and sets real drives' figures beside ours, [`atlas`] sets every
//! scheme against every trace.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod atlas;
pub mod reproduce;
