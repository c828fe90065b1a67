//! Served drives: real servers with real clients.

#[path = "../served/mod.rs"]
mod served;

mod accounts;
mod copies;
mod ctl;
mod damage;
mod device;
mod fsync;
mod fuse;
mod host;
mod hostile;
mod image;
mod live;
mod nvme;
mod programs;
mod tls;
mod ublk;
mod vhost;
