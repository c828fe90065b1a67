//! Served drives whose times are compared with those of the machine: in a program of their own, so that no other tests
//! run beside them.

#[path = "../served/mod.rs"]
mod served;

mod clients;
mod neighbours;
mod time;
