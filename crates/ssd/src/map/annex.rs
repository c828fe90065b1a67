//! A mapping table of two levels: each entry has an index, "none" or the place of a record in a second
//! table. A record says where a run of sectors lies that begins in the entry's logical page and ends in
//! the next one; one bit in the entry of that next page says that the entry before it is to be looked
//! at. Index and bit together are three bytes.

use std::collections::{BTreeMap, BTreeSet};

use nandle_nand::{Array, Oob, Ppn};

use super::fragments::Fragments;
use super::size::TableSize;

/// Bytes of the index with its bit for the next page.
const INDEX_BYTES: u32 = 3;
/// Bytes of a record: offset, size, page.
const RECORD_BYTES: u32 = 8;
/// No record.
const NONE: u32 = u32::MAX;
/// Most records that the index can tell apart.
const MOST: usize = (1 << 23) - 1;

/// An entry of the second table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First sector, counted from the start of the run's first logical page.
    pub offset: u8,
    /// Sectors from the first to the last that live.
    pub size: u8,
    /// The physical page.
    pub ppn: Ppn,
}

const VACANT: Record = Record { offset: 0, size: 0, ppn: Ppn(0) };

/// The index field of the first table, and the second table.
#[derive(Clone, Debug)]
pub struct Annex {
    /// Index of each logical page.
    index: Vec<u32>,
    records: Vec<Record>,
    /// Places to be used again.
    free: Vec<u32>,
    /// Translation pages of the first table, and entries of each.
    first_pages: u32,
    per_page: u32,
    records_per_page: u32,
}

impl Annex {
    /// Entries of a translation page of the first table, and translation pages of both.
    pub(super) fn pages(size: TableSize) -> (u32, u32) {
        let per_page = size.page_bytes / (size.entry_bytes + INDEX_BYTES);
        let records = size.logical_pages.div_ceil(size.page_bytes / RECORD_BYTES);
        (per_page, size.logical_pages.div_ceil(per_page) + records)
    }

    pub(super) fn new(size: TableSize) -> Self {
        let (per_page, _) = Self::pages(size);
        Self {
            index: vec![NONE; size.logical_pages as usize],
            records: Vec::new(),
            free: Vec::new(),
            first_pages: size.logical_pages.div_ceil(per_page),
            per_page,
            records_per_page: size.page_bytes / RECORD_BYTES,
        }
    }

