//! The laboratory: drives configured, driven, checked and measured.
#![warn(missing_docs)]

pub mod oracle;
pub mod reproduce;
