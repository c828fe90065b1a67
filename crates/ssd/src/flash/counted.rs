//! What keeps the counts of streams and those of the flash apart: what of it an open page does not tell.

use nandle_nand::Ppn;

use super::stats::StreamCount;

/// Of a unit in an open page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    pub ppn: Ppn,
    /// The stream that it was counted for, if the host did not write it.
    pub copied_for: Option<u16>,
    /// Sectors of it that the host did not write.
    pub carried: u16,
}

/// What keeps the counts of streams and those of the flash apart.
#[derive(Clone, Debug, Default)]
pub(super) struct Unprogrammed {
    pub units: Vec<Unit>,
    /// Programmed since the counters were reset though counted before, and what was programmed again.
    pub more: Vec<StreamCount>,
    /// Counted, and lost with the power.
    pub less: Vec<StreamCount>,
}

pub(super) fn of(streams: &[StreamCount], stream: usize) -> StreamCount {
    streams.get(stream).copied().unwrap_or_default()
}

pub(super) fn add(streams: &mut Vec<StreamCount>, more: &[StreamCount]) {
    streams.resize(streams.len().max(more.len()), StreamCount::default());
    for (sum, count) in streams.iter_mut().zip(more) {
        sum.host_sectors += count.host_sectors;
        sum.media_sectors += count.media_sectors;
    }
}
