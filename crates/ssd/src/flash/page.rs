//! Page mapping, the baseline: one fragment per logical page, always.
//!
//! A write that covers all live sectors of its page is programmed and the old page dies. Any other
//! is a partial update: the old page is read, modified and written (RMW). A partial write to a page
//! without data needs no read. What no scheme takes up is placed so.

use nandle_nand::{Cause, Extent, Extents, OpId};
use smallvec::SmallVec;

use super::{Flash, Page, Part, Reads, Write};
use crate::map::{Fragment, only_run, runs};
use crate::media::{Contents, Waiter};
use crate::space::{GroupId, PageClass};

/// Places each part by itself; how many programs that took.
#[inline(always)]
pub(crate) fn place(flash: &mut Flash, write: &Write<'_>) -> u32 {
    for part in write.parts {
        place_part(flash, write, part);
    }
    write.parts.len() as u32
}

/// Programs the union of the part and of what it leaves standing.
#[inline(always)]
pub(crate) fn place_part(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>) {
    let keep = left_standing(flash, part);
    if keep == 0
        && part.held == 0
        && let Some(run) = only_run(part.mask)
    {
        place_run(flash, write, part, run);
    } else {
        place_keeping(flash, write, part, keep, &mut Reads::new());
    }
}

/// The stored sectors of its page that a part leaves standing, beside those that somebody else looks after.
#[inline]
fn left_standing(flash: &Flash, part: &Part<'_>) -> u64 {
    if part.mask == flash.full_mask() { 0 } else { flash.stored(part.lpn, !(part.mask | part.held)) }
}

/// As [`place_keeping`] for a part that is one run and leaves nothing standing: nothing is read for it.
fn place_run(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, (start, len): (u32, u32)) {
    let &Part { lpn, mask, contents, release, load, .. } = part;
    let class = PageClass { full: mask == flash.full_mask(), alone: part.alone };
    let waiter = Waiter { request: write.request, release };
    if flash.is_plain() {
        let plane = flash.granted_plane_of::<true>(lpn, GroupId::Host(0), class);
        let run = Run { lpn, start, len, mask, group: GroupId::Host(0), plane, class };
        put_run::<true>(flash, run, waiter, contents, load.as_slice());
    } else {
        let group = flash.host_group(lpn, write.stream);
        let plane = flash.granted_plane(lpn, group, class);
        let run = Run { lpn, start, len, mask, group, plane, class };
        put_run::<false>(flash, run, waiter, contents, load.as_slice());
    }
}

/// A run of sectors of a logical page that is programmed by itself.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub lpn: u32,
    pub start: u32,
    pub len: u32,
    /// The same as a mask.
    pub mask: u64,
    pub group: GroupId,
    /// Where it goes.
    pub plane: u32,
    pub class: PageClass,
}

/// Programs a run when `after` are done; nothing else of its logical page stays.
#[inline(always)]
pub(crate) fn put_run<const PLAIN: bool>(
    flash: &mut Flash,
    run: Run,
    waiter: Waiter,
    contents: Contents<'_>,
    after: &[OpId],
) {
    let Run { lpn, start, len, mask, group, plane, class } = run;
    let extents = Extents::Home { lpn, start: start as u8, len: len as u8 };
    let page = Page { waiter, ..Page::data(plane, group, class, extents) };
    let (ppn, op) = flash.append_here::<PLAIN>(&page, after);
    flash.count_written(len);
    flash.fill(ppn, mask, 0, contents);
    flash.replace_of::<PLAIN>(lpn, ppn, op);
}

/// As [`place_part`]. Pages in `reads` have been read already for this write.
pub(crate) fn place_beside(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, reads: &mut Reads) {
    let keep = left_standing(flash, part);
    place_keeping(flash, write, part, keep, reads);
}

/// Programs the part together with the stored sectors `keep`, which are read first.
fn place_keeping(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, keep: u64, reads: &mut Reads) {
    let &Part { lpn, mask, held, contents, release, load, .. } = part;
    let mut after: SmallVec<[OpId; 4]> = SmallVec::from_slice(load.as_slice());
    let before = reads.len();
    if keep != 0 {
        flash.read(lpn, keep, Cause::Rmw, None, &after, reads);
        after.extend(reads.iter().map(|&(_, op)| op));
    }
    let class = PageClass { full: mask == flash.full_mask(), alone: part.alone };
    let group = flash.host_group(lpn, write.stream);
    let plane = flash.granted_plane(lpn, group, class);
    let mut list: SmallVec<[Extent; 2]> = SmallVec::new();
    let extents = if let Some((start, len)) = only_run(mask | keep) {
        Extents::Home { lpn, start: start as u8, len: len as u8 }
    } else {
        let base = u64::from(lpn) * u64::from(flash.sectors_per_page());
        list.extend(runs(mask | keep).map(|(start, len)| Extent {
            lsn: base + u64::from(start),
            sectors: len as u8,
            at: start as u8,
        }));
        Extents::List(&list)
    };
    let page = Page::data(plane, group, class, extents).for_request(write.request, release);
    let (ppn, op) = flash.append(&page, &after);
    if reads.len() > before {
        flash.mark_rmw(op, reads[before..].iter().map(|&(_, read)| read));
    }
    flash.count_host_sectors(mask);
    flash.carry(lpn, keep, ppn, 0);
    flash.fill(ppn, mask, 0, contents);
    if held == 0 {
        flash.replace(lpn, ppn, op);
    } else {
        flash.attach(lpn, Fragment { mask: mask | keep, ppn, shift: 0 }, op);
    }
}
