//! What a file system makes of a program's calls: block requests, as ext4 with its defaults.
//!
//! | of ext4 | here |
//! | --- | --- |
//! | blocks | 4 KiB; the first 16 MiB are superblock, bitmaps and inodes, the next 64 MiB the journal |
//! | allocation | when data is written back (delayed), behind the file's last block if that is free; a file that grows reserves as much as it has, up to 8 MiB |
//! | write-back | with `fsync`; else 30 s after a page was made dirty; the rest at the end |
//! | metadata | blocks of inodes, names, bitmaps, descriptors of groups; the superblock when a file is shortened or removed (the list of orphans) |
//! | journal | a commit with `fsync` if metadata changed (`fdatasync`: size or blocks), else every 5 s: a descriptor, the changed metadata blocks, then the commit record with flush and FUA |
//! | checkpoint | the metadata blocks in place, when half of the journal has been written since the last |
//! | requests | neighbouring blocks together, at most 1 MiB |
//! | discard | a trim for what was freed, with the commit that freed it |
//!
//! Where the blocks of files lie may be [said by their file system](crate::places) instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nandle_io::Op;
use nandle_observe::event::{Event, FileId, Place, ROOT, What};
use nandle_observe::tree::{Node, Tree};
use nandle_trace::Request;

use crate::allocator::Allocator;
use crate::doubled::Doubled;
use crate::kinds::Kind;
use crate::places::Places;

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// First block of the journal, and of the data.
const JOURNAL: u64 = (16 << 20) / BLOCK;
const DATA: u64 = JOURNAL + (64 << 20) / BLOCK;
/// Metadata blocks: the superblock, from here on bitmaps of groups of blocks, inodes, bitmaps of inodes, descriptors of
/// groups.
const SUPERBLOCK: u64 = 0;
const BITMAPS: u64 = 1;
const INODES: u64 = 64;
const INODE_BITMAPS: u64 = JOURNAL - 128;
const DESCRIPTORS: u64 = JOURNAL - 64;
/// What a block of these holds: inodes, bits, descriptors.
const INODES_OF_BLOCK: u64 = BLOCK / 256;
const BITS: u64 = BLOCK * 8;
const DESCRIPTORS_OF_BLOCK: u64 = BLOCK / 64;
/// Blocks of these descriptors.
const DESCRIPTOR_BLOCKS: u64 = 64;
/// Marks blocks whose places were said by the file system of the program's files.
const SAID: u64 = 1 << 52;
/// Most blocks of a request.
const MOST: u64 = (1 << 20) / BLOCK;
/// Most blocks that a growing file reserves.
const MOST_RESERVED: u64 = (8 << 20) / BLOCK;
const COMMIT_NS: u64 = 5_000_000_000;
const EXPIRE_NS: u64 = 30_000_000_000;

/// What is known of a file.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its first name.
    pub path: String,
    /// What it is for.
    pub kind: Kind,
    /// Bytes that the program wrote to it.
    pub written: u64,
    /// Of these, such as it wrote elsewhere too, to keep a page whole.
    pub doubled: u64,
}

#[derive(Clone, Debug, Default)]
struct File {
    /// By block of the file: its block on the volume.
    blocks: BTreeMap<u64, u64>,
    /// Blocks that were written and are not on the drive, and since when.
    dirty: BTreeMap<u64, u64>,
    /// Blocks that were allocated beforehand: writing them changes metadata.
    unwritten: BTreeSet<u64>,
    /// Reserved behind the last block: where, and how many.
    reserved: Option<(u64, u64)>,
    size: u64,
    /// Size or blocks changed since the last commit.
    grown: bool,
}

/// What came of a volume's work.
#[derive(Clone, Debug)]
pub struct Volume {
    /// What the drive was asked for.
    pub requests: Vec<Request>,
    /// What is known of the files.
    pub known: BTreeMap<FileId, Known>,
    /// Calls that asked for durability.
    pub flushes: u64,
    /// Bytes written to blocks of files whose places were not said, where others' were.
    pub unplaced: u64,
}

