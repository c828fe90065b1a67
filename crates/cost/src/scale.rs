//! A recording made as large as a share of a drive: many copies of it at work at the same time.
//!
//! Each copy has an area of its own and goes through the recording again and again, from a place of its own.
//! Who goes on is drawn anew at each flush, as among users that do not know of each other. All copies share one journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nandle_io::Op;
use nandle_random::Stream;
use nandle_trace::{Format, Request};

use crate::Error;
use crate::ext4::BLOCK;
use crate::kinds::Kind;
use crate::record::Recording;

/// Most requests of one copy before another has its turn, flush or not.
const MOST_TURN: usize = 64;
/// The journal takes at most this share of the drive.
const JOURNAL_SHARE: u64 = 64;

/// How a recording is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Files begin at a multiple of so many bytes, each in one piece.
    pub align: Option<u64>,
    /// What was deleted is trimmed.
    pub trims: bool,
    /// Files of this size at least that are written once are objects.
    pub objects_from: Option<u64>,
}

/// A recording whose blocks lie close together.
pub(crate) struct Packed<'a> {
    recording: &'a Recording,
    layout: Layout,
    /// By block of the recording: its block in a copy.
    blocks: BTreeMap<u64, u64>,
    /// Files that are objects: first block and how many.
    objects: Vec<(u64, u64)>,
    /// Blocks of a copy.
    pub size: u64,
    /// Blocks of the journal in a pass; 0 if there is none of ours.
    journal: u64,
    /// By stream of the recording: its number among those that occur.
    streams: BTreeMap<u16, u16>,
}

impl<'a> Packed<'a> {
    pub fn new(recording: &'a Recording, layout: Layout) -> Self {
        let mut owners: BTreeMap<u64, u32> = BTreeMap::new();
        let mut journal = BTreeSet::new();
        let is_ours = !recording.told.files.is_empty();
        for request in recording.requests.iter().filter(|request| request.bytes > 0) {
            for block in blocks_of(request) {
                if is_ours && request.stream == Kind::Journal as u16 {
                    journal.insert(block);
                } else {
                    let owner = owners.entry(block).or_default();
                    *owner = (*owner).max(request.object);
                }
            }
        }
        let written: BTreeSet<u16> =
            recording.requests.iter().filter(|r| r.op == Op::Write).map(|r| r.stream).collect();
        let streams = written.into_iter().zip(0..).collect();
        let mut packed = Self {
            recording,
            layout,
            blocks: BTreeMap::new(),
            objects: Vec::new(),
            size: 0,
            journal: journal.len() as u64,
            streams,
        };
        match layout.align {
            None => {
                packed.size = owners.len() as u64;
                packed.blocks = owners.keys().copied().zip(0..).collect();
            }
            Some(align) => packed.by_object(&owners, align / BLOCK),
        }
        packed
    }

    fn by_object(&mut self, owners: &BTreeMap<u64, u32>, align: u64) {
        let mut by_object: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (&block, &object) in owners {
            by_object.entry(object).or_default().push(block);
        }
        for (object, blocks) in by_object {
            self.size = self.size.next_multiple_of(align.max(1));
            let count = blocks.len() as u64;
            if object != 0
                && self.is_object(object)
                && self.layout.objects_from.is_some_and(|from| count * BLOCK >= from)
            {
                self.objects.push((self.size, count));
            }
            self.blocks.extend(blocks.into_iter().zip(self.size..));
            self.size += count;
        }
    }

    /// Whether a file is written from its beginning to its end and then done with.
    fn is_object(&self, object: u32) -> bool {
        let kinds = [Kind::Log, Kind::Sorted, Kind::Temporary].map(Kind::name);
        self.recording
            .told
            .files
            .iter()
            .any(|file| file.object == object && kinds.contains(&file.kind.as_str()))
    }

    pub fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// How many streams occur.
    pub fn streams(&self) -> &BTreeMap<u16, u16> {
        &self.streams
    }

    /// How many copies fill `bytes`.
    pub fn copies(&self, bytes: u64) -> u64 {
        (bytes / (self.size * BLOCK).max(1)).max(1)
    }

