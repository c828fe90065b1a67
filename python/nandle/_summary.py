"""The figures of a run with their types: the keys of summary.json, in the words of the code.

Made from its schema: `METRICS=write cargo test --test program metrics::`.
"""

from __future__ import annotations

from ._record import Record


class DeviceBytes(Record):
    """Sizes of the device."""

    raw: int
    """Flash."""
    logical: int
    """What the host sees."""


class Prepare(Record):
    """The phases before the measured one."""

    phases: int
    """How many."""
    requests: int
    """Requests replayed in them."""
    simulated_ns: int
    """Simulated time they took."""


class Trace(Record):
    """What became of the requests of the trace; nothing is dropped in silence."""

    submitted: int
    """Requests given to the device, preparation included."""
    completed: int
    """Requests it completed (or refused)."""
    rounded: int
    """Requests that were not made of whole sectors and were rounded."""
    rounded_bytes: int
    """Bytes that this added to the writes of the measured part."""
    moved: int
    """Requests moved to another place on the device by `--fit`."""
    empty_trims: int
    """Trims without a whole sector in them: nothing to do."""
    hints_ignored: int
    """FlashAlloc commands that the scheme has no use for."""
    cut_off: int
    """Requests under way when the power was cut."""


class Host(Record):
    """The host's side."""

    read: Requests
    """Reads."""
    write: Requests
    """Writes."""
    trim: Trims
    """Trims."""
    flush: Requests
    """Flushes."""
    all: Requests
    """All of them."""
    unaligned_writes: int
    """Writes that do not start and end on a page border."""
    across_page_requests: int
    """Reads and writes no larger than a page that span two."""
    partial_writes: int
    """Write sub-requests that do not cover their page."""
    partial_updates: int
    """Of these, those to a page with live sectors outside of them."""
    unmapped_reads: int
    """Read sub-requests with a sector that was never written, or trimmed: answered without flash, they flatter the latencies."""
    rejected: int
    """Requests refused."""


class User(Record):
    """A user of the drive, or several of one name."""

    name: str
    """Its name: the program, and what it does in it."""
    read: Requests
    """Reads."""
    write: Requests
    """Writes."""
    trim: Trims
    """Trims."""
    flush: Requests
    """Flushes."""
    programmed_bytes: int
    """Bytes of the pages programmed for the host in which its sectors were new (of a page of several users, its part)."""
    copied_bytes: int
    """Bytes programmed to move sectors that it had written: by collection, wear levelling and merges."""
    waf: float | None
    """Both over what it wrote; null until it wrote."""


class Flash(Record):
    """The flash's side, in pages and blocks."""

    reads: Reads
    """Page reads by cause."""
    programs: Programs
    """Page programs by cause."""
    read_retries: int
    """Repetitions of reads that the decoder could not correct."""
    erases: int
    """Block erases."""
    bytes_programmed: int
    """Bytes programmed."""
    rebuilt: int
    """Reads of pages that could not be read and were rebuilt from their stripe."""
    by_page_type: ByPageType
    """Operations by page type."""


class WafParts(Record):
    """What write amplification is made of; adds up to `waf`."""

    host: float
    """Host sectors programmed for the host."""
    gc: float
    """Garbage collection and wear levelling."""
    merge: float
    """Merges."""
    map: float
    """Translation pages."""
    meta: float
    """Metadata log."""
    parity: float
    """Parity of superblocks."""
    padding: float
    """The rest of the host's pages: old sectors carried over by read-modify-writes, and room left unfilled."""


class Steady(Record):
    """How steady the device was at the end."""

    reached: bool
    """`steady_state`."""
    band: float
    """Most that WAF and mean latency might spread over the windows, as a share of their mean."""
    waf: float | None
    """`waf_steady`."""
    from_drive_writes: float | None
    """Logical capacities written by the time that the windows began; null if the host wrote nothing."""