/// A volume, and what is in its cache.
pub struct FileSystem {
    files: HashMap<FileId, File>,
    known: BTreeMap<FileId, Known>,
    tree: Tree,
    allocator: Allocator,
    /// Metadata blocks that the running transaction changes.
    transaction: BTreeSet<u64>,
    /// Blocks whose files are gone when it commits.
    freed: Vec<(u64, u64)>,
    committed_ns: u64,
    /// Where the journal goes on.
    journal: u64,
    since_checkpoint: u64,
    /// Metadata blocks that are in the journal only.
    to_checkpoint: BTreeSet<u64>,
    requests: Vec<Request>,
    now_ns: u64,
    flushes: u64,
    /// Blocks of files that are written elsewhere too.
    doubled: Doubled,
    /// Where files lie, if that was said; blocks of the model's own are `base` further on then.
    places: Places,
    base: u64,
    /// Bytes written to blocks of which it was not.
    unplaced: u64,
}

impl FileSystem {
    /// A volume that holds these files.
    #[must_use]
    pub fn new(before: &Tree) -> Self {
        Self::with(before, Doubled::default(), Places::default())
    }

    /// The same, with what is known of blocks that are written elsewhere too, and of where files lie.
    #[must_use]
    pub(crate) fn with(before: &Tree, doubled: Doubled, places: Places) -> Self {
        let mut volume = Self {
            files: HashMap::new(),
            known: BTreeMap::new(),
            tree: before.clone(),
            allocator: Allocator::new(DATA),
            transaction: BTreeSet::new(),
            freed: Vec::new(),
            committed_ns: 0,
            journal: 0,
            since_checkpoint: 0,
            to_checkpoint: BTreeSet::new(),
            requests: Vec::new(),
            now_ns: 0,
            flushes: 0,
            doubled,
            base: places.end(),
            places,
            unplaced: 0,
        };
        for (path, file) in before.walk() {
            volume.learn(file, &path.display().to_string());
            if let Some(Node::File(contents)) = before.get(file).map(|inode| &inode.node) {
                let size = contents.size();
                volume.files.entry(file).or_default().size = size;
                for block in 0..size.div_ceil(BLOCK) {
                    // Of what was said, a block without a place is a hole.
                    if volume.base == 0 || volume.places.of(file, block).is_some() {
                        volume.block_of(file, block);
                    }
                }
            }
        }
        volume.transaction.clear();
        volume
    }

    /// What the drive was asked for, and what is known of the files.
    #[must_use]
    pub fn finish(mut self) -> Volume {
        let files: Vec<FileId> = self.files.keys().copied().collect::<BTreeSet<_>>().into_iter().collect();
        for file in files {
            self.write_back(file);
        }
        self.commit();
        let Self { requests, known, flushes, unplaced, .. } = self;
        Volume { requests, known, flushes, unplaced }
    }

    fn learn(&mut self, file: FileId, path: &str) {
        self.known.entry(file).or_insert_with(|| Known {
            path: path.to_owned(),
            kind: Kind::of(path),
            written: 0,
            doubled: 0,
        });
    }

