//! What a die reads whose planes read independently of each other.

use std::collections::VecDeque;

use crate::Time;

/// What the planes of one die read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    /// Reads in the array, with the time at which each is done; the first to be done comes last.
    pub array: Vec<(Time, u32)>,
    /// Reads whose pages are in their planes' registers; the first is on the channel or waits for it.
    pub registers: VecDeque<u32>,
    /// Planes that read, a bit each.
    pub planes: u32,
    /// Since when the die reads, and how long its pages were on the channel since.
    pub since: Time,
    pub transferred: u64,
}
