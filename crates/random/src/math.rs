//! Elementary functions that give the same bits on every platform.
//!
//! `f64::ln` and its like call the platform's library, which may differ in the last bit; a sampler
//! that compares against such a value then draws differently now and then, and a golden digest that
//! holds on one machine fails on the next. Everything that decides a draw uses these instead.

pub use libm::{exp, expm1, log as ln, log1p, log2, pow};