class Link(Record):
    """Host link."""

    to_drive_ns: int
    """Time that data were on their way to the drive."""
    to_host_ns: int
    """Time that data were on their way to the host."""
    utilisation: float
    """The longer of both, as a share of the run."""


class Controller(Record):
    """Processor cores."""

    busy_ns: dict[str, int]
    """Core time by cause: commands of the host, and flash operations by theirs (`host`, `rmw`, `gc`, `merge`, `map`, `meta`)."""
    utilisation: list[float]
    """What each core was busy, as a share of the run."""


class Units(Record):
    """Mapping units."""

    bytes: int
    """Bytes of a mapping unit."""
    padding: int
    """Bytes of flash that were programmed without holding data: the rest of pages and units that were not full."""


class SlcCache(Record):
    """SLC cache."""

    bytes: int
    """Most that it can hold: blocks of its own, and the share of the blocks that were free when the run ended."""
    host_bytes: int
    """Programmed in it for the host."""
    direct_bytes: int
    """Programmed for the host in normal blocks, because it was full."""
    folded_bytes: int
    """Moved from it to normal blocks; counted in `waf_parts.gc` as well."""
    folds: int
    """Blocks that were folded."""
    erases: int
    """Erases of blocks that had been written in SLC mode."""


class Rmw(Record):
    """Read-modify-writes."""

    count: int
    """How many."""
    lat_ns: Mean
    """From the start of the read to the end of the program."""


class Buffer(Record):
    """Write buffer."""

    hits: int
    """Write sub-requests that found their page in the buffer."""
    misses: int
    """And those that did not."""
    evictions: int
    """Pages evicted."""
    evicted_partial_pages: int
    """Of these, partial ones."""
    mean_partial_pages: float
    """Partial pages in the buffer, on average over evictions."""
    wait_ns: int
    """Time that writes waited for room in it."""


class Mapping(Record):
    """Mapping table."""

    bytes: int
    """Bytes of the whole table."""
    dram_accesses: int
    """DRAM accesses of look-ups."""
    dram_updates: int
    """DRAM accesses of updates."""
    cache_hits: int
    """Look-ups that found their translation page in RAM."""
    cache_misses: int
    """And those that did not."""


class Streams(Record):
    """Streams."""

    flashalloc_calls: int
    """FlashAlloc calls that were honoured."""
    flashalloc_refused: int
    """FlashAlloc calls that were refused: an overlap, too many ranges, no clean blocks."""
    flashalloc_ns: int
    """Time from the arrival of FlashAlloc calls to their completion, in nanoseconds, added up."""
    flashfree_calls: int
    """FlashFree calls."""
    instances_live: int
    """FlashAlloc instances at the end."""
    fa_pages: int
    """Pages programmed for objects, their copies included."""
    block_erases_by_trim: int
    """Blocks of objects that a trim left empty: erased whole, without a copy."""
    dedicated_demoted: int
    """Blocks of objects whose survivors had to become normal."""
    per_stream: list[Stream]
    """Each stream of the device; their media bytes and those of parity, which is of no stream, add up to flash.bytes_programmed."""
    per_class: list[Class]
    """The host's writes by class: the stream id of the request, or the one that its object was announced with."""


class Gc(Record):
    """Garbage collection."""

    invocations: int
    """Victims chosen."""
    moved_pages: int
    """Mapping units moved (of a drive that maps pages: pages), wear levelling included."""
    foreground_ns: int
    """Time in which host writes stood still for want of free blocks."""
    victim_valid_histogram: list[int]
    """Victims by live pages when chosen, in twentieths of a block; the last is a full one."""
    victim_valid_histogram_objects: list[int]
    """The same of blocks dedicated to objects; the first counts also those erased whole without being collected."""


class Wear(Record):
    """Wear, over the device's whole life."""

    erase_min: int
    """Erases of the least worn good block."""
    erase_max: int
    """Erases of the most worn good block."""
    erase_mean: float
    """Mean."""
    erase_stddev: float
    """Standard deviation."""
    bad_blocks: int
    """Blocks out of use."""


