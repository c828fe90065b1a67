//! Traces read, converted and damaged.

mod convert;
mod hostile;
mod real;
mod samples;
