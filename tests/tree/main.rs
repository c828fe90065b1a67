//! The sources and the docs themselves.

mod imports;
mod structure;
mod tidy;