    /// Does what the program did.
    pub fn apply(&mut self, event: &Event) {
        self.now_ns = event.at_ns;
        self.age();
        match &event.what {
            What::Write { file, offset, data, durable } => {
                let bytes = data.len() as u64;
                if let Some(known) = self.known.get_mut(file) {
                    known.written += bytes;
                    if known.kind != Kind::Log {
                        known.doubled += self.doubled.of_write(*file, *offset, bytes);
                    }
                }
                self.dirty(*file, *offset, bytes);
                if *durable {
                    self.fsync(*file, true);
                }
            }
            What::Read { file, offset, bytes } => self.read(*file, *offset, *bytes),
            What::Resize { file, size } => self.resize(*file, *size),
            What::Zero { file, offset, bytes } => {
                // A hole: the blocks that lie in it whole are given back.
                let (from, to) = (offset.div_ceil(BLOCK), (offset + bytes) / BLOCK);
                self.free(*file, from, to);
                self.touch_inode(*file);
            }
            What::Allocate { file, offset, bytes } => {
                for block in offset / BLOCK..(offset + bytes).div_ceil(BLOCK) {
                    if !self.files.entry(*file).or_default().blocks.contains_key(&block) {
                        self.block_of(*file, block);
                        self.files.entry(*file).or_default().unwritten.insert(block);
                    }
                }
                self.touch_inode(*file);
            }
            What::Create { place, file, .. } => {
                let path = self.path_of(place);
                self.learn(*file, &path);
                self.files.entry(*file).or_default();
                self.touch_inode_bitmap(*file);
                self.touch_names(place, *file);
            }
            What::Link { place, file } => self.touch_names(place, *file),
            What::Unlink { place, file } => {
                self.touch_names(place, *file);
                self.tree.apply(&event.what);
                self.drop_if_gone(*file);
                return;
            }
            What::Rename { from, to, file, over, exchange } => {
                self.touch_names(from, *file);
                self.touch_names(to, *file);
                self.tree.apply(&event.what);
                if let (Some(over), false) = (over, exchange) {
                    // What replaces a file is written before the name changes (auto_da_alloc).
                    self.write_back(*file);
                    self.drop_if_gone(*over);
                }
                return;
            }
            What::Flush { file, data_only } => self.fsync(*file, *data_only),
            What::FlushFolder { .. } => {
                self.commit();
                self.flushes += 1;
            }
            What::FlushAll => {
                let files: BTreeSet<FileId> = self.files.keys().copied().collect();
                for file in files {
                    self.write_back(file);
                }
                self.commit();
                self.flushes += 1;
            }
            What::Placed { file, .. } => self.places.reach(*file),
            What::Output(_) => {}
        }
        self.tree.apply(&event.what);
    }

    fn path_of(&self, place: &Place) -> String {
        let name = place.name.to_string_lossy();
        match self.known.get(&place.folder) {
            Some(folder) if place.folder != ROOT => format!("{}/{name}", folder.path),
            _ => name.into_owned(),
        }
    }

    /// Time goes by: what is old is written.
    fn age(&mut self) {
        let now = self.now_ns;
        if now.saturating_sub(self.committed_ns) < COMMIT_NS {
            return;
        }
        let expired = |file: &File| file.dirty.values().any(|&since| now.saturating_sub(since) >= EXPIRE_NS);
        let old: BTreeSet<FileId> =
            self.files.iter().filter(|(_, file)| expired(file)).map(|(&id, _)| id).collect();
        for file in old {
            self.write_back(file);
        }
        self.commit();
        self.committed_ns = now;
    }

    fn dirty(&mut self, file: FileId, offset: u64, bytes: u64) {
        let now = self.now_ns;
        let known = self.files.entry(file).or_default();
        for block in offset / BLOCK..(offset + bytes).div_ceil(BLOCK) {
            known.dirty.entry(block).or_insert(now);
        }
        if offset + bytes > known.size {
            known.size = offset + bytes;
            known.grown = true;
        }
        // The time of the last change.
        self.touch_inode(file);
    }

    fn touch_inode(&mut self, file: FileId) {
        self.transaction.insert(INODES + file / INODES_OF_BLOCK % (INODE_BITMAPS - INODES));
    }

    /// An inode is taken or given back.
    fn touch_inode_bitmap(&mut self, file: FileId) {
        let group = file / BITS;
        self.transaction.extend([INODE_BITMAPS + group, DESCRIPTORS + group / DESCRIPTORS_OF_BLOCK]);
    }

    /// What a file loses is taken from it step by step: meanwhile it hangs on the list of orphans.
    fn touch_orphans(&mut self) {
        self.transaction.insert(SUPERBLOCK);
    }

    fn touch_names(&mut self, place: &Place, file: FileId) {
        self.touch_inode(file);
        self.touch_inode(place.folder);
        let block = self.block_of(place.folder, 0);
        self.transaction.insert(block);
    }

