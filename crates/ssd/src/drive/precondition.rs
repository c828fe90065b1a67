//! The state before the first request, reached in no simulated time.

use std::collections::VecDeque;

use nandle_nand::{Extents, Note, Oob, PageUse, Ppn};
use nandle_random::{Permutation, Stream, math};

use super::Ssd;
use crate::space::{GroupId, PageClass, State};

/// So many logical pages ahead their words are brought into the processor's cache.
const AHEAD: usize = 16;

/// Which of the pages that are programmed, the oldest first, are live.
struct Survival {
    /// Pages to come, and how many of them live.
    slots: u64,
    wanted: u64,
    /// The chance of the next page beside those of the others, the sum of all to come, and by how much the next one's is
    /// larger.
    weight: f64,
    rest: f64,
    growth: f64,
}

impl Survival {
    /// `live` of `used` pages, each as likely as any other.
    fn anywhere(used: u64, live: u64) -> Self {
        Self { slots: used, wanted: live, weight: 1.0, rest: used as f64, growth: 1.0 }
    }

    /// `live` of `used` pages that were written one after the other, and of which random writes have since superseded
    /// what they met: of those written `x` of the whole ago, exp(-ax) live. Where blocks are collected when they are the
    /// oldest, or the emptiest, which of large blocks are the same, `a` follows from (1 - exp(-a)) / a = live / used
    /// (Desnoyers 2012).
    fn by_age(used: u64, live: u64) -> Self {
        let share = live as f64 / used as f64;
        let (mut low, mut high) = (1e-9, 64.0);
        for _ in 0..100 {
            let a = (low + high) / 2.0;
            if (1.0 - math::exp(-a)) / a > share { low = a } else { high = a }
        }
        let (oldest, growth) = (math::exp(-low), math::exp(low / used as f64));
        // The sum of oldest, oldest * growth and so on.
        let rest = (growth - oldest * growth) / (growth - 1.0);
        Self { slots: used, wanted: live, weight: oldest * growth, rest, growth }
    }

    /// Whether the next page is live.
    fn next(&mut self, draw: &mut Stream) -> bool {
        let (wanted, slots) = (self.wanted, self.slots);
        let alive = match self.growth {
            1.0 => draw.below(slots) < wanted,
            // Both ends are exact, whatever was rounded.
            _ if wanted == 0 || wanted == slots => wanted > 0,
            _ => draw.unit() * self.rest < wanted as f64 * self.weight,
        };
        self.rest -= self.weight;
        self.weight *= self.growth;
        self.slots -= 1;
        self.wanted -= u64::from(alive);
        alive
    }
}

impl Ssd {
    /// Brings the blocks of a new device into being, and fills it to the configured shares: exactly
    /// `used` of its pages programmed, exactly `valid` live, the dead ones at random places; or as it is in the long run.
    pub(super) fn format(&mut self, seed: u64) {
        let mut draw = Stream::new(seed, "factory");
        let per_plane = self.flash.geometry().blocks_per_plane;
        let bad = (self.config.wear.factory_bad * f64::from(per_plane)).floor() as u32;
        for plane in 0..self.flash.geometry().planes() {
            let (mut left, mut wanted) = (per_plane, bad);
            for block in self.flash.geometry().blocks_of(plane) {
                if draw.below(u64::from(left)) < u64::from(wanted) {
                    wanted -= 1;
                    self.flash.media_mut().array_mut().set_bad(block);
                } else {
                    self.flash.space_mut().blocks_mut().put_free(block, 0);
                }
                left -= 1;
            }
        }
        let pages = self.flash.geometry().pages() as f64;
        let p = &self.config.precondition;
        let (used, valid) = ((p.used * pages).round() as u64, (p.valid * pages).round() as u64);
        if used > 0 || p.steady {
            let mut draw = Stream::new(seed, "precondition");
            self.flash.media_mut().array_mut().expect_full();
            if p.steady {
                self.fill_steadily(&mut draw)
            } else {
                self.fill_to(used, valid, &mut draw)
            }
            self.format_map();
            self.seal_format();
            self.look_at_full_planes();
        }
    }

