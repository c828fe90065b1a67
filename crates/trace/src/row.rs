//! What a format's reader makes of a line, before volumes are placed and times are put in order.
use crate::Op;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Longest read or write believed. Larger ones come from a wrong unit or a damaged file.
pub(crate) const MAX_REQUEST_BYTES: u64 = 1 << 32;
/// Addresses stay below this, so that sums cannot overflow.
pub(crate) const MAX_END_BYTES: u64 = 1 << 62;
/// Distinct volumes believed; more means that the volume column is something else.
const MAX_VOLUMES: usize = 1 << 20;

/// One request of one volume at the trace's own absolute time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub time: u64,
    pub offset: u64,
    pub bytes: u64,
    pub object: u32,
    pub volume: u32,
    pub stream: u16,
    pub op: Op,
    pub fua: bool,
}

impl Row {
    /// A plain request of the first volume.
    pub fn new(time: u64, op: Op, offset: u64, bytes: u64) -> Self {
        Row { time, offset, bytes, object: 0, volume: 0, stream: 0, op, fua: false }
    }

    /// `Ok(None)` if it is a request, a reason if it is to be skipped.
    pub fn check(&self) -> Result<Option<&'static str>, String> {
        let wide = match self.op {
            Op::Read | Op::Write => MAX_REQUEST_BYTES,
            Op::Flush | Op::FlashFree => return Ok(None),
            Op::Trim | Op::FlashAlloc => MAX_END_BYTES,
        };
        if self.bytes == 0 {
            return Ok(Some("zero length"));
        }
        if self.bytes > wide {
            return Err(format!(
                "a size of {} bytes; at most {wide} make sense: is the unit right?",
                self.bytes
            ));
        }
        if self.offset > MAX_END_BYTES || self.offset + self.bytes > MAX_END_BYTES {
            return Err(format!(
                "offset {} bytes + size {} bytes lie beyond any device: is the unit right?",
                self.offset, self.bytes
            ));
        }
        Ok(None)
    }
}

/// A line understood.
pub(crate) enum Parsed {
    Row(Row),
    /// Not a request, for the reason that the counts will show.
    Skip(&'static str),
}

/// Volume names, numbered by first appearance.
#[derive(Default)]
pub(crate) struct Volumes {
    ids: FxHashMap<Box<[u8]>, u32>,
    names: Vec<String>,
    last: (Vec<u8>, u32),
}

impl Volumes {
    #[inline]
    pub fn id(&mut self, name: &[u8]) -> Result<u32, String> {
        // Rows of one volume come in runs: skip the hash for them.
        if !self.names.is_empty() && self.last.0.iter().eq(name) {
            return Ok(self.last.1);
        }
        self.other(name)
    }

    fn other(&mut self, name: &[u8]) -> Result<u32, String> {
        let id = match self.ids.get(name) {
            Some(&id) => id,
            None => {
                if self.names.len() >= MAX_VOLUMES {
                    return Err(format!("more than {MAX_VOLUMES} volumes: is this the right format?"));
                }
                let id = self.names.len() as u32;
                self.ids.insert(name.into(), id);
                self.names.push(String::from_utf8_lossy(name).into_owned());
                id
            }
        };
        self.last.0.clear();
        self.last.0.extend_from_slice(name);
        self.last.1 = id;
        Ok(id)
    }

    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("", |n| n)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// What readers share while they read.
#[derive(Default)]
pub(crate) struct Context {
    pub volumes: Volumes,
    /// Lines or records looked at.
    pub rows: u64,
    pub skipped: BTreeMap<&'static str, u64>,
    pub warnings: Vec<String>,
}

impl Context {
    pub fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }
}

/// Yields rows in file order.
pub(crate) trait Rows: Send {
    /// Appends at most `max` rows; false once there are no more.
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, crate::Error>;
}

/// Understands the lines of one text format.
pub(crate) trait LineFormat: Send {
    /// The error says what was found and what was expected; the caller adds file and line.
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String>;

    /// As [`LineFormat::line`], of the line with which `text` begins, and how long it is, if it is one of many that
    /// are alike: they take half the time. Nothing has happened if not.
    fn plain(&self, _text: &[u8], _volumes: &mut Volumes) -> Option<(Row, usize)> {
        None
    }

    /// Said once the header is known.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}
