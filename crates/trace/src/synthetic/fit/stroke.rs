//! The operations of a fitted trace at work: which kind of request is next, and which run goes on behind it.

use super::touched::{Found, PAGE};
use super::{Shape, Size, align};
use crate::Op;
use nandle_random::{Stream, Table};

/// What a kind is behind in pages is forgotten beyond this: what cannot be made up for would shape all that follows.
const MOST_OWED: f64 = 256.0;
/// And this many repeats and joins.
pub(super) const MOST_AHEAD: f64 = 32.0;
/// Sizes of a run that are drawn ahead.
const MOST_PLANNED: u64 = 256;

/// Mean of sizes by their shares.
pub(super) fn mean(sizes: &[Size]) -> f64 {
    let sum: f64 = sizes.iter().map(|s| s.share).sum();
    sizes.iter().map(|s| s.bytes as f64 * s.share).sum::<f64>() / sum.max(f64::MIN_POSITIVE)
}

fn size_table(sizes: &[Size]) -> Option<Table<u64>> {
    Table::new(&sizes.iter().map(|s| (s.bytes, s.share)).collect::<Vec<_>>())
}

/// A kind at work. What it owes is what it should have had by now, less what it had: places are
/// chosen so that it stays near 0.
#[derive(Clone, Copy)]
pub(super) struct Drawable {
    pub bytes: u64,
    pub start: Option<u32>,
    pub repeat: f64,
    pub join: f64,
    pub fresh: Option<f64>,
    pub first: Option<f64>,
    pub owed_repeats: f64,
    pub owed_joins: f64,
    /// In pages.
    pub owed_fresh: f64,
    pub owed_first: f64,
    /// Which list holds its extents: shared by the operations.
    pub list: usize,
    /// Which list holds the granules that requests of its size were first to touch.
    pub company: usize,
}

/// Runs of one length at work: one in every `1 / share` requests that are not sequential.
pub(super) struct Course {
    pub requests: f64,
    pub fresh: f64,
    pub align: u64,
    pub share: f64,
    pub sizes: Option<Table<u64>>,
    pub mean_bytes: f64,
    pub begun: u64,
    /// Behind which of these requests the next one comes.
    pub due: f64,
}

/// The run behind a request.
#[derive(Clone, Copy, Default)]
pub(super) struct Ahead {
    pub requests: u64,
    pub bytes: u64,
    /// Pages that it should find untouched.
    pub untouched: f64,
    /// That is about all of them.
    pub fresh: bool,
}

/// One operation at work.
pub(super) struct Stroke {
    pub op: Op,
    /// Its place among the operations of [`Touched`].
    pub which: usize,
    pub fua: f64,
    pub sequential: f64,
    /// A repeated extent is at the `uniform ^ skew` of its list.
    pub skew: f64,
    pub sizes: Option<Table<u64>>,
    pub kinds: Option<Table<usize>>,
    pub drawables: Vec<Drawable>,
    pub courses: Vec<Course>,
    /// Requests so far that were not sequential.
    pub heads: u64,
    /// Sequential requests still to come in this run, and which it is.
    pub left: u64,
    pub course: usize,
    /// Sizes of the next of these, the last one first.
    pub planned: Vec<u64>,
    /// Untouched pages that runs should have found by now, less what they found.
    pub owed_run: f64,
    pub end: u64,
}

impl Drawable {
    /// After a request: what it should have found becomes owed, what it found is paid.
    pub fn settle(&mut self, found: Found, repeat: bool) {
        let pages = found.pages as f64;
        let settled = |owed: f64, share: Option<f64>, got: u64| {
            (owed + share.unwrap_or(0.0) * pages - got as f64).clamp(-MOST_OWED, MOST_OWED)
        };
        if !repeat {
            self.owed_fresh = settled(self.owed_fresh, self.fresh, found.fresh);
        }
        self.owed_first = settled(self.owed_first, self.first, found.first);
        self.owed_repeats = self.owed_repeats.clamp(-MOST_AHEAD, MOST_AHEAD);
        self.owed_joins = self.owed_joins.clamp(-MOST_AHEAD, MOST_AHEAD);
    }
}

impl Stroke {
    /// The run behind the request at hand. Each length comes as often as its share says, somewhere in its
    /// turn, but the first of each at once: what follows may need what it leaves. It waits a while for a
    /// request that ends where it can begin.
    pub fn ahead(&mut self, end: u64, stream: &mut Stream) -> Ahead {
        let head = self.heads as f64;
        self.heads += 1;
        let Some(at) = self.courses.iter().position(|course| {
            let patience = (0.5 / course.share).clamp(8.0, 256.0);
            head >= course.due && (course.align == align(end) || head >= course.due + patience)
        }) else {
            return Ahead::default();
        };
        let course = &mut self.courses[at];
        course.begun += 1;
        course.due = (course.begun as f64 + stream.unit()) / course.share;
        self.course = at;
        self.left = (course.requests + stream.unit()) as u64;
        // Space is looked for by the sizes that will be, or by their mean where they are many.
        self.planned.clear();
        if let Some(sizes) = &course.sizes {
            self.planned.extend((0..self.left.min(MOST_PLANNED)).map(|_| sizes.sample(stream)));
        }
        let unplanned = self.left.saturating_sub(MOST_PLANNED) as f64 * course.mean_bytes;
        let bytes = self.planned.iter().sum::<u64>().saturating_add(unplanned as u64);
        let pages = bytes as f64 / PAGE as f64;
        let untouched = course.fresh * pages + self.owed_run;
        let fresh = if course.fresh >= 0.9 { untouched > -pages } else { untouched >= 0.9 * pages };
        Ahead { requests: self.left, bytes, untouched, fresh }
    }

    pub fn new(op: Op, shape: &Shape, drawables: Vec<Drawable>) -> Self {
        let mut courses: Vec<Course> = shape
            .runs
            .iter()
            .filter(|run| run.share > 0.0 && !run.sizes.is_empty())
            .map(|run| Course {
                requests: run.requests,
                fresh: run.fresh,
                align: run.align,
                share: run.share,
                sizes: size_table(&run.sizes),
                mean_bytes: mean(&run.sizes),
                begun: 0,
                due: 0.0,
            })
            .collect();
        courses.sort_by(|a, b| b.fresh.total_cmp(&a.fresh).then(b.requests.total_cmp(&a.requests)));
        let kinds: Vec<(usize, f64)> = shape.kinds.iter().enumerate().map(|(i, k)| (i, k.share)).collect();
        // The mean of uniform^skew is 1 / (1 + skew).
        let skew = (1.0 / shape.repeat_position.clamp(0.01, 0.99) - 1.0).clamp(0.01, 100.0);
        Self {
            op,
            which: match op {
                Op::Read => 0,
                Op::Write => 1,
                _ => 2,
            },
            fua: shape.fua_share,
            sequential: shape.sequential_share,
            skew,
            sizes: size_table(&shape.sequential),
            kinds: Table::new(&kinds),
            drawables,
            courses,
            heads: 0,
            left: 0,
            course: 0,
            planned: Vec::new(),
            owed_run: 0.0,
            end: 0,
        }
    }
}
