//! The Network Block Device protocol: fixed newstyle, structured replies, flush, FUA, trim, zeros.
//!
//! [`wire`] is bytes to types, [`session`] the conversation, both pure; [`listen`] has the sockets.
//! Requests of any offset and length are carried out; those below the advertised minimum block size
//! (the sector) cost a read-modify-write.

pub mod listen;
mod secure;
pub mod session;
pub mod wire;

pub use listen::{Address, Server};
