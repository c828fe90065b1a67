//! Whether a page's flush would wait: the test that MCA and PC-LRU share.
//!
//! A chip is idle if no operation is in service or queued there. A flush needs the chips of the old
//! data that its mapping scheme would read first, and the chip that its program would go to; with
//! dynamic striping that is any idle one.

use super::Entry;
use crate::allocation::PageClass;
use crate::flash::Flash;
use crate::mapping::Mapping;

/// Whether old data that a flush of the entry has to read lies on a busy chip.
pub(crate) fn read_waits(flash: &Flash, mapping: &Mapping, entry: &Entry) -> bool {
    let g = flash.geometry();
    mapping
        .reads_before(flash, entry.lpn, entry.mask)
        .iter()
        .any(|&ppn| !flash.plane_is_idle(g.plane_of(g.block_of(ppn))))
}

/// Whether a flush of the entry would wait for any chip.
pub(crate) fn flush_waits(flash: &Flash, mapping: &Mapping, entry: &Entry) -> bool {
    let target_is_idle = match flash.home(entry.lpn) {
        Some(plane) => flash.plane_is_idle(plane),
        None => {
            let role = flash.host_role(entry.lpn, entry.stream);
            let class = PageClass { full: entry.mask == flash.full_mask(), alone: true };
            (0..flash.geometry().planes())
                .any(|plane| flash.plane_is_idle(plane) && flash.room(plane, role, class) > 0)
        }
    };
    !target_is_idle || read_waits(flash, mapping, entry)
}
