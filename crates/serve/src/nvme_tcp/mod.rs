//! NVMe over TCP: an NVM subsystem with one namespace, and a discovery controller.
//!
//! [`wire`] is bytes to types, [`session`] one connection and [`subsystem`] what connections share
//! (controllers, features), [`identify`] and [`logs`] the data structures, [`model`] what they tell of; all of that
//! is pure.
//! [`listen`] has the sockets; [`wire`] and the initiator [`host`] are those of `nandle-host`. Section and figure names are those of
//! the NVM Express Base Specification 2.0, the NVMe/TCP Transport Specification 1.0, the NVM Command
//! Set Specification 1.0 and TP4146 (Flexible Data Placement).
//!
//! Limits that must agree: the largest transfer is [`wire::MOST_DATA`], which is MDTS, the largest
//! R2T and MAXH2CDATA at once; commands carry up to [`wire::IN_CAPSULE`] bytes in their capsule, which
//! is IOCCSZ.

pub mod identify;
pub mod listen;
pub mod logs;
pub mod model;
pub mod session;
pub mod subsystem;

pub use listen::Server;
pub use nandle_host::{Address, initiator as host, wire};
