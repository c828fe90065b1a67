//! The state before the first request, reached in no simulated time, and the check of any state.

use nandle_nand::{BlockCondition, Extents, Oob, PageUse, Ppn};
use nandle_random::Stream;

use crate::allocation::{PageClass, Role};
use crate::blocks::State;
use crate::flash::Flash;
use crate::map_cache::MapCache;
use crate::striping::Striping;

impl Flash {
    /// Brings the blocks of a new device into being, and fills it to the configured shares: exactly
    /// `used` of its pages programmed, exactly `valid` live, the dead ones at random places.
    pub(crate) fn format(&mut self, seed: u64) {
        let mut draw = Stream::new(seed, "factory");
        let per_plane = self.geometry().blocks_per_plane;
        let bad = (self.config.wear.factory_bad * f64::from(per_plane)).floor() as u32;
        for plane in 0..self.geometry().planes() {
            let (mut left, mut wanted) = (per_plane, bad);
            for block in self.geometry().blocks_of(plane) {
                if draw.below(u64::from(left)) < u64::from(wanted) {
                    wanted -= 1;
                    self.nand.array_mut().set_bad(block);
                } else {
                    self.blocks.put_free(block, 0);
                }
                left -= 1;
            }
        }
        let pages = self.geometry().pages() as f64;
        let p = &self.config.precondition;
        let (used, valid) = ((p.used * pages).round() as u64, (p.valid * pages).round() as u64);
        if used > 0 {
            self.fill_to(used, valid, &mut Stream::new(seed, "precondition"));
            self.format_map();
        }
    }

    /// The mapping table of an aged drive lies in flash, as far as there is room beside the reserve.
    fn format_map(&mut self) {
        let MapCache::OnDemand(map) = &self.map else { return };
        let planes = self.geometry().planes();
        for page in 0..map.map_pages() {
            let entries = self.table.entries(page, &self.fragments, &self.layout);
            let plane = page % planes;
            if entries.iter().all(|&byte| byte == 0) || self.room(plane, Role::System, PageClass::SYSTEM) == 0
            {
                continue;
            }
            let extents = Extents::Home { lpn: page, start: 0, len: self.spp as u8 };
            let ppn = self.format_page(plane, Role::System, PageUse::Map, extents);
            self.nand.array_mut().set_note(ppn, entries.into());
            self.blocks.set_live(ppn);
            if let MapCache::OnDemand(map) = &mut self.map {
                map.set_location(page, ppn);
            }
            self.format_close(ppn);
        }
    }

    fn fill_to(&mut self, used: u64, valid: u64, draw: &mut Stream) {
        let planes = self.geometry().planes();
        // The logical pages of each plane, in ascending order, as the striping would place them.
        let plane_of = |lpn: u32| match &self.striping {
            Striping::Static(order) => order.plane(lpn),
            Striping::Dynamic(_) => lpn % planes,
        };
        let mut slot_of = vec![0_u32; planes as usize];
        for lpn in 0..planes {
            slot_of[plane_of(lpn) as usize] = lpn;
        }
        for (plane, &first) in (0..planes).zip(&slot_of) {
            let share = |total: u64| {
                total / u64::from(planes) + u64::from(u64::from(first) < total % u64::from(planes))
            };
            let (used, live) = (share(used), share(valid));
            let (mut slots, mut wanted) = (used, live);
            for _ in 0..used {
                let alive = draw.below(slots) < wanted;
                slots -= 1;
                // A dead page is an older copy of the next page to come; the last ones are padding.
                let number = live - wanted;
                let lpn = (u64::from(first) + number * u64::from(planes)) as u32;
                let kind = if wanted > 0 { PageUse::Data } else { PageUse::Padding };
                wanted -= u64::from(alive);
                let extents = Extents::Home {
                    lpn: if wanted + u64::from(alive) > 0 { lpn } else { 0 },
                    start: 0,
                    len: self.spp as u8,
                };
                self.format_data(plane, kind, extents, alive.then_some(lpn));
            }
        }
    }

