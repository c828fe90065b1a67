//! The drive alone, in virtual time: a file of tests for each thing that it promises.

#[path = "../devices/mod.rs"]
mod devices;
#[path = "../devices/drive.rs"]
mod drive;
#[path = "../served/mod.rs"]
mod served;
#[path = "../devices/torture.rs"]
mod torture;

mod across;
mod atomic;
mod closed_forms;
mod compose;
mod crash;
mod ends;
mod extending;
mod faults;
mod objects;
mod oracle;
mod outside;
mod pacing;
mod page_types;
mod parts;
mod property;
mod queue;
mod steady;
mod streams;
mod superblocks;
mod theory;
mod units;
mod waflash;
