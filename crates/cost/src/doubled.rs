//! Pages that are written twice, so that a torn one can be repaired: found by their contents.
//!
//! A database that overwrites pages in place writes them somewhere else before (InnoDB's doublewrite buffer). Of the
//! blocks of such an area it is known that what they hold is written elsewhere soon after.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use nandle_observe::event::{Event, FileId, What};

use crate::ext4::BLOCK;

/// The copy comes before so many more flushes.
const SOON: u64 = 4;

/// Blocks whose contents are written elsewhere too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubled {
    blocks: HashSet<(FileId, u64)>,
    /// Bytes of the pages that are kept whole that way; 0 if there are none.
    pub page: u64,
}

impl Doubled {
    /// Looks for them.
    pub fn find(events: &[Event]) -> Self {
        // By contents: who wrote them last, and at which flush.
        let mut last: HashMap<u64, (FileId, u64, u64)> = HashMap::new();
        let mut writes: HashMap<(FileId, u64), (u64, u64)> = HashMap::new();
        let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
        let mut flushes = 0;
        for Event { what, .. } in events {
            flushes += u64::from(what.is_flush());
            let What::Write { file, offset, data, .. } = what else { continue };
            if !offset.is_multiple_of(BLOCK) || !(data.len() as u64).is_multiple_of(BLOCK) {
                continue;
            }
            for (block, bytes) in (offset / BLOCK..).zip(data.chunks_exact(BLOCK as usize)) {
                if bytes.iter().all(|&byte| byte == bytes[0]) {
                    continue;
                }
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                let before = last.insert(hasher.finish(), (*file, block, flushes));
                writes.entry((*file, block)).or_default().0 += 1;
                let Some((file_before, block_before, at)) = before else { continue };
                if (file_before, block_before) != (*file, block) && flushes - at < SOON {
                    writes.entry((file_before, block_before)).or_default().1 += 1;
                    *pages.entry((data.len() as u64).min(1 << 16)).or_default() += 1;
                }
            }
        }
        let is_doubled =
            |&(_, (writes, copied)): &((FileId, u64), (u64, u64))| copied > 0 && copied * 2 >= writes;
        let blocks: HashSet<_> = writes.into_iter().filter(is_doubled).map(|(block, _)| block).collect();
        let page = pages.into_iter().filter(|(bytes, _)| bytes.is_power_of_two());
        let page = page.max_by_key(|&(_, count)| count).map_or(0, |(bytes, _)| bytes);
        if page == 0 { Self::default() } else { Self { blocks, page } }
    }

    /// Whether this block is one.
    pub fn has(&self, file: FileId, block: u64) -> bool {
        !self.blocks.is_empty() && self.blocks.contains(&(file, block))
    }

    /// Bytes of a write that fall into such blocks.
    pub fn of_write(&self, file: FileId, offset: u64, bytes: u64) -> u64 {
        let end = offset + bytes;
        let blocks = (offset / BLOCK..end.div_ceil(BLOCK)).filter(|&block| self.has(file, block));
        blocks.map(|block| end.min((block + 1) * BLOCK) - offset.max(block * BLOCK)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: FileId, page: u64, contents: u8) -> Event {
        let mut data = vec![0x5a; 16_384];
        for (block, bytes) in (0..).zip(data.chunks_mut(4096)) {
            (bytes[9], bytes[10]) = (contents, block);
        }
        let what = What::Write { file, offset: page * 16_384, data: data.into(), durable: false };
        Event { what, at_ns: 0, process: 0 }
    }

    fn flush(file: FileId) -> Event {
        Event { what: What::Flush { file, data_only: true }, at_ns: 0, process: 0 }
    }

    #[test]
    fn what_is_written_first_to_one_place_and_then_to_many_is_a_copy() {
        let mut events = Vec::new();
        for round in 0..8u8 {
            // The same two slots each time; then in place.
            let (a, b) = (round * 2, round * 2 + 1);
            events.extend([write(2, 64, a), write(2, 65, b), flush(2)]);
            events.extend([write(3, u64::from(a), a), write(3, 900 + u64::from(b), b), flush(3)]);
        }
        let found = Doubled::find(&events);
        assert_eq!(found.page, 16_384);
        let blocks: HashSet<(FileId, u64)> = (256..264).map(|block| (2, block)).collect();
        assert_eq!(found.blocks, blocks);
        assert_eq!(found.of_write(2, 64 * 16_384 - 100, 200), 100);
    }

    #[test]
    fn what_is_copied_much_later_is_no_copy() {
        let events = [write(2, 0, 1), flush(2), flush(2), flush(2), flush(2), write(2, 1, 1)];
        assert_eq!(Doubled::find(&events).page, 0);
    }
}