    /// The volume's block of a file's, which it gets now if it has none.
    fn block_of(&mut self, file: FileId, block: u64) -> u64 {
        if let Some(at) = self.places.of(file, block) {
            return self.move_to(file, block, at | SAID);
        }
        let known = self.files.entry(file).or_default();
        if let Some(&at) = known.blocks.get(&block) {
            return at;
        }
        let before = block.checked_sub(1).and_then(|before| known.blocks.get(&before));
        let goal = before.filter(|&at| at & SAID == 0).map(|at| at + 1);
        let (first, count) = match known.reserved.take() {
            Some((first, count)) if goal.is_none_or(|goal| goal == first) => (first, count),
            held => {
                if let Some((first, count)) = held {
                    self.allocator.give(first, count);
                }
                let wanted = (known.blocks.len() as u64).next_power_of_two().clamp(1, MOST_RESERVED);
                self.allocator.take(goal, wanted)
            }
        };
        if count > 1 {
            known.reserved = Some((first + 1, count - 1));
        }
        known.blocks.insert(block, first);
        known.grown = true;
        self.transaction.extend(accounts(first));
        first
    }

    /// A block of a file lies here, since now or as before.
    fn move_to(&mut self, file: FileId, block: u64, at: u64) -> u64 {
        let known = self.files.entry(file).or_default();
        let old = known.blocks.insert(block, at);
        if old == Some(at) {
            return at;
        }
        known.grown = true;
        self.transaction.extend(accounts(at));
        if let Some(old) = old {
            self.transaction.extend(accounts(old));
            self.freed.push((old, 1));
        }
        // The file system has used again what is to be trimmed here with the next commit.
        if let Some(n) = self.freed.iter().position(|&(first, count)| (first..first + count).contains(&at)) {
            let (first, count) = self.freed.swap_remove(n);
            let parts = [(first, at - first), (at + 1, first + count - at - 1)];
            self.freed.extend(parts.into_iter().filter(|&(_, count)| count > 0));
        }
        at
    }

    fn free(&mut self, file: FileId, from: u64, to: u64) {
        self.places.forget(file, from, to);
        let Some(known) = self.files.get_mut(&file) else { return };
        let gone: Vec<(u64, u64)> =
            if from < to { known.blocks.range(from..to).map(|(&b, &at)| (b, at)).collect() } else { vec![] };
        for (block, at) in gone {
            known.blocks.remove(&block);
            known.unwritten.remove(&block);
            self.transaction.extend(accounts(at));
            match self.freed.last_mut() {
                Some((first, count)) if *first + *count == at => *count += 1,
                _ => self.freed.push((at, 1)),
            }
            known.grown = true;
        }
        if from < to {
            let forgotten: Vec<u64> = known.dirty.range(from..to).map(|(&block, _)| block).collect();
            for block in forgotten {
                known.dirty.remove(&block);
            }
        }
    }

    fn resize(&mut self, file: FileId, size: u64) {
        let old = self.files.entry(file).or_default().size;
        if size < old {
            self.touch_orphans();
            self.free(file, size.div_ceil(BLOCK), u64::MAX);
        }
        let known = self.files.entry(file).or_default();
        known.size = size;
        known.grown |= size != old;
        self.touch_inode(file);
    }

    fn drop_if_gone(&mut self, file: FileId) {
        if self.tree.get(file).is_some_and(|inode| inode.links > 0) {
            return;
        }
        self.touch_orphans();
        self.touch_inode_bitmap(file);
        self.free(file, 0, u64::MAX);
        if let Some(mut gone) = self.files.remove(&file)
            && let Some((first, count)) = gone.reserved.take()
        {
            self.allocator.give(first, count);
        }
        self.touch_inode(file);
    }

    fn read(&mut self, file: FileId, offset: u64, bytes: u64) {
        let Some(known) = self.files.get(&file) else { return };
        // Holes and what was never written are zeros that no drive is asked for.
        let blocks: Vec<u64> = (offset / BLOCK..(offset + bytes).div_ceil(BLOCK))
            .filter(|block| !known.unwritten.contains(block))
            .filter_map(|block| known.blocks.get(&block).copied())
            .collect();
        let kind = self.known.get(&file).map_or(Kind::Metadata, |known| known.kind);
        self.ask(Op::Read, file, kind, &blocks);
    }

    fn fsync(&mut self, file: FileId, data_only: bool) {
        self.flushes += 1;
        self.write_back(file);
        let grown = self.files.get(&file).is_some_and(|known| known.grown);
        if self.transaction.is_empty() || (data_only && !grown) {
            self.push(Op::Flush, 0, 0, 0, Kind::Other, false);
        } else {
            self.commit();
        }
    }

