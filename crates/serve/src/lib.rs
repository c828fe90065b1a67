//! A simulated drive as a block device that real programs use, in real time.
//!
//! [`driver`] owns the drive and the wall clock: one thread, requests in through a bounded queue,
//! answers at the modelled time and never before. [`plan`] turns bytes into whole sectors, [`image`]
//! keeps the flash in a file. [`live`] watches, with [`live::shadow`]s beside, and [`http`] shows it. Each
//! transport is a folder of its own that knows only [`Device::submit`]: [`nbd`], [`nvme_tcp`], [`fuse`], `ublk` and
//! `vhost_user` (features `ublk` and `vhost-user`).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod arrival;
mod budget;
mod buffers;
pub mod calibrate;
pub mod clients;
mod clock;
pub mod ctl;
mod deadline;
mod device;
pub mod driver;
mod error;
pub mod fuse;
pub mod http;
pub mod image;
mod inbox;
pub mod listen;
pub mod live;
mod lock;
pub mod nbd;
pub mod nvme_tcp;
pub mod order;
mod outbox;
pub mod overload;
pub mod plan;
mod report;
mod request;
mod timing;
pub mod tls;
#[cfg(all(feature = "ublk", target_os = "linux"))]
pub mod ublk;
#[cfg(all(feature = "vhost-user", target_os = "linux"))]
pub mod vhost_user;
mod wink;

pub use clients::Punctuality;
pub use clock::Clock;
pub use device::{Device, Shape};
pub use driver::{Driver, Ended, Options};
pub use error::Error;
pub use report::Report;
pub use request::{Fault, Io, Outcome};
pub use timing::Timing;
