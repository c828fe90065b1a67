//! Page mapping, the baseline: one fragment per logical page, always.
//!
//! A write that covers all live sectors of its page is programmed and the old page dies. Any other
//! is a partial update: the old page is read, modified and written (RMW). A partial write to a page
//! without data needs no read.

use nandle_nand::{Cause, Extent, Extents, OpId, PageUse};
use smallvec::SmallVec;

use super::{Part, Write};
use crate::allocation::PageClass;
use crate::flash::{Flash, Owner, Page, Reads};
use crate::fragments::{Fragment, only_run, runs};

/// Places each part by itself.
pub(crate) fn place(flash: &mut Flash, write: &Write<'_>) -> u32 {
    for part in write.parts {
        place_part(flash, write, part);
    }
    write.parts.len() as u32
}

/// Programs the union of the part and of what it leaves standing.
#[inline]
pub(crate) fn place_part(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>) {
    if part.mask == flash.full_mask() {
        place_whole(flash, write, part);
    } else {
        place_beside(flash, write, part, 0, &mut Reads::new());
    }
}

/// As [`place_beside`] for a whole page, which leaves nothing standing.
fn place_whole(flash: &mut Flash, write: &Write<'_>, part: &Part<'_>) {
    let &Part { lpn, mask, contents, release, load } = part;
    let (role, class) = (flash.host_role(lpn, write.stream), PageClass { full: true, alone: write.alone });
    let plane = flash.choose_plane(lpn, role, class).expect("room was checked");
    let extents = Extents::Home { lpn, start: 0, len: flash.sectors_per_page() as u8 };
    let owner = Owner { request: write.request, release };
    let page = Page { plane, role, class, kind: PageUse::Data, extents, cause: Cause::Host, owner };
    let (ppn, op) = flash.append(&page, load.as_slice());
    flash.count_host_sectors(mask);
    flash.fill(ppn, mask, 0, contents);
    flash.replace(lpn, ppn, op);
}

/// As [`place_part`], but for the sectors `held`: they stay where they are. Pages in `reads` have
/// been read already for this write.
pub(crate) fn place_beside(
    flash: &mut Flash,
    write: &Write<'_>,
    part: &Part<'_>,
    held: u64,
    reads: &mut Reads,
) {
    let &Part { lpn, mask, contents, release, load } = part;
    let full = mask == flash.full_mask();
    let keep = if full { 0 } else { flash.stored(lpn, !(mask | held)) };
    let mut after: SmallVec<[OpId; 4]> = SmallVec::from_slice(load.as_slice());
    let before = reads.len();
    if keep != 0 {
        flash.read(lpn, keep, Cause::Rmw, None, &after, reads);
        after.extend(reads.iter().map(|&(_, op)| op));
    }
    let (role, class) = (flash.host_role(lpn, write.stream), PageClass { full, alone: write.alone });
    let plane = flash.choose_plane(lpn, role, class).expect("room was checked");
    let mut list: SmallVec<[Extent; 2]> = SmallVec::new();
    let extents = if full {
        Extents::Home { lpn, start: 0, len: flash.sectors_per_page() as u8 }
    } else if let Some((start, len)) = only_run(mask | keep) {
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
    let owner = Owner { request: write.request, release };
    let page = Page { plane, role, class, kind: PageUse::Data, extents, cause: Cause::Host, owner };
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