    /// Writes a file's dirty blocks.
    fn write_back(&mut self, file: FileId) {
        let Some(known) = self.files.get_mut(&file) else { return };
        let dirty: Vec<u64> = std::mem::take(&mut known.dirty).into_keys().collect();
        for block in &dirty {
            if known.unwritten.remove(block) {
                known.grown = true;
            }
        }
        let kind = self.known.get(&file).map_or(Kind::Metadata, |known| known.kind);
        // A log is read to repeat what was done: it is more than a copy.
        let is_doubled = |&block: &u64| kind != Kind::Log && self.doubled.has(file, block);
        let is_doubled: Vec<bool> = dirty.iter().map(is_doubled).collect();
        let blocks: Vec<u64> = dirty.into_iter().map(|block| self.block_of(file, block)).collect();
        if self.base > 0 {
            self.unplaced += blocks.iter().filter(|&at| at & SAID == 0).count() as u64 * BLOCK;
        }
        let mut at = 0;
        for part in is_doubled.chunk_by(|a, b| a == b) {
            let kind = if part[0] { Kind::Doublewrite } else { kind };
            self.ask(Op::Write, file, kind, &blocks[at..at + part.len()]);
            at += part.len();
        }
    }

    /// Requests for blocks of a file, neighbours together.
    fn ask(&mut self, op: Op, file: FileId, kind: Kind, blocks: &[u64]) {
        let object = u32::try_from(file).unwrap_or(u32::MAX);
        for run in runs(blocks) {
            self.push(op, run.0, run.1, object, kind, false);
        }
    }

    fn commit(&mut self) {
        if self.transaction.is_empty() && self.freed.is_empty() {
            return;
        }
        let blocks = std::mem::take(&mut self.transaction);
        let count = blocks.len() as u64 + 1;
        self.journalled(count, false);
        self.push(Op::Flush, 0, 0, 0, Kind::Journal, false);
        self.journalled(1, true);
        self.to_checkpoint.extend(blocks);
        self.since_checkpoint += count + 1;
        for file in self.files.values_mut() {
            file.grown = false;
        }
        for (first, count) in std::mem::take(&mut self.freed) {
            self.push(Op::Trim, first, count, 0, Kind::Other, false);
            if first & SAID == 0 {
                self.allocator.give(first, count);
            }
        }
        if self.since_checkpoint >= (DATA - JOURNAL) / 2 {
            self.since_checkpoint = 0;
            let blocks: Vec<u64> = std::mem::take(&mut self.to_checkpoint).into_iter().collect();
            for (first, count) in runs(&blocks) {
                self.push(Op::Write, first, count, 0, Kind::Metadata, false);
            }
        }
    }

    /// The next blocks of the journal.
    fn journalled(&mut self, count: u64, fua: bool) {
        let mut left = count;
        while left > 0 {
            let run = left.min(DATA - JOURNAL - self.journal).min(MOST);
            self.push(Op::Write, JOURNAL + self.journal, run, 0, Kind::Journal, fua);
            self.journal = (self.journal + run) % (DATA - JOURNAL);
            left -= run;
        }
    }

    fn push(&mut self, op: Op, first: u64, count: u64, object: u32, kind: Kind, fua: bool) {
        let at = if first & SAID != 0 { first & !SAID } else { self.base + first };
        let (offset, bytes) = (if count > 0 { at * BLOCK } else { 0 }, count * BLOCK);
        self.requests.push(Request {
            time_ns: self.now_ns,
            offset,
            bytes,
            object,
            stream: kind as u16,
            op,
            fua,
        });
    }
}

/// What changes when `block` is taken or given back: bitmap and descriptor of its group.
fn accounts(block: u64) -> [u64; 2] {
    let group = (block & !SAID) / BITS;
    [BITMAPS + group % (INODES - BITMAPS), DESCRIPTORS + group / DESCRIPTORS_OF_BLOCK % DESCRIPTOR_BLOCKS]
}

/// Blocks in order as runs of neighbours, none too long.
fn runs(blocks: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == block && *count < MOST => *count += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}
