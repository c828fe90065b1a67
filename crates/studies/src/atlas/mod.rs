//! The atlas: every scheme on every trace and on three kinds of drive, and where each of them loses.
//!
//! [`Plan::of`] looks at the traces, makes a drive as large as each needs, and asks the device files which
//! combinations stand; [`Plan::work`] runs what is left; an [`Atlas`] is what came of it: plain data, from
//! which [`page`] and [`csv`] are made. Rows are named by the hash of their run, so that a further call does
//! only what is missing or has changed.

mod data;
mod page;
mod plan;
mod traces;
mod verdict;

pub use data::{Atlas, DriveKind, Row, Scheme, Size, TraceInfo, Wish};
pub use page::{csv, page, write};
pub use plan::Plan;
pub use verdict::{Against, verdicts};