    /// Where the mapping table took the last blocks that the host may have, collection begins without being asked.
    fn look_at_full_planes(&mut self) {
        for plane in 0..self.flash.geometry().planes() {
            let space = self.flash.space_mut();
            if space.spare(plane) <= space.limits().hard {
                space.look_at(plane);
            }
        }
    }

    /// The last page of each block that was filled is as full as it gets.
    fn seal_format(&mut self) {
        let open: Vec<_> =
            self.flash.blocks().each().filter(|&(_, state)| state == State::Open).map(|(b, _)| b).collect();
        for block in open {
            self.flash.media_mut().array_mut().seal_open_page(block);
            let first = self.flash.geometry().ppn(block, 0);
            let (space, media) = self.flash.space_and_media();
            if media.array().is_full(block) {
                space.avoid(block, media);
                self.format_close(first);
            }
        }
    }

    /// The mapping table of an aged drive lies in flash, as far as there is room beside the reserve.
    fn format_map(&mut self) {
        let planes = self.flash.geometry().planes();
        for page in 0..self.flash.map().map_pages() {
            let entries = self.flash.map().entries(page, self.flash.array());
            let plane = page % planes;
            let room = self.flash.room(plane, GroupId::System, PageClass::SYSTEM);
            if entries.iter().all(|&byte| byte == 0) || room == 0 {
                continue;
            }
            let spp = self.flash.sectors_per_page();
            let extents = Extents::Home { lpn: page, start: 0, len: spp as u8 };
            let Some(ppn) = self.format_page(plane, GroupId::System, PageUse::Map, extents) else { return };
            self.flash.media_mut().array_mut().set_note(ppn, Note::new(&entries));
            self.flash.space_mut().blocks_mut().set_live::<false>(ppn);
            if let Some(cache) = self.flash.map_mut().cache_mut() {
                cache.set_location(page, ppn);
            }
            self.format_close(ppn);
        }
    }

    /// The first logical page of each plane, as the striping would place them: the plane's others follow it, as many
    /// apart as there are planes.
    fn first_of_planes(&self) -> Vec<u32> {
        let planes = self.flash.geometry().planes();
        let plane_of = |lpn: u32| self.flash.space().home_plane(lpn).unwrap_or(lpn % planes);
        let mut first = vec![0_u32; planes as usize];
        for lpn in 0..planes {
            first[plane_of(lpn) as usize] = lpn;
        }
        first
    }

    fn fill_to(&mut self, used: u64, valid: u64, draw: &mut Stream) {
        for (plane, first) in (0..).zip(self.first_of_planes()) {
            let (used, live) = (self.share_of(first, used), self.share_of(first, valid));
            let host = |_| GroupId::Host(0);
            self.fill_plane((plane, first), Survival::anywhere(used, live), draw, host, |number| number);
        }
    }

    /// As if random writes had gone on for long: each plane has just the free blocks with which collection begins, and an
    /// open block each for the host and for what collection copies, filled to anywhere.
    fn fill_steadily(&mut self, draw: &mut Stream) {
        let pages = u64::from(self.flash.geometry().pages_per_block);
        let not_full = self.layout.soft_blocks + 2;
        let logical = u64::from(self.flash.logical_pages());
        let survivors = self.flash.space().survivors_of(GroupId::Host(0));
        for (plane, first) in (0..).zip(self.first_of_planes()) {
            let live = self.share_of(first, logical);
            let full = u64::from(self.flash.blocks().free(plane).saturating_sub(not_full)) * pages;
            let (copied, written) = (draw.below(pages), draw.below(pages));
            let used = (full + copied + written).max(live);
            let group = |left: u64| {
                if (written..written + copied).contains(&left) { survivors } else { GroupId::Host(0) }
            };
            let order = Permutation::new(live, draw);
            let survival = Survival::by_age(used, live);
            self.fill_plane((plane, first), survival, draw, group, |number| order.at(number));
        }
    }

    /// The part of `total` that the plane has whose first logical page is `first`.
    fn share_of(&self, first: u32, total: u64) -> u64 {
        let planes = u64::from(self.flash.geometry().planes());
        total / planes + u64::from(u64::from(first) < total % planes)
    }