class Lifetime(Record):
    """How long the flash lasts at this rate."""

    dwpd: float | None
    """Logical capacities that the host writes in a day of simulated time; null without a clock or writes."""
    years: float | None
    """Years until each block has been erased `endurance` times, at this rate and `waf_steady` (or `waf`); null as `dwpd`."""
    kg_co2e_per_tb: float | None
    """What making the flash emitted, in kg CO2e, for each TB that the host writes before it is worn out: 0.16 kg a GB of flash (Tannu and Nair, HotCarbon 2022), over endurance / WAF."""
    endurance: int
    """Erases that a block stands: `cell.endurance`."""
    endurance_assumed: bool
    """The device file has none, so that it is the usual one of such cells: SLC 100,000, MLC 10,000, TLC 3,000, QLC 1,000."""


class Recovery(Record):
    """Power cuts and what recovery from them took, all added up."""

    cuts: int
    """Cuts."""
    cuts_missed: int
    """Cuts that were asked for and did not come: the measured part was over before."""
    from_checkpoint: int
    """Of these, recoveries that began at a checkpoint; the others read every page's out-of-band area."""
    reads: int
    """Flash reads."""
    oob_reads: int
    """Of these, of out-of-band areas alone."""
    time_ns: int
    """Time."""
    time_max_ns: int
    """Time of the longest."""
    hold_up_max_ns: int
    """Longest time that the capacitors had to last (`recovery.plp`)."""
    requests_lost: int
    """Requests under way that were lost."""


class Faults(Record):
    """Failures of the flash (`[faults]`, endurance)."""

    program_failures: int
    """Programs that failed and, but for those lost, were repeated elsewhere."""
    programs_lost: int
    """Of these, those that found no page to be repeated in: what they held is unreadable."""
    erase_failures: int
    """Blocks that their last erase took out of use."""
    unreadable_sectors: int
    """Sectors that host reads asked for and did not get; of a served drive also those that its image no longer had at the start."""
    read_only: bool
    """The drive takes no more writes."""
    buffered_sectors: int
    """Sectors that a read-only drive has taken and still holds in its write buffer."""


class Integrity(Record):
    """Verification of every completion, and of every sector that the run wrote or trimmed."""

    checked_sectors: int
    """Sectors compared with the last write."""
    expected_sectors: int
    """Sectors that should have been: those that reads asked for, and what is read back at the end and after power cuts."""
    mismatches: int
    """Of those compared, wrong ones."""
    unreadable: int
    """Sectors that the drive said it could not read; they are not judged."""
    wrong_completions: int
    """Completions that were wrong otherwise: unknown or missing, a status that the drive may not give, too few bytes."""


class Requests(Record):
    """Requests of one kind."""

    requests: int
    """How many completed."""
    bytes: int
    """Their bytes."""
    iops: float
    """Requests per simulated second."""
    bw_bytes: float
    """Bytes per simulated second."""
    lat_ns: LatencyNs
    """From the host's issuing to completion, waiting in the host's queue included."""


class Trims(Record):
    """Trims: they transfer nothing, so they have no bandwidth."""

    requests: int
    """How many completed."""
    bytes: int
    """The bytes that they cover."""
    iops: float
    """Requests per simulated second."""
    lat_ns: LatencyNs
    """From the host's issuing to completion, waiting in the host's queue included."""


class Reads(Record):
    """Page reads by cause."""

    host: int
    """The host's own."""
    rmw: int
    """To complete partial updates."""
    gc: int
    """Garbage collection and wear levelling."""
    merge: int
    """Bringing versions or areas together."""
    map: int
    """Translation pages."""
    meta: int
    """The metadata log."""
    parity: int
    """The rest of the stripes of pages that had to be rebuilt."""
    total: int
    """All."""


