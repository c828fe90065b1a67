//! Where blocks lie: as the model has it, or as the file system of the program's files said.
//!
//! A file system chooses a block's place when it writes the block back, and says so by FIEMAP from then on (Linux,
//! `Documentation/filesystems/fiemap.rst`). Of a block that is written before its file was asked for, the next answer
//! counts. Journal and metadata have no file, and stay the model's: they lie behind all that was said.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use nandle_host::extents::Place;
use nandle_observe::event::{Event, FileId, Piece, What};
use serde::{Deserialize, Serialize};

use crate::ext4::BLOCK;

/// Who says where the blocks of files lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The model of ext4.
    #[default]
    Ext4,
    /// The file system of the program's files.
    Fiemap,
}

/// Asks the file system where an open file lies on its block device.
///
/// # Errors
/// If it does not say, or has blocks smaller than the model's.
pub fn locate(file: BorrowedFd<'_>) -> io::Result<Vec<Piece>> {
    let found = Place::of(file, Some(0))?.extents(file, 0, u64::MAX)?;
    let is_whole = |bytes: u64| bytes.is_multiple_of(BLOCK);
    if !found.iter().all(|e| is_whole(e.logical) && is_whole(e.physical) && is_whole(e.bytes)) {
        return Err(io::Error::other("a file system with blocks smaller than 4 KiB"));
    }
    Ok(found.into_iter().map(|e| Piece { offset: e.logical, at: e.physical, bytes: e.bytes }).collect())
}

/// First block of a file, its place, and how many.
type Run = (u64, u64, u64);

/// What was said of each file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    now: HashMap<FileId, Vec<Run>>,
    coming: HashMap<FileId, VecDeque<Arc<[Piece]>>>,
    end: u64,
}

impl Places {
    pub fn find(events: &[Event]) -> Self {
        let mut places = Self::default();
        for event in events {
            if let What::Placed { file, pieces } = &event.what {
                places.coming.entry(*file).or_default().push_back(pieces.clone());
                let ends = pieces.iter().map(|piece| (piece.at + piece.bytes) / BLOCK);
                places.end = ends.fold(places.end.max(1), u64::max);
            }
        }
        places
    }

    /// First block behind all that files have, at a multiple of 1 MiB; 0 if nothing was said.
    pub fn end(&self) -> u64 {
        self.end.next_multiple_of((1 << 20) / BLOCK)
    }

    /// The next answer about a file has come.
    pub fn reach(&mut self, file: FileId) {
        if let Some(pieces) = self.coming.get_mut(&file).and_then(VecDeque::pop_front) {
            let run = |piece: &Piece| (piece.offset / BLOCK, piece.at / BLOCK, piece.bytes / BLOCK);
            self.now.insert(file, pieces.iter().map(run).collect());
        }
    }

    /// Where a block of a file lies: now, or else when next that is said.
    pub fn of(&self, file: FileId, block: u64) -> Option<u64> {
        let runs = self.now.get(&file).map_or(&[][..], Vec::as_slice);
        let before = runs.partition_point(|&(first, ..)| first <= block);
        if let Some(&(first, at, count)) = before.checked_sub(1).and_then(|last| runs.get(last))
            && block < first + count
        {
            return Some(at + (block - first));
        }
        let byte = block * BLOCK;
        let said = self.coming.get(&file).into_iter().flatten().find_map(|pieces| {
            let next = pieces.partition_point(|piece| piece.offset <= byte);
            let piece = pieces.get(next.checked_sub(1)?)?;
            (byte < piece.offset + piece.bytes).then(|| piece.at + (byte - piece.offset))
        });
        said.map(|at| at / BLOCK)
    }

    /// Blocks of a file were given back: what is written there next may lie elsewhere.
    pub fn forget(&mut self, file: FileId, from: u64, to: u64) {
        let Some(runs) = self.now.get_mut(&file) else { return };
        let mut left = Vec::with_capacity(runs.len());
        for &(first, at, count) in runs.iter() {
            let end = first + count;
            if first < from {
                left.push((first, at, count.min(from - first)));
            }
            if end > to {
                let start = first.max(to);
                left.push((start, at + (start - first), end - start));
            }
        }
        *runs = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(file: FileId, pieces: &[Run]) -> Event {
        let piece = |&(offset, at, bytes): &Run| Piece {
            offset: offset * BLOCK,
            at: at * BLOCK,
            bytes: bytes * BLOCK,
        };
        let pieces = pieces.iter().map(piece).collect();
        Event { what: What::Placed { file, pieces }, at_ns: 0, process: 0 }
    }

    #[test]
    fn a_block_lies_where_it_was_said_last_or_else_where_it_is_said_next() {
        let events =
            [placed(2, &[(0, 100, 4)]), placed(2, &[(0, 100, 4), (8, 50, 2)]), placed(3, &[(0, 7, 1)])];
        let mut places = Places::find(&events);
        assert_eq!(places.end(), 256);
        let of = |places: &Places, block| places.of(2, block);
        assert_eq!((of(&places, 3), of(&places, 9), of(&places, 4)), (Some(103), Some(51), None));
        places.reach(2);
        places.forget(2, 1, 3);
        let found: Vec<_> = (0..4).map(|block| of(&places, block)).collect();
        assert_eq!(found, [Some(100), Some(101), Some(102), Some(103)], "said again by the next");
        places.reach(2);
        places.forget(2, 1, 9);
        let found: Vec<_> = [0, 1, 8, 9].into_iter().map(|block| of(&places, block)).collect();
        assert_eq!(found, [Some(100), None, None, Some(51)]);
    }
}
