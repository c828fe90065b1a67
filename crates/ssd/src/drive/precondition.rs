//! The state before the first request, reached in no simulated time.

use nandle_nand::{Extents, Note, Oob, PageUse, Ppn};
use nandle_random::Stream;

use super::Ssd;
use crate::space::{GroupId, PageClass, State};

impl Ssd {
    /// Brings the blocks of a new device into being, and fills it to the configured shares: exactly
    /// `used` of its pages programmed, exactly `valid` live, the dead ones at random places.
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
        if used > 0 {
            self.flash.media_mut().array_mut().expect_full();
            self.fill_to(used, valid, &mut Stream::new(seed, "precondition"));
            self.format_map();
            self.seal_format();
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

    fn fill_to(&mut self, used: u64, valid: u64, draw: &mut Stream) {
        let planes = self.flash.geometry().planes();
        // The logical pages of each plane, in ascending order, as the striping would place them.
        let plane_of = |lpn: u32| self.flash.space().home_plane(lpn).unwrap_or(lpn % planes);
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
                    len: self.flash.sectors_per_page() as u8,
                };
                self.format_data(plane, kind, extents, alive.then_some(lpn));
            }
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

    fn format_data(&mut self, plane: u32, kind: PageUse, extents: Extents<'_>, live: Option<u32>) {
        let Some(ppn) = self.format_page(plane, GroupId::Host(0), kind, extents) else { return };
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