    /// Records in use.
    pub fn live(&self) -> u32 {
        (self.records.len() - self.free.len()) as u32
    }
    /// Whether another record finds a place.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.records.len() < MOST
    }
    /// The record of the run that begins in logical page `first`, and its place.
    #[inline]
    pub fn at(&self, first: u32) -> Option<(u32, Record)> {
        let index = *self.index.get(first as usize)?;
        (index != NONE).then(|| (index, self.records[index as usize]))
    }
    /// Translation page of the entry of `lpn`.
    #[inline]
    pub(crate) fn page_of(&self, lpn: u32) -> u32 {
        lpn / self.per_page
    }
    /// Translation page of a record.
    pub(crate) fn page_of_record(&self, place: u32) -> u32 {
        self.first_pages + place / self.records_per_page
    }

    /// Enters a record for the run that begins in `first`, or removes it: the place concerned, and
    /// whether the index of `first` changed; nothing if nothing did.
    pub(crate) fn set(&mut self, first: u32, record: Option<Record>) -> Option<(u32, bool)> {
        match (self.at(first), record) {
            (None, None) => None,
            (Some((place, old)), Some(new)) => {
                self.records[place as usize] = new;
                (old != new).then_some((place, false))
            }
            (Some((place, _)), None) => {
                self.index[first as usize] = NONE;
                self.records[place as usize] = VACANT;
                self.free.push(place);
                Some((place, true))
            }
            (None, Some(new)) => {
                let place = self.free.pop().unwrap_or(self.records.len() as u32);
                match self.records.get_mut(place as usize) {
                    Some(slot) => *slot = new,
                    None => self.records.push(new),
                }
                self.index[first as usize] = place;
                Some((place, true))
            }
        }
    }

    pub(super) fn bytes(&self, size: TableSize) -> u64 {
        u64::from(size.logical_pages) * u64::from(size.entry_bytes + INDEX_BYTES)
            + self.records.len() as u64 * u64::from(RECORD_BYTES)
    }

    /// Index and bit as stored with the entry of `lpn`.
    fn field(&self, lpn: u32) -> u32 {
        let index = self.index[lpn as usize] & MOST as u32;
        let before = lpn > 0 && self.index[lpn as usize - 1] != NONE;
        index | u32::from(before) << 23
    }

    pub(super) fn entries(&self, page: u32, fragments: &Fragments, array: &Array) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(page) = page.checked_sub(self.first_pages) {
            let first = (page * self.records_per_page) as usize;
            let last = (first + self.records_per_page as usize).min(self.records.len());
            for record in self.records.get(first..last).unwrap_or_default() {
                out.extend_from_slice(&[record.offset, record.size]);
                out.extend_from_slice(&record.ppn.0.to_le_bytes());
            }
            // Records that were never used read as zeros, as in a page that was never written.
            let used = out.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            out.truncate(used);
            return out;
        }
        let first = page * self.per_page;
        for lpn in first..(first + self.per_page).min(fragments.len()) {
            out.extend_from_slice(&own_entry(fragments, array, lpn).to_le_bytes());
            // Stored as the complement, so that "none" reads as zero.
            out.extend_from_slice(&(self.field(lpn) ^ MOST as u32).to_le_bytes()[..3]);
        }
        out
    }

    // ---- power-on -------------------------------------------------------------------------------

    /// The indices that the first table had in flash, as (logical page, place), given its pages' contents.
    pub(crate) fn stored(&self, contents: impl Fn(u32) -> Option<Vec<u8>>) -> Vec<(u32, u32)> {
        let mut known = Vec::new();
        for page in 0..self.first_pages {
            let Some(bytes) = contents(page) else { continue };
            let fields = bytes.chunks_exact(7).map(|e| {
                let field = u32::from_le_bytes([e[4], e[5], e[6], 0]) & MOST as u32 ^ MOST as u32;
                if field == MOST as u32 { NONE } else { field }
            });
            known.extend((page * self.per_page..).zip(fields).filter(|&(_, place)| place != NONE));
        }
        known
    }

    /// Of the runs that begin in `borders`, those whose places are still `known` are to get these back:
    /// each is handed out by [`Annex::hand_out`] before its record is entered.
    pub(crate) fn keep_places(
        &mut self,
        known: Vec<(u32, u32)>,
        borders: &BTreeSet<u32>,
    ) -> BTreeMap<u32, u32> {
        let mut kept = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (first, place) in known {
            if borders.contains(&first) && taken.insert(place) {
                kept.insert(first, place);
            }
        }
        let end = taken.last().map_or(0, |&last| last + 1);
        self.records = vec![VACANT; end as usize];
        self.free = (0..end).rev().filter(|place| !taken.contains(place)).collect();
        kept
    }
    /// The next record that is entered gets `place`.
    pub(crate) fn hand_out(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Checks that no place is free and in use; for tests.
    pub(crate) fn check(&self, used: &BTreeSet<u32>) {
        assert_eq!(used.len(), self.live() as usize, "records without an owner");
        assert!(self.free.iter().all(|place| !used.contains(place)), "a record that is free and used");
    }
}

/// The entry of `lpn` in the first table, beside the index: its page, or a word that stands for all of
/// its pages that nobody looks after.
pub(super) fn own_entry(fragments: &Fragments, array: &Array, lpn: u32) -> u32 {
    if let Some(ppn) = fragments.single(lpn) {
        return ppn.0 + 1;
    }
    let (mut entry, mut last) = (0, None);
    for f in fragments.get(lpn, array) {
        if array.owner(f.ppn) == Oob::PLAIN && last != Some(f.ppn) {
            let word = f.ppn.0 + 1;
            entry = if last.is_none() { word } else { nandle_random::mix(u64::from(entry ^ word)) as u32 };
            last = Some(f.ppn);
        }
    }
    entry
}
