//! What the next flush makes durable.

use std::collections::BTreeMap;

/// A write or trim: first sector, sectors, stamp.
pub(super) type Piece = (u64, u64, u64);

/// Entries below which nothing is gained by merging.
const FEW: usize = 1024;

/// Writes and trims that were acknowledged since the last flush was submitted. Merged now and then, so
/// that without flushes it is bounded by the drive, not by the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Unflushed {
    pieces: Vec<Piece>,
    /// How many were left by the last merge.
    merged: usize,
}

impl Unflushed {
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
        if self.pieces.len() >= FEW.max(2 * self.merged) {
            self.merge();
        }
    }

    pub fn take(&mut self) -> Vec<Piece> {
        self.merged = 0;
        std::mem::take(&mut self.pieces)
    }

    /// Keeps each sector's newest stamp alone.
    fn merge(&mut self) {
        self.pieces.sort_unstable_by_key(|&(_, _, stamp)| stamp);
        // First sector -> (end, stamp), disjoint.
        let mut newest: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (lsn, sectors, stamp) in self.pieces.drain(..) {
            let end = lsn + sectors;
            let before = newest.range(..lsn).next_back().map(|(&start, &old)| (start, old));
            if let Some((start, (old_end, old))) = before.filter(|&(_, (old_end, _))| old_end > lsn) {
                newest.insert(start, (lsn, old));
                if old_end > end {
                    newest.insert(end, (old_end, old));
                }
            }
            while let Some((start, (old_end, old))) = newest.range(lsn..end).next().map(|(&s, &o)| (s, o)) {
                newest.remove(&start);
                if old_end > end {
                    newest.insert(end, (old_end, old));
                }
            }
            newest.insert(lsn, (end, stamp));
        }
        self.pieces.extend(newest.into_iter().map(|(lsn, (end, stamp))| (lsn, end - lsn, stamp)));
        self.merged = self.pieces.len();
    }
}

#[cfg(test)]
mod tests {
    use nandle_random::Stream;

    use super::*;

    #[test]
    fn merging_forgets_nothing_and_is_bounded() {
        let (mut unflushed, mut draw) = (Unflushed::default(), Stream::new(1, "unflushed"));
        let mut newest = vec![0; 500];
        for stamp in 1..100_000 {
            let lsn = draw.below(490);
            let sectors = 1 + draw.below(10);
            newest[lsn as usize..(lsn + sectors) as usize].fill(stamp);
            unflushed.push((lsn, sectors, stamp));
        }
        let pieces = unflushed.take();
        assert!(pieces.len() <= FEW, "{} pieces", pieces.len());
        let mut found = vec![0; 500];
        for (lsn, sectors, stamp) in pieces {
            found[lsn as usize..(lsn + sectors) as usize].iter_mut().for_each(|f| *f = stamp.max(*f));
        }
        assert_eq!(found, newest);
        assert!(unflushed.take().is_empty());
    }
}
