//! vhost-user-blk: a virtio disk whose rings a virtual machine shares with us (QEMU, cloud-hypervisor,
//! User-Mode Linux).
//!
//! [`blk`] is bytes to types and back (Virtual I/O Device 1.2, section 5.2), [`listen`] has the socket
//! and the rings; what the front end says and where its rings lie is checked by the crates of rust-vmm.

pub mod blk;
pub mod listen;

pub use listen::Server;
