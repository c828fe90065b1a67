//! FA instances in the metadata log: a record for each range when one is made, and a record of its end.

use super::FlashAlloc;
use super::instances::Instance;
use crate::flash::{Flash, SchemeRecord};
use crate::space::claims::Claim;

/// An instance has a range, in a group, with so many blocks.
const RANGE: u8 = 1;
/// An instance is at its end.
const END: u8 = 2;
/// All instances have new names: the next sequence numbers. Once all of their ranges are on flash, older
/// records say nothing.
const RENEWED: u8 = 3;

/// All kinds, in the metadata log for good.
pub(super) const KINDS: &[u8] = &[RANGE, END, RENEWED];

// A range: blocks 24 | lsn 40, guessed 1 | group 16 | sectors 40.
const WIDE: u32 = 40;
const LOW: u64 = (1 << WIDE) - 1;
const GUESSED: u32 = WIDE + 16;

/// The records that make an instance of this name known; `auto`: the drive made it by itself.
pub(super) fn range_records(born: u64, claim: &Claim, auto: bool) -> impl Iterator<Item = SchemeRecord> + '_ {
    claim.ranges.iter().map(move |&(lsn, end)| {
        let first = lsn | u64::from(claim.blocks) << WIDE;
        let second = (end - lsn) | u64::from(claim.group) << WIDE | u64::from(auto) << GUESSED;
        SchemeRecord { kind: RANGE, seq: born, words: [first, second] }
    })
}

/// The instance of this name is at its end.
pub(super) fn end_record(born: u64, seq: u64) -> SchemeRecord {
    SchemeRecord { kind: END, seq, words: [born, 0] }
}

impl FlashAlloc {
    /// All live instances under new names.
    pub(super) fn renew(&mut self, flash: &mut Flash) -> Vec<SchemeRecord> {
        if !self.instances.is_recorded() {
            return vec![];
        }
        let seq = flash.media_mut().array_mut().take_seq();
        let Some(dedicated) = flash.space().dedicated() else { return vec![] };
        let ranges = dedicated.claims().range_count() as u64;
        let live: Vec<u32> = dedicated.claims().live().map(|(slot, _)| slot).collect();
        let words = [u64::from(self.instances.live()), ranges];
        let mut out = vec![SchemeRecord { kind: RENEWED, seq, words }];
        for slot in live {
            let born = flash.media_mut().array_mut().take_seq();
            self.instances.rename(slot, born);
            if let Some(dedicated) = flash.space().dedicated() {
                let auto = self.instances.is_guessed(slot);
                out.extend(range_records(born, dedicated.claims().get(slot), auto));
            }
        }
        out
    }

    /// At power-on: finds the newest complete set of names; older records are not listened to.
    pub(super) fn expect(&mut self, records: &[SchemeRecord]) {
        if records.iter().any(|r| (RANGE..=RENEWED).contains(&r.kind)) {
            self.instances.note_recorded();
        }
        for record in records.iter().filter(|r| r.kind == RENEWED) {
            let &SchemeRecord { seq, words: [instances, ranges], .. } = record;
            let named = |r: &&SchemeRecord| r.kind == RANGE && (seq + 1..=seq + instances).contains(&r.seq);
            let mut found: Vec<(u64, u64)> =
                records.iter().filter(named).map(|r| (r.seq, r.words[0] & LOW)).collect();
            found.sort_unstable();
            found.dedup();
            if found.len() as u64 == ranges {
                self.since = self.since.max(seq);
            }
        }
    }

    /// At power-on: a record, in the order of sequence numbers.
    pub(super) fn learn_record(&mut self, flash: &mut Flash, record: &SchemeRecord) {
        let &SchemeRecord { kind, seq, words: [a, b] } = record;
        if seq <= self.since {
            return;
        }
        match kind {
            RANGE => {
                let (lsn, sectors) = (a & LOW, b & LOW);
                let claim = Claim {
                    live: true,
                    group: (b >> WIDE) as u16,
                    ranges: smallvec::smallvec![(lsn, lsn + sectors)],
                    left: 0,
                    blocks: (a >> WIDE) as u32,
                };
                self.learn_range(flash, seq, claim, b >> GUESSED & 1 == 1);
            }
            END => {
                if let Some(slot) = self.instances.named(a) {
                    self.unlearn(flash, slot);
                }
            }
            _ => {}
        }
    }

    fn learn_range(&mut self, flash: &mut Flash, born: u64, claim: Claim, auto: bool) {
        let range = claim.ranges[0];
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        // The newest record of a range is the true one.
        for slot in dedicated.claims_mut().forget(range.0, range.1) {
            if self.instances.born(slot) != born {
                dedicated.claims_mut().remove(slot);
                self.instances.unlearn(slot);
            }
        }
        match self.instances.named(born) {
            Some(slot) => dedicated.claims_mut().extend(slot, range),
            None => {
                let slot = dedicated.claims_mut().enter(claim);
                self.instances.set(slot, Instance { born, cost: 0, auto });
            }
        }
    }

    fn unlearn(&mut self, flash: &mut Flash, slot: u32) {
        if let Some(dedicated) = flash.space_mut().dedicated_mut() {
            dedicated.claims_mut().remove(slot);
        }
        self.instances.unlearn(slot);
    }
}
