//! What the flash programs for each of those who share a drive.
//!
//! Every sector is whose who wrote it last. A page programmed for the host is charged to those whose sectors are new in
//! it, what fills it up included; a page that the drive moves, to those whose sectors it holds. Map, metadata and parity,
//! and what nobody of them wrote, are nobody's.

use nandle_ssd::Ssd;
use nandle_ssd::nand::{Array, Cause, Change, PageUse, Ppn};

/// Sectors whose owners are kept together: none for those that nobody wrote.
const CHUNK: usize = 1024;
/// Of an owner: the sector was written since it was programmed last.
const NEW: u32 = 1 << 31;

/// Bytes of flash programmed for one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// For what it wrote.
    pub programmed: u64,
    /// To move what it had written.
    pub copied: u64,
}

impl Charged {
    /// This, and what another was charged.
    pub fn add(&mut self, other: Self) {
        self.programmed += other.programmed;
        self.copied += other.copied;
    }
}

/// Whose each sector is, and what each was charged.
#[derive(Debug, Default)]
pub struct Charges {
    /// By sector: 0, or the number of its owner + 1.
    owners: Vec<Option<Box<[u32; CHUNK]>>>,
    accounts: Vec<Charged>,
    /// The page that was charged last, and to whom.
    last: Option<(Ppn, u32)>,
    sectors_per_page: u32,
    page_bytes: u64,
    changes: Vec<Change>,
}

impl Charges {
    /// Of a drive whose sectors are nobody's so far; its changes must be kept ([`Ssd::keep_changes`]).
    #[must_use]
    pub fn new(ssd: &Ssd) -> Self {
        let chunks = (ssd.layout().logical_sectors as usize).div_ceil(CHUNK);
        Self {
            owners: vec![None; chunks],
            sectors_per_page: ssd.flash().sectors_per_page(),
            page_bytes: ssd.config().unit_bytes().into(),
            ..Self::default()
        }
    }

    /// Number `who` writes these sectors; none: somebody who has no number.
    pub fn wrote(&mut self, who: Option<u32>, lsn: u64, sectors: u64) {
        let owner = who.filter(|&who| who < NEW - 1).map_or(0, |who| who + 1);
        if owner as usize > self.accounts.len() {
            self.accounts.resize(owner as usize, Charged::default());
        }
        for lsn in lsn..lsn + sectors {
            if let Some(chunk) = self.owners.get_mut(lsn as usize / CHUNK)
                && (owner > 0 || chunk.is_some())
            {
                chunk.get_or_insert_with(|| Box::new([0; CHUNK]))[lsn as usize % CHUNK] = owner | NEW;
            }
        }
    }

    /// Charges what the drive has programmed since it was last asked for its changes.
    pub fn take(&mut self, ssd: &mut Ssd) {
        let mut changes = std::mem::take(&mut self.changes);
        ssd.take_changes(&mut changes);
        self.follow(ssd.flash().array(), &changes);
        changes.clear();
        self.changes = changes;
    }

    /// Charges what was programmed, of all that changed.
    pub fn follow(&mut self, array: &Array, changes: &[Change]) {
        for &change in changes {
            let Change::Program(ppn, cause) = change else { continue };
            match array.page_use(ppn) {
                PageUse::Data => self.programmed(array, ppn, cause),
                PageUse::Padding => {
                    if let Some((page, owner)) = self.last
                        && page == array.first_slot(ppn)
                    {
                        self.charge(owner, cause, self.page_bytes);
                    }
                }
                _ => {}
            }
        }
    }

    fn programmed(&mut self, array: &Array, ppn: Ppn, cause: Cause) {
        let (mut all, mut new) = (0, 0);
        let extents = array.oob(ppn).extents;
        extents.each(self.sectors_per_page, |e| {
            for lsn in e.lsn..e.lsn + u64::from(e.sectors) {
                all += 1;
                new += u64::from(self.owner(lsn) & NEW > 0);
            }
        });
        // What is written again while it is being programmed counts as new the first time only.
        let only_new = !is_move(cause) && new > 0;
        let mut left = if only_new { new } else { all };
        let mut bytes = self.page_bytes;
        extents.each(self.sectors_per_page, |e| {
            for lsn in e.lsn..e.lsn + u64::from(e.sectors) {
                let owner = self.owner(lsn);
                if only_new && owner & NEW == 0 {
                    continue;
                }
                if only_new && let Some(Some(chunk)) = self.owners.get_mut(lsn as usize / CHUNK) {
                    chunk[lsn as usize % CHUNK] = owner & !NEW;
                }
                let share = bytes / left;
                (bytes, left) = (bytes - share, left - 1);
                self.charge(owner & !NEW, cause, share);
                self.last = Some((array.first_slot(ppn), owner & !NEW));
            }
        });
    }

    fn owner(&self, lsn: u64) -> u32 {
        match self.owners.get(lsn as usize / CHUNK) {
            Some(Some(chunk)) => chunk[lsn as usize % CHUNK],
            _ => 0,
        }
    }

    fn charge(&mut self, owner: u32, cause: Cause, bytes: u64) {
        if let Some(account) = (owner as usize).checked_sub(1).and_then(|who| self.accounts.get_mut(who)) {
            *(if is_move(cause) { &mut account.copied } else { &mut account.programmed }) += bytes;
        }
    }

    /// What number `who` was charged.
    #[must_use]
    pub fn of(&self, who: u32) -> Charged {
        self.accounts.get(who as usize).copied().unwrap_or_default()
    }

    /// What all of them were charged.
    #[must_use]
    pub fn all(&self) -> Charged {
        let mut all = Charged::default();
        self.accounts.iter().for_each(|&account| all.add(account));
        all
    }
}

fn is_move(cause: Cause) -> bool {
    !matches!(cause, Cause::Host | Cause::Rmw)
}
