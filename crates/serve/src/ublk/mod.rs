//! A block device of Linux's own, `/dev/ublkbN`: the kernel hands over its requests and takes the answers.
//!
//! [`blk`] says what the drive is and what is asked of it, [`queue`] is the conversation at one queue, without
//! the kernel, [`server`] has devices and threads. What the kernel gives and takes is in the crate
//! `nandle-ublk`.

pub mod blk;
pub mod queue;
pub mod server;

pub use server::{Handle, Server, check};

/// Tells the kernel that this thread carries out what its memory management waits for, so that it never has to
/// wait for itself. Without the right to say so (`CAP_SYS_RESOURCE`) it goes on as it is.
pub fn serves_the_kernel() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}
