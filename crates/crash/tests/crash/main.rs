//! Crash tests of programs that others wrote, and of the model of what a power cut leaves.

mod common;
mod databases;
mod model;
mod mounted;
