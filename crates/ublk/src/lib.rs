//! Linux's block devices in user space: the ublk driver's interface, safe to use.
//!
//! [`uapi`] has the numbers and layouts of `<linux/ublk_cmd.h>`, [`Control`] adds, starts, stops and deletes
//! devices, a [`Queue`] brings what the kernel asks of one and takes the answers. Data is copied by
//! `pread` and `pwrite` (`UBLK_F_USER_COPY`, Linux 6.5): the kernel is never given the address of a buffer
//! that it fills later, and what is unsafe here is the ring and one read-only mapping.
//!
//! Source: the kernel's documentation, "Userspace block device driver (ublk driver)", and that header.
#![cfg(target_os = "linux")]

mod control;
mod queue;
pub mod uapi;

pub use control::{Control, block_device, open_device};
pub use queue::{Event, Queue, Waker};
