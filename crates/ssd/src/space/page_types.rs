//! Which page type a write gets, as rules: for each class of writes the steps in which a page is looked
//! for. A page-type policy is no more than its rules.

use std::ops::Range;

use smallvec::SmallVec;

use super::group::PageClass;

/// One way to a page; a page that is found by it is counted under `note`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A page of this type in a partially written block (0 = LSB, the fastest).
    Take(usize, Note),
    /// A page of one of the types from the first up to the second, each that can be had being equally
    /// likely.
    Any(usize, usize),
    /// The next page of a partially written block whose next page is of one of the types from the first up to
    /// the second, each such block being equally likely.
    AnyBlock(usize, usize),
    /// The first page of a fresh block.
    Open(Note),
}

/// Under which number a step counts its pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note(pub u8);

impl Note {
    /// Numbers that there are; number 0 is not looked at.
    pub const COUNT: usize = 8;
    /// Nobody counts.
    pub const NONE: Self = Self(0);
}

/// The steps of one class, tried in order.
pub type Steps = SmallVec<[Step; 8]>;

/// The rules of a page-type policy.
#[derive(Clone, Debug)]
pub struct PageTypes {
    /// Names the random draws of [`Step::Any`] and [`Step::AnyBlock`].
    name: &'static str,
    types: usize,
    /// Steps of host and system writes by class, then those of collection's survivors.
    steps: [Steps; 8],
    /// Host writes of each class get page types below this one.
    ends: [usize; 4],
}

#[inline]
fn place(class: PageClass, survivors: bool) -> usize {
    usize::from(survivors) << 2 | usize::from(class.full) << 1 | usize::from(class.alone)
}

impl PageTypes {
    /// `steps` says for each class, and whether collection writes it, how a page is looked for on
    /// cells of `types` page types.
    pub fn new(name: &'static str, types: usize, steps: impl Fn(PageClass, bool) -> Steps) -> Self {
        let of = |n: usize| steps(PageClass { full: n & 2 != 0, alone: n & 1 != 0 }, n & 4 != 0);
        let steps: [Steps; 8] = std::array::from_fn(of);
        let end = |step: &Step| match *step {
            Step::Take(kind, _) => kind + 1,
            Step::Any(_, to) | Step::AnyBlock(_, to) => to,
            Step::Open(_) => 1,
        };
        let ends = std::array::from_fn(|n| steps[n].iter().map(end).max().unwrap_or(types));
        Self { name, types, steps, ends }
    }

    /// No choice: one block after the other is filled, by host writes and collection alike.
    pub(crate) fn block_by_block(types: usize) -> Self {
        Self::new("block by block", types, |_, _| {
            let fill = (0..types).rev().map(|kind| Step::Take(kind, Note::NONE));
            fill.chain([Step::Open(Note::NONE)]).collect()
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[inline]
    pub(super) fn steps(&self, class: PageClass, survivors: bool) -> &Steps {
        &self.steps[place(class, survivors)]
    }

    /// The page types that host writes of a class may get.
    #[inline]
    pub(super) fn allowed(&self, class: PageClass) -> Range<usize> {
        0..self.ends[place(class, false)]
    }

    /// The page types of the most particular class of host writes, if it may not have all.
    pub(super) fn narrowest(&self) -> Option<Range<usize>> {
        let end = self.ends.iter().copied().min()?;
        (end < self.types).then_some(0..end)
    }

    /// An order of preference, made whole, as steps: the types in turn, a fresh block where the fastest
    /// has its turn; collection opens one only if no page is left elsewhere.
    pub fn preference(order: &[usize], types: usize, survivors: bool) -> Steps {
        let mut whole: SmallVec<[usize; 4]> = SmallVec::new();
        for kind in order.iter().copied().chain(0..types) {
            if kind < types && !whole.contains(&kind) {
                whole.push(kind);
            }
        }
        let mut steps = Steps::new();
        for kind in whole {
            steps.push(Step::Take(kind, Note::NONE));
            if kind == 0 && !survivors {
                steps.push(Step::Open(Note::NONE));
            }
        }
        steps.push(Step::Open(Note::NONE));
        steps
    }
}