    /// Programs a page in no time.
    fn format_page(&mut self, plane: u32, role: Role, kind: PageUse, extents: Extents<'_>) -> Ppn {
        let ppn = self
            .allocation
            .take(
                plane,
                role,
                PageClass::SYSTEM,
                self.nand.array(),
                &mut self.blocks,
                &mut self.stats.allocation,
            )
            .expect("the shares were validated");
        self.nand.array_mut().program(ppn, &Oob { kind, stream: PageClass::SYSTEM.label(role), extents });
        ppn
    }

    fn format_data(&mut self, plane: u32, kind: PageUse, extents: Extents<'_>, live: Option<u32>) {
        let ppn = self.format_page(plane, Role::Host(0), kind, extents);
        if self.nand.array().unit() > 0 {
            let zeros = vec![0; self.nand.array().unit() * self.spp as usize];
            self.nand.array_mut().fill(ppn, 0, &zeros);
        }
        if let Some(lpn) = live {
            self.blocks.set_live(ppn);
            self.fragments.set_single(lpn, ppn);
        }
        self.format_close(ppn);
    }

    fn format_close(&mut self, ppn: Ppn) {
        let block = self.geometry().block_of(ppn);
        if self.nand.array().pages_programmed(block) == self.geometry().pages_per_block {
            self.blocks.close(block, 0);
        }
    }

    /// Checks that map, blocks and out-of-band areas agree: each live sector has one owner that
    /// says so itself, each live page has an owner, each block is in one state.
    pub(crate) fn check(&self) {
        self.blocks.check();
        self.check_areas();
        self.check_regions();
        self.allocation.check(self.nand.array(), &self.blocks);
        self.check_objects();
        let array = self.nand.array();
        let mut referred = std::collections::BTreeSet::new();
        for lpn in 0..self.fragments.len() {
            let list = self.fragments.get(lpn, array);
            let mut seen = 0;
            for f in &list {
                assert_eq!(seen & f.mask, 0, "page {lpn}: a sector with two owners");
                seen |= f.mask;
                assert_ne!(f.mask, 0, "page {lpn}: an empty fragment");
                assert!(self.blocks.is_live(f.ppn), "page {lpn} lies in a dead page");
                referred.insert(f.ppn);
                let mut covered = 0_u64;
                let base = u64::from(lpn) * u64::from(self.spp);
                let oob = array.oob(f.ppn);
                assert_eq!(oob.kind, PageUse::Data);
                oob.extents.each(self.spp, |e| {
                    for n in 0..u64::from(e.sectors) {
                        let at = i64::from(e.at) + n as i64;
                        if (base..base + u64::from(self.spp)).contains(&(e.lsn + n))
                            && at - (e.lsn + n - base) as i64 == i64::from(f.shift)
                        {
                            covered |= 1 << (e.lsn + n - base);
                        }
                    }
                });
                assert_eq!(f.mask & !covered, 0, "page {lpn}: the out-of-band area does not know");
            }
        }
        if let MapCache::OnDemand(map) = &self.map {
            referred.extend((0..map.map_pages()).filter_map(|page| map.location(page)));
        }
        referred.extend(self.checkpoint.pages());
        referred.extend(self.log.pages.iter().map(|&(_, ppn)| ppn));
        let mut live = 0_u64;
        for (block, state) in self.blocks.each() {
            live += u64::from(self.blocks.valid(block));
            if state == State::Free {
                assert_eq!(array.pages_programmed(block), 0, "a free block is erased");
                assert_eq!(array.condition(block), BlockCondition::Good);
            }
        }
        assert_eq!(live, referred.len() as u64, "live pages without an owner");
        let at_least = |p: Ppn| array.page_use(p) != PageUse::Erased;
        assert!(referred.iter().all(|&p| at_least(p)));
    }
}
