//! What streams were counted for and the flash has not programmed: [`Stats`] count a unit where it is placed, the
//! flash counts a page when it is programmed, and what lies in a page that is being filled is between the two.
//!
//! An open page itself tells most of that. Noted beside it is only what it cannot tell: for which stream a
//! copy was counted, and how many sectors a read-modify-write carried along.

use nandle_nand::{Cause, PageUse, Ppn};

use super::counted::{Unit, Unprogrammed, add, of};
use super::{Flash, Stats, StreamCount, sectors_of};
use crate::space::GroupId;

impl Flash {
    /// The counters, but that what lies in pages that are being filled does not count as programmed yet: the sectors
    /// of all streams, and of parity, are those of the pages that the flash has programmed.
    pub(crate) fn stats_programmed(&self) -> Stats {
        let mut stats = self.stats.clone();
        let (open, Unprogrammed { more, less, .. }) = (self.in_open_pages(), &self.unprogrammed);
        let was_empty = stats.streams.is_empty();
        let all = [open.len(), more.len(), less.len()].into_iter().max().unwrap_or(0);
        stats.streams.resize(stats.streams.len().max(all), StreamCount::default());
        for (n, count) in stats.streams.iter_mut().enumerate() {
            let (more, less, open) = (of(more, n), of(less, n), of(&open, n));
            let programmed = |counted: u64, more: u64, less: u64| (counted + more).saturating_sub(less);
            count.host_sectors =
                programmed(count.host_sectors, more.host_sectors, less.host_sectors + open.host_sectors);
            count.media_sectors =
                programmed(count.media_sectors, more.media_sectors, less.media_sectors + open.media_sectors);
        }
        if was_empty && stats.streams.iter().all(|count| *count == StreamCount::default()) {
            stats.streams.clear();
        }
        stats.host_sectors_programmed = stats.streams.iter().map(|count| count.host_sectors).sum();
        stats
    }

    /// What was counted of the units in open pages, by stream.
    fn in_open_pages(&self) -> Vec<StreamCount> {
        let mut out = Vec::new();
        let units = self.media.open_pages().iter().flat_map(|page| self.array().together(page.first));
        for ppn in units.filter(|&ppn| self.array().page_use(ppn) != PageUse::Erased) {
            out.resize(self.host_groups + 2, StreamCount::default());
            let noted = || self.unprogrammed.units.iter().filter(|unit| unit.ppn == ppn);
            let copied = noted().find_map(|unit| unit.copied_for);
            let group = GroupId::from_number(self.array().stream(ppn));
            let stream = copied.map_or_else(|| self.stream_of(group), usize::from);
            let Some(count) = out.get_mut(stream) else { continue };
            count.media_sectors += u64::from(self.sectors_per_page());
            if copied.is_none() && self.array().page_use(ppn) == PageUse::Data {
                let carried: u64 = noted().map(|unit| u64::from(unit.carried)).sum();
                let sectors = u64::from(sectors_of(self.array().oob(ppn).extents));
                count.host_sectors += sectors.saturating_sub(carried);
            }
        }
        out
    }

    /// The next copies are of a page that was written for `group`.
    #[inline]
    pub(crate) fn copies_for(&mut self, group: GroupId) {
        self.copied_for = group;
    }

    /// A unit that the host did not write was entered into an open page for `group`.
    pub(super) fn note_copied(&mut self, ppn: Ppn, group: GroupId, cause: Cause) {
        let group = if cause == Cause::Gc { self.copied_for } else { group };
        let copied_for = Some(self.stream_of(group) as u16);
        self.unprogrammed.units.push(Unit { ppn, copied_for, carried: 0 });
    }

    /// So many sectors of a unit in an open page were there before.
    #[cold]
    pub(super) fn note_carried(&mut self, ppn: Ppn, sectors: u32) {
        self.unprogrammed.units.push(Unit { ppn, copied_for: None, carried: sectors as u16 });
    }

    /// The page that begins with `first` was programmed.
    pub(super) fn forget_units(&mut self, first: Ppn) {
        let array = self.media.array();
        self.unprogrammed.units.retain(|unit| array.first_slot(unit.ppn) != first);
    }

    /// A page of `group` is programmed again, elsewhere.
    pub(crate) fn count_repeated(&mut self, group: GroupId) {
        let stream = self.stream_of(group);
        let mut again = vec![StreamCount::default(); self.host_groups + 2];
        if let Some(count) = again.get_mut(stream) {
            count.media_sectors = u64::from(self.media.slots() * self.sectors_per_page());
        }
        add(&mut self.unprogrammed.more, &again);
    }

    /// The counters begin anew: what is in open pages will be programmed, and was counted.
    pub(super) fn reset_unprogrammed(&mut self) {
        (self.unprogrammed.more, self.unprogrammed.less) = (self.in_open_pages(), Vec::new());
    }

    /// The same, for when the power goes: what is in open pages never will be programmed.
    pub(super) fn unprogrammed_at_cut(&self) -> Unprogrammed {
        let Unprogrammed { more, mut less, .. } = self.unprogrammed.clone();
        add(&mut less, &self.in_open_pages());
        Unprogrammed { units: Vec::new(), more, less }
    }

    /// The accounts of before a power cut go on; what the recovery entered into open pages was not counted in them.
    pub(super) fn carry_unprogrammed_over(&mut self, before: Unprogrammed) {
        (self.unprogrammed.more, self.unprogrammed.less) = (before.more, before.less);
        let open = self.in_open_pages();
        add(&mut self.unprogrammed.more, &open);
    }
}
