//! What a run adds up to; plain counters, read by whoever reports them.

/// Counters of a drive since power-on (or since they were reset).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Host requests by kind: read, write, trim, flush, objects named and completed.
    pub requests: [u64; 6],
    /// Host bytes by kind.
    pub bytes: [u64; 6],
    /// Writes whose start or end is not on a page border.
    pub unaligned_writes: u64,
    /// Requests no larger than a page that span two.
    pub across_page_requests: u64,
    /// Write sub-requests that do not cover their page.
    pub partial_writes: u64,
    /// Of these, those to a page that keeps live sectors outside of them.
    pub partial_updates: u64,
    /// Read sub-requests with a sector that was never written (or was trimmed).
    pub unmapped_reads: u64,
    /// Requests refused: outside of the device, or writes to a read-only one.
    pub rejected: u64,
    /// Sectors of host data programmed on behalf of the host.
    pub host_sectors_programmed: u64,
    /// Page programs by cause.
    pub rmw_count: u64,
    /// Nanoseconds from the start of an RMW read to the end of its program, added up.
    pub rmw_ns: u64,
    /// Buffered sub-requests that found their page in the buffer.
    pub buffer_hits: u64,
    /// And those that did not.
    pub buffer_misses: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Of these, partial pages.
    pub evicted_partial_pages: u64,
    /// Partial pages in the buffer, added up over evictions.
    pub partial_pages_sum: u64,
    /// Nanoseconds that writes waited for room in the buffer.
    pub buffer_wait_ns: u64,
    /// DRAM accesses of mapping look-ups.
    pub dram_accesses: u64,
    /// DRAM accesses of updates of the mapping table.
    pub dram_updates: u64,
    /// Look-ups that found their translation page in RAM.
    pub cache_hits: u64,
    /// And those that did not.
    pub cache_misses: u64,
    /// Programs that failed and, but for those lost, were repeated elsewhere.
    pub program_failures: u64,
    /// Of these, those for which no page was left: what they held is unreadable.
    pub programs_lost: u64,
    /// Blocks that an erase took out of use: it failed, or a program in it had, or it was worn out.
    pub erase_failures: u64,
    /// Sectors that host reads asked for and the flash did not return.
    pub unreadable_sectors: u64,
    /// Pages of checkpoints written.
    pub checkpoint_pages: u64,
    /// Checkpoints started again because they could not be kept.
    pub checkpoints_dropped: u64,
    /// Victims chosen.
    pub gc_invocations: u64,
    /// Pages moved by garbage collection and wear levelling.
    pub gc_moved_pages: u64,
    /// Of these, by static wear levelling.
    pub wear_moved_pages: u64,
    /// Nanoseconds in which host writes stood still for want of free blocks.
    pub foreground_ns: u64,
    /// Victims by live pages when chosen, in twentieths of a block (the last = fully valid).
    pub victim_valid: [u64; 21],
    /// What collection had to resort to where page types are chosen.
    pub collection: CollectionStats,
    /// The same of dedicated blocks (erased without a copy: the first).
    pub victim_valid_dedicated: [u64; 21],
    /// Dedicated blocks whose survivors had to become normal.
    pub dedicated_demoted: u64,
    /// Calls that name objects, carried out or refused for want of blocks or because of an overlap.
    pub object_calls: u64,
    /// Dedicated blocks that a trim left empty, to be erased whole.
    pub block_erases_by_trim: u64,
    /// Each host stream; then all dedicated groups; then what the drive writes for
    /// itself and copies whose stream is no longer known.
    pub streams: Vec<StreamCount>,
    /// Trims recorded.
    pub trim_records: u64,
    /// The SLC cache.
    pub slc: SlcStats,
}

/// What the SLC cache took and gave back, in mapping units and blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlcStats {
    /// Written to it for the host.
    pub host_pages: u64,
    /// Written for the host to normal blocks.
    pub direct_pages: u64,
    /// Moved from it to normal blocks.
    pub folded_pages: u64,
    /// Blocks of it that were emptied.
    pub folds: u64,
    /// Blocks erased after they were written in SLC mode.
    pub erases: u64,
}

/// What collection had to resort to where page types are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionStats {
    /// Collections started only because a host write found no page of its type.
    pub emergency_gcs: u64,
    /// Collections started only because pages of the type that some host writes need were running out.
    pub proactive_gcs: u64,
    /// Victims that were not full: their unwritten pages went unused.
    pub unfinished_victims: u64,
}

/// Bytes of one stream, or of one class of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Sectors of what the host wrote that were programmed for it, without what a read-modify-write added.
    pub host_sectors: u64,
    /// Sectors' worth of pages programmed for it, by the host and by collection of its blocks.
    pub media_sectors: u64,
}