class Programs(Record):
    """Page programs by cause."""

    host: int
    """The host's own, read-modify-writes included."""
    gc: int
    """Garbage collection and wear levelling."""
    merge: int
    """Bringing versions or areas together."""
    map: int
    """Translation pages."""
    meta: int
    """The metadata log."""
    parity: int
    """Parity of superblocks."""
    total: int
    """All."""


class ByPageType(Record):
    """Operations by page type; cells with fewer bits leave the later ones at 0."""

    lsb: PageTypeOps
    """First (fastest) page of a word line."""
    csb: PageTypeOps
    """Second."""
    msb: PageTypeOps
    """Third."""
    tsb: PageTypeOps
    """Fourth."""


class Mean(Record):
    """A mean."""

    mean: float
    """In nanoseconds."""


class Stream(Record):
    """One stream of the device."""

    stream: int
    """Its number."""
    kind: str
    """What it holds: `normal` (without streams), `stream`, `handle` (FDP), `objects` (all of FlashAlloc's), `internal` (map, log, and copies whose stream is no longer known)."""
    host_bytes: int
    """Bytes of the host's programmed for it, without those that a read-modify-write carried along."""
    media_bytes: int
    """Bytes programmed for it, copies included."""
    waf: float | None
    """Their ratio; null until something of the host's was programmed for it."""
    waf_part: float
    """Its part of the drive's WAF: media bytes over all bytes that the host wrote. The parts and waf_parts.parity add up to `waf`."""


class Class(Record):
    """The host's writes of one class."""

    requests: int
    """Writes that completed."""
    host_bytes: int
    """Their bytes."""
    lat_ns: Mean
    """Latency."""


class LatencyNs(Record):
    """Latencies in nanoseconds."""

    mean: float
    """Mean."""
    stddev: float
    """Standard deviation."""
    min: int
    """Shortest."""
    max: int
    """Longest."""
    percentile: dict[str, int]
    """Percentiles, to 0.1%."""


class PageTypeOps(Record):
    """Operations on one page type."""

    reads: int
    """Reads, for any cause."""
    programs: int
    """Programs, for any cause."""
    rmw_reads: int
    """Reads to complete partial updates."""


class CountedAcross(Record):
    """What is counted under across."""

    direct_writes: int
    """Across-page writes that made a new area."""
    profitable_merges: int
    """Across-page writes merged into an area."""
    unprofitable_merges: int
    """Other writes merged into an area."""
    rollbacks: int
    """Areas dissolved by a write that did not fit."""
    shrinks: int
    """Areas that gave up overwritten sectors instead (`shrink`)."""
    refused: int
    """Across-page writes placed normally: no page to spare for an area."""
    areas_live: int
    """Areas at the end."""
    direct_reads: int
    """Reads answered from an area alone."""
    merged_reads: int
    """Reads that needed an area and other pages."""


class CountedMrsm(Record):
    """What is counted under mrsm."""

    split_regions: int
    """Regions that went from pages to pieces."""
    joined_regions: int
    """Regions that went back from pieces to pages."""
    regions_split: int
    """Regions mapped by piece at the end."""
    regions: int
    """Regions that the logical pages are divided into."""
    nodes: int
    """Nodes of the tree at the end."""
    levels: int
    """Levels of the tree at the end."""
    pieces_written: int
    """Partial pages written by themselves."""
    merged: int
    """Writes that brought their page together: too many pieces."""
    packed_pages: int
    """Physical pages that pieces were packed into."""
    refused: int
    """Writes that brought their page together: no page to spare."""
    gc_packed: int
    """Pages that garbage collection packed into another one's copy."""


class CountedMultiVersion(Record):
    """What is counted under multi_version."""

    versions_written: int
    """Partial pages programmed beside their older data."""
    merges_gc: int
    """Logical pages brought together by garbage collection."""
    merges_idle: int
    """Logical pages brought together in idle time."""
    merges_pressure: int
    """Logical pages brought together because surplus pages ran short."""
    refused: int
    """Partial updates read, modified and written for want of surplus pages."""
    compacted_pages: int
    """Physical pages filled with small partial pages."""
    compacted_extents: int
    """Runs of sectors in pages that small partial pages fill."""
    max_extra_pages: int
    """Most physical pages at a time beyond one per logical page."""


