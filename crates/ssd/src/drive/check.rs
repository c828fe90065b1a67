//! The check of any state, for tests.

use nandle_nand::{BlockCondition, PageUse, Ppn};

use super::Ssd;
use crate::space::State;

impl Ssd {
    /// Checks that map, blocks and out-of-band areas agree: each live sector has one owner that
    /// says so itself, each live page has an owner, each block is in one state.
    pub(super) fn check_state(&self) {
        self.flash.space().check(self.flash.media(), &self.collect.blocks_apart());
        self.schemes.check(&self.flash);
        let array = self.flash.array();
        let mut referred = std::collections::BTreeSet::new();
        for lpn in 0..self.flash.logical_pages() {
            let list = self.flash.fragments().get(lpn, array);
            let mut seen = 0;
            for f in &list {
                assert_eq!(seen & f.mask, 0, "page {lpn}: a sector with two owners");
                seen |= f.mask;
                assert_ne!(f.mask, 0, "page {lpn}: an empty fragment");
                assert!(self.flash.blocks().is_live(f.ppn), "page {lpn} lies in a dead page");
                referred.insert(f.ppn);
                let mut covered = 0_u64;
                let base = u64::from(lpn) * u64::from(self.flash.sectors_per_page());
                let oob = array.oob(f.ppn);
                assert!(oob.kind.is_data());
                oob.extents.each(self.flash.sectors_per_page(), |e| {
                    for n in 0..u64::from(e.sectors) {
                        let at = i64::from(e.at) + n as i64;
                        if (base..base + u64::from(self.flash.sectors_per_page())).contains(&(e.lsn + n))
                            && at - (e.lsn + n - base) as i64 == i64::from(f.shift)
                        {
                            covered |= 1 << (e.lsn + n - base);
                        }
                    }
                });
                assert_eq!(f.mask & !covered, 0, "page {lpn}: the out-of-band area does not know");
            }
        }
        referred.extend(self.flash.map().translation_pages().map(|(_, ppn)| ppn));
        referred.extend(self.durability.checkpoint_pages());
        referred.extend(self.durability.log_pages().iter().map(|&(_, ppn)| ppn));
        let mut live = 0_u64;
        for (block, state) in self.flash.blocks().each() {
            live += u64::from(self.flash.blocks().valid(block));
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
