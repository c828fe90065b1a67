//! Memory from the system: zeros, each page of which is taken at its first touch.

use std::alloc::{Layout, handle_alloc_error};

use memmap2::MmapMut;

/// So many zeros, at least one; in huge pages, if that is wanted and the system has them.
#[must_use]
pub fn zeros(bytes: usize, huge_pages: bool) -> MmapMut {
    let bytes = bytes.max(1);
    let Ok(memory) = MmapMut::map_anon(bytes) else {
        handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
    };
    if huge_pages {
        in_huge_pages(&memory);
    }
    memory
}

/// What of `memory` is not yet taken is taken in huge pages, if the system has them; without them all goes more slowly.
pub fn in_huge_pages(memory: &MmapMut) {
    #[cfg(target_os = "linux")]
    let _ = memory.advise(memmap2::Advice::HugePage);
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