class CountedAllocation(Record):
    """What is counted under allocation."""

    backup_csb: int
    """Partial host writes that took a CSB page (QLC: MSB) for want of LSB pages."""
    backup_msb: int
    """Full writes that took an MSB page (QLC: TSB) for want of CSB pages."""
    full_on_fast: int
    """Full writes that took an LSB page because no block had anything else."""
    slow_survivors: int
    """Partial survivors of collection that took a page of the slowest type."""
    emergency_gcs: int
    """Collections for want of a page of the right type."""


class Summary(Record):
    """Everything a run adds up to."""

    schema_version: int
    """Version of this layout."""
    version: str
    """Version of the program."""
    device: str
    """The device's name."""
    scheme: str
    """Its scheme, as who asked for it called it; else a sum of policies."""
    resolved_scheme: str
    """Its scheme as a sum of policies."""
    workload: str
    """The workload's name."""
    seed: int
    """Seed of every random choice."""
    complete: bool
    """The workload ran to its end."""
    untimed: bool
    """Without clocks: all times, rates and utilisations are 0."""
    digest: str
    """Hash of the final state and of every completion time, hexadecimal."""
    notes: list[str]
    """What a reader has to know: assumptions, scaling, warnings."""
    simulated_ns: int
    """Simulated time of the measured part."""
    cpu_s: float
    """CPU time of the replay (user + system), preparation included, in seconds."""
    requests_per_cpu_s: float
    """Requests replayed per CPU second, preparation included."""
    peak_rss_bytes: int
    """Peak resident memory of the process; 0 if the system does not tell."""
    device_bytes: DeviceBytes
    """Sizes of the device."""
    op_ratio: float
    """(raw - logical) / logical."""
    op_effective_ratio: float
    """The same with blocks held free, open or bad taken off raw."""
    prepare: Prepare
    """The phases before the measured one."""
    trace: Trace
    """What became of the requests of the trace."""
    host: Host
    """The host's side."""
    users: list[User]
    """What each user was served, where several share the drive (`rocksdb+mysql`); their bytes add up to `host`'s."""
    flash: Flash
    """The flash's side."""
    waf: float | None
    """Bytes programmed / bytes written by the host; null until it wrote."""
    waf_parts: WafParts
    """What `waf` is made of."""
    waf_steady: float | None
    """`waf` over the windows that `steady` was judged by, mostly the last third of the host's writes; null without any."""
    drive_writes: float
    """Logical capacities written since the beginning, preparation included."""
    steady_state: bool
    """The device had come to rest: a drive write since collection began, and over the last three windows neither WAF nor mean latency spread by more than the band."""
    steady_state_reason: str
    """If it had not, why."""
    steady: Steady
    """How steady it was."""
    link: Link
    """Host link; all 0 without one."""
    controller: Controller
    """Processor cores; all 0 without a controller."""
    units: Units
    """Mapping units."""
    slc: SlcCache
    """SLC cache; all 0 without one."""
    rmw: Rmw
    """Read-modify-writes."""
    buffer: Buffer
    """Write buffer."""
    mapping: Mapping
    """Mapping table."""
    streams: Streams
    """Streams."""
    gc: Gc
    """Garbage collection."""
    wear: Wear
    """Wear."""
    lifetime: Lifetime
    """How long the flash lasts at this rate."""
    recovery: Recovery
    """Power cuts (`--power-cut-at`)."""
    faults: Faults
    """Operations that failed."""
    integrity: Integrity
    """Verification of every read (`--verify`)."""
    across: CountedAcross
    """What is counted under across."""
    mrsm: CountedMrsm
    """What is counted under mrsm."""
    multi_version: CountedMultiVersion
    """What is counted under multi_version."""
    allocation: CountedAllocation
    """What is counted under allocation."""
