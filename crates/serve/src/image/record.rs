//! Records of the image: bytes to types and back. All numbers are little-endian.
//!
//! Each record carries a checksum and says where it belongs, so that one that was changed, cut off or written to
//! another place is known. What that means is for the loader to say.

use nandle_ssd::nand::{BlockCondition, Extent, Extents, Oob, PageUse};

/// Bytes before a page's contents: what its out-of-band area says.
pub const PAGE_HEAD: usize = 1024;
/// Bytes for the copy of a page's head.
pub const COPY_BYTES: usize = 1024;
/// Bytes of a block record.
pub const BLOCK_BYTES: usize = 32;

const PAGE_MAGIC: u32 = u32::from_le_bytes(*b"page");
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"blck");
const FIXED: usize = 56;
const EXTENT_BYTES: usize = 10;
/// Of a copy: checksum, bytes of the head, bytes of contents.
const COPY_FIXED: usize = 8;

/// What is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// Nothing was written there since it was last freed.
    Nothing,
    /// Something, but not what was written for this place.
    Damaged,
    /// What was written.
    Sound(T),
}

/// What is read back of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    /// Which block.
    pub block: u32,
    /// Its erases.
    pub erases: u32,
    /// Its condition.
    pub condition: BlockCondition,
    /// A program failed in it.
    pub doomed: bool,
    /// Pages with a smaller sequence number are from before its last erase.
    pub since: u64,
}