    /// Fills a plane with its logical pages from `first` on, in the given `order`; what `group` a page is written for is
    /// asked with the number of those that follow it.
    fn fill_plane(
        &mut self,
        (plane, first): (u32, u32),
        mut survival: Survival,
        draw: &mut Stream,
        group: impl Fn(u64) -> GroupId,
        order: impl Fn(u64) -> u64,
    ) {
        let planes = u64::from(self.flash.geometry().planes());
        let live = survival.wanted;
        // Words of the map that lie anywhere are brought near before they are needed, and before them what leads to them.
        let mut coming: VecDeque<u32> = VecDeque::with_capacity(2 * AHEAD);
        let mut numbers = 0..live;
        while survival.slots > 0 {
            while coming.len() < 2 * AHEAD
                && let Some(number) = numbers.next()
            {
                let lpn = (u64::from(first) + order(number) * planes) as u32;
                self.flash.fragments().prefetch_leaf(lpn);
                coming.push_back(lpn);
            }
            if let Some(&soon) = coming.get(AHEAD) {
                self.flash.fragments().prefetch(soon);
            }
            // A dead page is an older copy of the next page to come; the last ones are padding.
            let (kind, lpn) = coming.front().map_or((PageUse::Padding, 0), |&lpn| (PageUse::Data, lpn));
            let alive = survival.next(draw);
            if alive {
                coming.pop_front();
            }
            let extents = Extents::Home { lpn, start: 0, len: self.flash.sectors_per_page() as u8 };
            self.format_data((plane, group(survival.slots)), kind, extents, alive.then_some(lpn));
        }
    }

    /// Programs a page in no time.
    fn format_page(
        &mut self,
        plane: u32,
        group: GroupId,
        kind: PageUse,
        extents: Extents<'_>,
    ) -> Option<Ppn> {
        let class = PageClass::SYSTEM;
        let (space, media) = self.flash.space_and_media();
        let ppn = space.take::<false>(0, plane, group, class, media)?.ppn;
        let oob = Oob { kind, owner: Oob::PLAIN, stream: class.label(group), extents };
        media.array_mut().lay(ppn, &oob);
        Some(ppn)
    }

    fn format_data(
        &mut self,
        (plane, group): (u32, GroupId),
        kind: PageUse,
        extents: Extents<'_>,
        live: Option<u32>,
    ) {
        let Some(ppn) = self.format_page(plane, group, kind, extents) else { return };
        let zeros = vec![0; self.unit() * self.flash.sectors_per_page() as usize];
        if !zeros.is_empty() {
            self.flash.media_mut().array_mut().fill(ppn, 0, &zeros);
        }
        if let Some(lpn) = live {
            self.flash.space_mut().blocks_mut().set_live::<false>(ppn);
            self.flash.map_mut().fragments_mut().set_single(lpn, ppn);
        }
        self.format_close(ppn);
    }

    fn format_close(&mut self, ppn: Ppn) {
        let block = self.flash.geometry().block_of(ppn);
        if self.flash.array().is_full(block) {
            self.flash.space_mut().blocks_mut().close(block, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_as_many_live_as_asked_for_and_more_of_the_younger() {
        let mut draw = Stream::new(1, "survival");
        for (used, live) in
            [(1, 1), (7, 3), (1000, 1000), (1000, 999), (1000, 1), (1000, 0), (100_000, 91_600)]
        {
            for by_age in [false, true] {
                let mut survival =
                    if by_age { Survival::by_age(used, live) } else { Survival::anywhere(used, live) };
                let alive: Vec<bool> = (0..used).map(|_| survival.next(&mut draw)).collect();
                let count = |some: &[bool]| some.iter().filter(|&&alive| alive).count() as u64;
                assert_eq!(count(&alive), live, "of {used}");
                if used == 100_000 {
                    // a = 0.178: 84.4% of the oldest tenth, 99.1% of the youngest.
                    let (old, young) = (count(&alive[..10_000]), count(&alive[90_000..]));
                    let expected = if by_age { [8443, 9911] } else { [9160, 9160] };
                    assert!(
                        old.abs_diff(expected[0]) < 150 && young.abs_diff(expected[1]) < 150,
                        "{old} {young}"
                    );
                }
            }
        }
    }
}
