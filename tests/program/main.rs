//! The command line: what it prints, writes and refuses.

#[path = "../served/mod.rs"]
mod served;

mod atlas;
mod cli;
mod command;
mod crash_test;
mod fsck;
mod laboratory;
mod logs;
mod metrics;
mod one_sentence;
mod outputs;
mod pages;
mod record;
mod reproduce;
mod reproduce_flashalloc;
mod reproduce_papa;
mod told_apart;