impl BlockRecord {
    /// As bytes.
    #[must_use]
    pub fn bytes(&self) -> [u8; BLOCK_BYTES] {
        let mut out = [0; BLOCK_BYTES];
        let condition = match self.condition {
            BlockCondition::Good => 0,
            BlockCondition::Undefined => 1,
            BlockCondition::Bad => 2_u32,
        };
        out[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        out[8..12].copy_from_slice(&self.block.to_le_bytes());
        out[12..16].copy_from_slice(&self.erases.to_le_bytes());
        out[16..20].copy_from_slice(&condition.to_le_bytes());
        out[20] = u8::from(self.doomed);
        out[24..32].copy_from_slice(&self.since.to_le_bytes());
        let sum = crc32fast::hash(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// From bytes.
    #[must_use]
    pub fn read(block: u32, bytes: &[u8; BLOCK_BYTES]) -> Found<Self> {
        if *bytes == [0; BLOCK_BYTES] {
            return Found::Nothing;
        }
        let condition = match word(bytes, 16) {
            0 => BlockCondition::Good,
            2 => BlockCondition::Bad,
            _ => BlockCondition::Undefined,
        };
        let sound = word(bytes, 0) == BLOCK_MAGIC
            && word(bytes, 4) == crc32fast::hash(&bytes[8..])
            && word(bytes, 8) == block;
        if !sound {
            return Found::Damaged;
        }
        let (erases, since) = (word(bytes, 12), long(bytes, 24));
        Found::Sound(Self { block, erases, condition, doomed: bytes[20] != 0, since })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// What is read back of a page's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRecord {
    /// Its sequence number.
    pub seq: u64,
    /// The place of its contents among everything that was written.
    pub version: u64,
    /// Sectors that cannot be read any more, by their place in the page.
    pub lost: u64,
    /// What it is used for.
    pub kind: PageUse,
    /// Which scheme looks after it.
    pub owner: u8,
    /// Which stream wrote it.
    pub stream: u16,
    /// Its single run at home: logical page, first sector, sectors.
    pub home: Option<(u32, u8, u8)>,
    /// Its runs, if it has not just one at home.
    pub extents: Vec<Extent>,
    /// Bytes of its contents.
    pub length: usize,
    /// The checksum of all of it.
    pub sum: u32,
}

/// A page's record, and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// What its head says; a page that a power cut tore says so.
    pub record: PageRecord,
    /// What it holds; none of a copy that had no room for it.
    pub contents: Option<&'a [u8]>,
}

/// Writes a page record into `out`, head and contents.
pub fn write_page(
    out: &mut Vec<u8>,
    ppn: u32,
    (seq, version, lost): (u64, u64, u64),
    oob: &Oob<'_>,
    contents: &[&[u8]],
) {
    out.clear();
    out.resize(PAGE_HEAD, 0);
    let (form, lpn, start, len, list) = match oob.extents {
        Extents::Home { lpn, start, len } => (0, lpn, start, len, &[][..]),
        Extents::List(list) => (1, 0, 0, 0, list),
    };
    assert!(FIXED + list.len() * EXTENT_BYTES <= PAGE_HEAD, "a page has at most 64 sectors");
    out[..4].copy_from_slice(&PAGE_MAGIC.to_le_bytes());
    out[8..12].copy_from_slice(&ppn.to_le_bytes());
    let bytes: usize = contents.iter().map(|piece| piece.len()).sum();
    out[12..16].copy_from_slice(&(bytes as u32).to_le_bytes());
    out[16..24].copy_from_slice(&seq.to_le_bytes());
    out[24..26].copy_from_slice(&oob.stream.to_le_bytes());
    out[26..28].copy_from_slice(&(list.len() as u16).to_le_bytes());
    out[28..32].copy_from_slice(&lpn.to_le_bytes());
    out[32..36].copy_from_slice(&[oob.kind as u8, form, start, len]);
    out[36] = oob.owner;
    out[40..48].copy_from_slice(&version.to_le_bytes());
    out[48..56].copy_from_slice(&lost.to_le_bytes());
    for (n, extent) in list.iter().enumerate() {
        let at = FIXED + n * EXTENT_BYTES;
        out[at..at + 8].copy_from_slice(&extent.lsn.to_le_bytes());
        out[at + 8..at + 10].copy_from_slice(&[extent.sectors, extent.at]);
    }
    contents.iter().for_each(|piece| out.extend_from_slice(piece));
    let sum = crc32fast::hash(&out[8..]);
    out[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// The copy that is kept of a page record: its head, and the contents where they find room.
#[must_use]
pub fn copy_of(record: &[u8]) -> Vec<u8> {
    let (head, contents) = record.split_at(PAGE_HEAD);
    let head = &head[..FIXED + usize::from(u16::from_le_bytes([head[26], head[27]])) * EXTENT_BYTES];
    let fits = COPY_FIXED + head.len() + contents.len() <= COPY_BYTES;
    let contents = if fits { contents } else { &[] };
    let mut out = vec![0; COPY_FIXED];
    out[4..6].copy_from_slice(&(head.len() as u16).to_le_bytes());
    out[6..8].copy_from_slice(&(contents.len() as u16).to_le_bytes());
    out.extend_from_slice(head);
    out.extend_from_slice(contents);
    let sum = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Reads a copy.
#[must_use]
pub fn read_copy(ppn: u32, bytes: &[u8]) -> Found<Page<'_>> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Found::Nothing;
    }
    let length = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (used, more) = (length(4), length(6));
    let end = COPY_FIXED + used + more;
    if end > bytes.len() || used > PAGE_HEAD || word(bytes, 0) != crc32fast::hash(&bytes[4..end]) {
        return Found::Damaged;
    }
    let mut head = bytes[COPY_FIXED..COPY_FIXED + used].to_vec();
    head.resize(PAGE_HEAD, 0);
    let Some(record) = PageRecord::read(ppn, &head) else { return Found::Damaged };
    if record.kind == PageUse::Torn && !PageRecord::is_recorded_as_torn(ppn, &head) {
        return Found::Damaged;
    }
    let contents = (record.length == more).then(|| &bytes[COPY_FIXED + used..end]);
    Found::Sound(Page { record, contents })
}

/// Reads a page record, head and contents.
#[must_use]
pub fn read_page(ppn: u32, slot: &[u8]) -> Found<Page<'_>> {
    let Some(record) = PageRecord::read(ppn, &slot[..PAGE_HEAD]) else { return Found::Nothing };
    let (head, contents) = slot.split_at(PAGE_HEAD);
    if PageRecord::is_recorded_as_torn(ppn, head) {
        return Found::Sound(Page { record, contents: Some(&[]) });
    }
    match contents.get(..record.length) {
        Some(contents) if record.is_sound(head, contents) => {
            Found::Sound(Page { record, contents: Some(contents) })
        }
        _ => Found::Damaged,
    }
}

impl PageRecord {
    /// Reads the head; none where no page was written. A head that makes no sense is a torn page.
    #[must_use]
    pub fn read(ppn: u32, head: &[u8]) -> Option<Self> {
        if head.len() < PAGE_HEAD || head[..FIXED].iter().all(|&b| b == 0) {
            return None;
        }
        let torn = Self {
            seq: long(head, 16),
            version: long(head, 40),
            lost: long(head, 48),
            kind: PageUse::Torn,
            owner: Oob::PLAIN,
            stream: 0,
            home: None,
            extents: vec![],
            length: 0,
            sum: 0,
        };
        let (kind, owner) = match head[32] {
            1 => (PageUse::Data, head[36]),
            2 => (PageUse::Map, Oob::PLAIN),
            3 => (PageUse::Meta, Oob::PLAIN),
            4 => (PageUse::Padding, Oob::PLAIN),
            6 => (PageUse::Checkpoint, Oob::PLAIN),
            // Images of version 1.0 have a kind for the pages of the only scheme that looked after some.
            7 => (PageUse::Data, 1),
            _ => return Some(torn),
        };
        // Only pages with a list of runs have an owner.
        if owner > Oob::LAST_OWNER || (owner != Oob::PLAIN && head[33] == 0) {
            return Some(torn);
        }
        let runs = usize::from(u16::from_le_bytes([head[26], head[27]]));
        if word(head, 0) != PAGE_MAGIC || word(head, 8) != ppn || FIXED + runs * EXTENT_BYTES > PAGE_HEAD {
            return Some(torn);
        }
        let extents = head[FIXED..]
            .chunks_exact(EXTENT_BYTES)
            .take(runs)
            .map(|e| Extent { lsn: long(e, 0), sectors: e[8], at: e[9] })
            .collect();
        Some(Self {
            kind,
            owner,
            stream: u16::from_le_bytes([head[24], head[25]]),
            home: (head[33] == 0).then_some((word(head, 28), head[34], head[35])),
            extents,
            length: word(head, 12) as usize,
            sum: word(head, 4),
            ..torn
        })
    }

    /// Whether this is the record, as it was written, of a page that a power cut tore.
    #[must_use]
    pub fn is_recorded_as_torn(ppn: u32, head: &[u8]) -> bool {
        head.len() == PAGE_HEAD
            && head[32] == PageUse::Torn as u8
            && word(head, 0) == PAGE_MAGIC
            && word(head, 8) == ppn
            && word(head, 12) == 0
            && word(head, 4) == crc32fast::hash(&head[8..])
    }

    /// Whether head and contents are what was written.
    #[must_use]
    pub fn is_sound(&self, head: &[u8], contents: &[u8]) -> bool {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head[8..]);
        hasher.update(contents);
        self.kind != PageUse::Torn && contents.len() == self.length && hasher.finalize() == self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pages_read_back_and_damage_is_seen(
            lsns in proptest::collection::vec((any::<u64>(), 1_u8..=64, 0_u8..64), 0..=64), home: bool,
            seq: u64, contents in proptest::collection::vec(any::<u8>(), 0..300), flip: usize, bit in 0..8,
        ) {
            let extents: Vec<Extent> =
                lsns.iter().map(|&(lsn, sectors, at)| Extent { lsn, sectors, at }).collect();
            let shape = if home { Extents::Home { lpn: 77, start: 3, len: 9 } } else { Extents::List(&extents) };
            let owner = if home { Oob::PLAIN } else { 5 };
            let oob = Oob { kind: PageUse::Data, owner, stream: 12, extents: shape };
            let mut bytes = vec![];
            write_page(&mut bytes, 42, (seq, 3, 5), &oob, &[&contents]);
            let (head, rest) = bytes.split_at(PAGE_HEAD);
            let read = PageRecord::read(42, head).expect("a page");
            prop_assert!(read.is_sound(head, rest));
            prop_assert_eq!((read.seq, read.version, read.lost), (seq, 3, 5));
            prop_assert_eq!((read.stream, read.kind, read.owner), (12, PageUse::Data, owner));
            prop_assert_eq!(read.home, home.then_some((77, 3, 9)));
            prop_assert_eq!(&read.extents, if home { &[][..] } else { &extents });
            let mut copy = copy_of(&bytes);
            let Found::Sound(page) = read_copy(42, &copy) else { panic!("the copy is not sound") };
            let room = copy.len() + contents.len() <= COPY_BYTES;
            prop_assert!(page.contents == Some(&contents[..]) || page.contents.is_none() && !room);
            prop_assert_eq!(page.record, read);
            prop_assert_eq!(read_copy(43, &copy), Found::Damaged);
            let at = flip % copy.len();
            copy[at] ^= 1_u8 << bit;
            prop_assert_eq!(read_copy(42, &copy), Found::Damaged);
            let at = flip % bytes.len();
            bytes[at] ^= 1_u8 << bit;
            let (head, rest) = bytes.split_at(PAGE_HEAD);
            prop_assert!(PageRecord::read(42, head).is_none_or(|r| !r.is_sound(head, rest)));
            prop_assert_eq!(read_page(42, &bytes), Found::Damaged);
        }

        #[test]
        fn blocks_read_back_and_damage_is_seen(
            erases: u32, since: u64, bad: bool, flip in 0_usize..BLOCK_BYTES * 8,
        ) {
            let condition = if bad { BlockCondition::Bad } else { BlockCondition::Good };
            let record = BlockRecord { block: 5, erases, condition, doomed: bad, since };
            let mut bytes = record.bytes();
            prop_assert_eq!(BlockRecord::read(5, &bytes), Found::Sound(record));
            prop_assert_eq!(BlockRecord::read(6, &bytes), Found::Damaged);
            bytes[flip / 8] ^= 1_u8 << (flip % 8);
            prop_assert_eq!(BlockRecord::read(5, &bytes), Found::Damaged);
        }
    }

    #[test]
    fn where_nothing_was_written_nothing_is_found() {
        assert_eq!(read_page(0, &[0; PAGE_HEAD]), Found::Nothing);
        assert_eq!(read_copy(0, &[0; COPY_BYTES]), Found::Nothing);
        assert_eq!(BlockRecord::read(3, &[0; BLOCK_BYTES]), Found::Nothing);
    }
}