    /// Writes a trace of `copies` at work until they have written `bytes`, for a drive of `room` bytes.
    pub fn write(&self, to: &Path, copies: u64, bytes: u64, room: u64, seed: u64) -> Result<(), Error> {
        let mut writer = nandle_trace::create(to, Format::NandleParquet)?;
        let mut stream = Stream::new(seed, "copies");
        let requests = &self.recording.requests;
        let mut places: Vec<usize> =
            (0..copies).map(|_| stream.below(requests.len() as u64) as usize).collect();
        let journal = if self.journal > 0 { (room / JOURNAL_SHARE).min(64 << 20) / BLOCK } else { 0 };
        let mut journal_at = 0;
        let mut written = 0;
        let mut out = Vec::with_capacity(8192);
        while written < bytes {
            let copy = stream.below(copies);
            let base = journal + copy * self.size;
            for _ in 0..MOST_TURN {
                let place = &mut places[copy as usize];
                let request = requests[*place];
                if *place == 0 {
                    self.begin(base, &mut out);
                }
                *place = (*place + 1) % requests.len();
                let is_journal =
                    journal > 0 && request.stream == Kind::Journal as u16 && request.op == Op::Write;
                if is_journal {
                    let count = (request.bytes / BLOCK).min(journal);
                    if journal_at + count > journal {
                        journal_at = 0;
                    }
                    out.push(self.request(&request, journal_at, count));
                    journal_at += count;
                    written += count * BLOCK;
                } else {
                    written += self.map(&request, base, &mut out);
                }
                if request.op == Op::Flush {
                    break;
                }
            }
            if out.len() >= 4096 {
                writer.write(&out)?;
                out.clear();
            }
        }
        writer.write(&out)?;
        writer.finish()?;
        Ok(())
    }

    /// What a copy does when it begins anew.
    fn begin(&self, base: u64, out: &mut Vec<Request>) {
        for &(first, count) in &self.objects {
            for op in [Op::Trim, Op::FlashAlloc] {
                let (offset, bytes) = ((base + first) * BLOCK, count * BLOCK);
                out.push(Request { time_ns: 0, offset, bytes, object: 0, stream: 0, op, fua: false });
            }
        }
    }

    fn request(&self, like: &Request, first: u64, count: u64) -> Request {
        let stream = self.streams.get(&like.stream).copied().unwrap_or(0);
        Request { time_ns: 0, offset: first * BLOCK, bytes: count * BLOCK, stream, object: 0, ..*like }
    }

    /// A request where its copy lies; the bytes that it writes.
    fn map(&self, request: &Request, base: u64, out: &mut Vec<Request>) -> u64 {
        if request.op == Op::Trim && !self.layout.trims {
            return 0;
        }
        if request.bytes == 0 {
            out.push(Request { time_ns: 0, offset: 0, ..*request });
            return 0;
        }
        // The first and the last block may be there in part.
        let (mut run, mut written) = (None::<(u64, u64)>, 0);
        let mut put = |run: (u64, u64)| {
            let mut mapped = self.request(request, run.0, run.1);
            if run.1 == request.bytes.div_ceil(BLOCK)
                && request.offset % BLOCK + request.bytes <= run.1 * BLOCK
            {
                mapped.offset += request.offset % BLOCK;
                mapped.bytes = request.bytes;
            }
            if request.op == Op::Write {
                written += mapped.bytes;
            }
            out.push(mapped);
        };
        for block in blocks_of(request) {
            let Some(at) = self.blocks.get(&block).map(|at| base + at) else { continue };
            run = match run {
                Some((first, count)) if first + count == at => Some((first, count + 1)),
                Some(run) => {
                    put(run);
                    Some((at, 1))
                }
                None => Some((at, 1)),
            };
        }
        if let Some(run) = run {
            put(run);
        }
        written
    }
}

fn blocks_of(request: &Request) -> std::ops::Range<u64> {
    request.offset / BLOCK..(request.offset + request.bytes).div_ceil(BLOCK)
}
