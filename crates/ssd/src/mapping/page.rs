//! Page mapping, the baseline: one fragment per logical page, always.
//!
//! A write that covers all live sectors of its page is programmed and the old page dies. Any other
//! is a partial update: the old page is read, modified and written (RMW). A partial write to a page
//! without data needs no read.

use nandle_nand::{Cause, Extent, Extents, OpId, PageUse};
use smallvec::SmallVec;

use super::Write;
use crate::allocation::Role;
use crate::flash::Flash;
use crate::fragments::runs;

/// Programs the union of the write and of what it leaves standing.
pub(crate) fn place(flash: &mut Flash, write: &Write<'_>) {
    let &Write { lpn, mask, contents, owner, load } = write;
    let keep = if mask == flash.full_mask() || flash.fragments().is_unmapped(lpn) {
        0
    } else {
        flash.fragments().mask(lpn, flash.array()) & !mask
    };
    let mut after: SmallVec<[OpId; 4]> = load.into_iter().collect();
    let mut reads = SmallVec::new();
    if keep != 0 {
        flash.read(lpn, keep, Cause::Rmw, None, &after, &mut reads);
        after.extend(reads.iter().map(|&(_, op)| op));
    }
    let role = Role::Host(owner.stream);
    let plane = flash.choose_plane(lpn, role).expect("room was checked");
    let base = u64::from(lpn) * u64::from(flash.sectors_per_page());
    let list: SmallVec<[Extent; 2]> = runs(mask | keep)
        .map(|(start, len)| Extent { lsn: base + u64::from(start), sectors: len as u8, at: start as u8 })
        .collect();
    let extents = match list.as_slice() {
        [e] => Extents::Home { lpn, start: e.at, len: e.sectors },
        list => Extents::List(list),
    };
    let (ppn, op) = flash.append(plane, role, PageUse::Data, extents, Cause::Host, owner, &after);
    if keep != 0 {
        let reads: SmallVec<[OpId; 4]> = reads.iter().map(|&(_, op)| op).collect();
        flash.mark_rmw(op, &reads);
    }
    flash.count_host_sectors(mask);
    flash.carry(lpn, keep, ppn, 0);
    flash.fill(ppn, mask, 0, contents);
    flash.replace(lpn, ppn, op);
}
