//! `summary.json`: the figures that people and outside checks read.
//!
//! Nanoseconds and bytes throughout; counts are of the measured part (the workload's last phase)
//! unless they say otherwise.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the layout of `summary.json`; rises when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

macro_rules! group {
    ($(#[$meta:meta])* $Name:ident { $($(#[$about:meta])+ $field:ident: $Type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub struct $Name {
            $($(#[$about])+ pub $field: $Type,)+
        }
    };
}

group! {
    /// Everything a run adds up to.
    Summary {
        /// Version of this layout.
        schema_version: u32,
        /// Version of the program.
        version: String,
        /// The device's name.
        device: String,
        /// Its scheme, as who asked for it called it; else a sum of policies.
        scheme: String,
        /// Its scheme as a sum of policies.
        #[serde(default)]
        resolved_scheme: String,
        /// The workload's name.
        workload: String,
        /// Seed of every random choice.
        seed: u64,
        /// The workload ran to its end.
        complete: bool,
        /// Without clocks: all times, rates and utilisations are 0.
        #[serde(default)]
        untimed: bool,
        /// Hash of the final state and of every completion time, hexadecimal.
        digest: String,
        /// What a reader has to know: assumptions, scaling, warnings.
        notes: Vec<String>,
        /// Simulated time of the measured part.
        simulated_ns: u64,
        /// CPU time of the replay (user + system), preparation included, in seconds.
        cpu_s: f64,
        /// Requests replayed per CPU second, preparation included.
        requests_per_cpu_s: f64,
        /// Peak resident memory of the process; 0 if the system does not tell.
        peak_rss_bytes: u64,
        /// Sizes of the device.
        device_bytes: DeviceBytes,
        /// (raw - logical) / logical.
        op_ratio: f64,
        /// The same with blocks held free, open or bad taken off raw.
        op_effective_ratio: f64,
        /// The phases before the measured one.
        prepare: Prepare,
        /// What became of the requests of the trace.
        trace: Trace,
        /// The host's side.
        host: Host,
        /// What each user was served, where several share the drive (`rocksdb+mysql`); their bytes add up to `host`'s.
        users: Vec<User>,
        /// The flash's side.
        flash: Flash,
        /// Bytes programmed / bytes written by the host; null until it wrote.
        waf: Option<f64>,
        /// What `waf` is made of.
        waf_parts: WafParts,
        /// `waf` over the windows that `steady` was judged by, mostly the last third of the host's writes; null without any.
        waf_steady: Option<f64>,
        /// Logical capacities written since the beginning, preparation included.
        drive_writes: f64,
        /// The device had come to rest: a drive write since collection began, and over the last three windows neither WAF nor
        /// mean latency spread by more than the band.
        steady_state: bool,
        /// If it had not, why.
        steady_state_reason: String,
        /// How steady it was.
        steady: Steady,
        /// Host link; all 0 without one.
        link: Link,
        /// Processor cores; all 0 without a controller.
        controller: Controller,
        /// Mapping units.
        units: Units,
        /// SLC cache; all 0 without one.
        slc: SlcCache,
        /// Read-modify-writes.
        rmw: Rmw,
        /// Write buffer.
        buffer: Buffer,
        /// Mapping table.
        mapping: Mapping,
        /// What each scheme counts, section by section (`docs/metrics.md`); 0 for schemes that the device has not.
        #[serde(flatten)]
        schemes: BTreeMap<String, BTreeMap<String, u64>>,
        /// Streams.
        streams: Streams,
        /// Garbage collection.
        gc: Gc,
        /// Wear.
        wear: Wear,
        /// How long the flash lasts at this rate.
        #[serde(default)]
        lifetime: Lifetime,
        /// Power cuts (`--power-cut-at`).
        recovery: Recovery,
        /// Operations that failed.
        faults: Faults,
        /// Verification of every read (`--verify`).
        integrity: Integrity,
    }
}
group! {
    /// Sizes of the device.
    DeviceBytes {
        /// Flash.
        raw: u64,
        /// What the host sees.
        logical: u64,
    }
}
group! {
    /// How steady the device was at the end.
    Steady {
        /// `steady_state`.
        reached: bool,
        /// Most that WAF and mean latency might spread over the windows, as a share of their mean.
        band: f64,
        /// `waf_steady`.
        waf: Option<f64>,
        /// Logical capacities written by the time that the windows began; null if the host wrote nothing.
        from_drive_writes: Option<f64>,
    }
}
group! {
    /// Host link.
    Link {
        /// Time that data were on their way to the drive.
        to_drive_ns: u64,
        /// Time that data were on their way to the host.
        to_host_ns: u64,
        /// The longer of both, as a share of the run.
        utilisation: f64,
    }
}
group! {
    /// Processor cores.
    Controller {
        /// Core time by cause: commands of the host, and flash operations by theirs (`host`, `rmw`, `gc`, `merge`, `map`, `meta`).
        busy_ns: BTreeMap<String, u64>,
        /// What each core was busy, as a share of the run.
        utilisation: Vec<f64>,
    }
}
group! {
    /// Mapping units.
    Units {
        /// Bytes of a mapping unit.
        bytes: u64,
        /// Bytes of flash that were programmed without holding data: the rest of pages and units that were not full.
        padding: u64,
    }
}
group! {
    /// SLC cache.
    SlcCache {
        /// Most that it can hold: blocks of its own, and the share of the blocks that were free when the run ended.
        bytes: u64,
        /// Programmed in it for the host.
        host_bytes: u64,
        /// Programmed for the host in normal blocks, because it was full.
        direct_bytes: u64,
        /// Moved from it to normal blocks; counted in `waf_parts.gc` as well.
        folded_bytes: u64,
        /// Blocks that were folded.
        folds: u64,
        /// Erases of blocks that had been written in SLC mode.
        erases: u64,
    }
}
group! {
    /// The phases before the measured one.
    Prepare {
        /// How many.
        phases: u64,
        /// Requests replayed in them.
        requests: u64,
        /// Simulated time they took.
        simulated_ns: u64,
    }
}
group! {
    /// What became of the requests of the trace; nothing is dropped in silence.
    Trace {
        /// Requests given to the device, preparation included.
        submitted: u64,
        /// Requests it completed (or refused).
        completed: u64,
        /// Requests that were not made of whole sectors and were rounded.
        rounded: u64,
        /// Bytes that this added to the writes of the measured part.
        rounded_bytes: u64,
        /// Requests moved to another place on the device by `--fit`.
        moved: u64,
        /// Trims without a whole sector in them: nothing to do.
        empty_trims: u64,
        /// FlashAlloc commands that the scheme has no use for.
        hints_ignored: u64,
        /// Requests under way when the power was cut.
        cut_off: u64,
    }
}
group! {
    /// The host's side.
    Host {
        /// Reads.
        read: Requests,
        /// Writes.
        write: Requests,
        /// Trims.
        trim: Trims,
        /// Flushes.
        flush: Requests,
        /// All of them.
        all: Requests,
        /// Writes that do not start and end on a page border.
        unaligned_writes: u64,
        /// Reads and writes no larger than a page that span two.
        across_page_requests: u64,
        /// Write sub-requests that do not cover their page.
        partial_writes: u64,
        /// Of these, those to a page with live sectors outside of them.
        partial_updates: u64,
        /// Read sub-requests with a sector that was never written, or trimmed: answered without flash, they flatter the latencies.
        unmapped_reads: u64,
        /// Requests refused.
        rejected: u64,
    }
}
group! {
    /// A user of the drive, or several of one name.
    User {
        /// Its name: the program, and what it does in it.
        name: String,
        /// Reads.
        read: Requests,
        /// Writes.
        write: Requests,
        /// Trims.
        trim: Trims,
        /// Flushes.
        flush: Requests,
        /// Bytes of the pages programmed for the host in which its sectors were new (of a page of several users, its part).
        #[serde(default)]
        programmed_bytes: u64,
        /// Bytes programmed to move sectors that it had written: by collection, wear levelling and merges.
        #[serde(default)]
        copied_bytes: u64,
        /// Both over what it wrote; null until it wrote.
        #[serde(default)]
        waf: Option<f64>,
    }
}
group! {
    /// Requests of one kind.
    Requests {
        /// How many completed.
        requests: u64,
        /// Their bytes.
        bytes: u64,
        /// Requests per simulated second.
        iops: f64,
        /// Bytes per simulated second.
        bw_bytes: f64,
        /// From the host's issuing to completion, waiting in the host's queue included.
        lat_ns: LatencyNs,
    }
}
impl From<Requests> for Trims {
    fn from(Requests { requests, bytes, iops, lat_ns, .. }: Requests) -> Self {
        Self { requests, bytes, iops, lat_ns }
    }
}

impl From<&Trims> for Requests {
    fn from(t: &Trims) -> Self {
        Self { requests: t.requests, bytes: t.bytes, iops: t.iops, bw_bytes: 0.0, lat_ns: t.lat_ns.clone() }
    }
}

group! {
    /// Trims: they transfer nothing, so they have no bandwidth.
    Trims {
        /// How many completed.
        requests: u64,
        /// The bytes that they cover.
        bytes: u64,
        /// Requests per simulated second.
        iops: f64,
        /// From the host's issuing to completion, waiting in the host's queue included.
        lat_ns: LatencyNs,
    }
}
group! {
    /// Latencies in nanoseconds.
    LatencyNs {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        stddev: f64,
        /// Shortest.
        min: u64,
        /// Longest.
        max: u64,
        /// Percentiles, to 0.1%.
        percentile: BTreeMap<String, u64>,
    }
}
group! {
    /// The flash's side, in pages and blocks.
    Flash {
        /// Page reads by cause.
        reads: Reads,
        /// Page programs by cause.
        programs: Programs,
        /// Repetitions of reads that the decoder could not correct.
        read_retries: u64,
        /// Block erases.
        erases: u64,
        /// Bytes programmed.
        bytes_programmed: u64,
        /// Reads of pages that could not be read and were rebuilt from their stripe.
        rebuilt: u64,
        /// Operations by page type.
        by_page_type: ByPageType,
    }
}
group! {
    /// Page reads by cause.
    Reads {
        /// The host's own.
        host: u64,
        /// To complete partial updates.
        rmw: u64,
        /// Garbage collection and wear levelling.
        gc: u64,
        /// Bringing versions or areas together.
        merge: u64,
        /// Translation pages.
        map: u64,
        /// The metadata log.
        meta: u64,
        /// The rest of the stripes of pages that had to be rebuilt.
        parity: u64,
        /// All.
        total: u64,
    }
}
group! {
    /// Page programs by cause.
    Programs {
        /// The host's own, read-modify-writes included.
        host: u64,
        /// Garbage collection and wear levelling.
        gc: u64,
        /// Bringing versions or areas together.
        merge: u64,
        /// Translation pages.
        map: u64,
        /// The metadata log.
        meta: u64,
        /// Parity of superblocks.
        parity: u64,
        /// All.
        total: u64,
    }
}
group! {
    /// Operations by page type; cells with fewer bits leave the later ones at 0.
    ByPageType {
        /// First (fastest) page of a word line.
        lsb: PageTypeOps,
        /// Second.
        csb: PageTypeOps,
        /// Third.
        msb: PageTypeOps,
        /// Fourth.
        tsb: PageTypeOps,
    }
}
group! {
    /// Operations on one page type.
    PageTypeOps {
        /// Reads, for any cause.
        reads: u64,
        /// Programs, for any cause.
        programs: u64,
        /// Reads to complete partial updates.
        rmw_reads: u64,
    }
}
group! {
    /// What write amplification is made of; adds up to `waf`.
    WafParts {
        /// Host sectors programmed for the host.
        host: f64,
        /// Garbage collection and wear levelling.
        gc: f64,
        /// Merges.
        merge: f64,
        /// Translation pages.
        map: f64,
        /// Metadata log.
        meta: f64,
        /// Parity of superblocks.
        parity: f64,
        /// The rest of the host's pages: old sectors carried over by read-modify-writes, and room left unfilled.
        padding: f64,
    }
}
group! {
    /// Read-modify-writes.
    Rmw {
        /// How many.
        count: u64,
        /// From the start of the read to the end of the program.
        lat_ns: Mean,
    }
}
group! {
    /// A mean.
    Mean {
        /// In nanoseconds.
        mean: f64,
    }
}
group! {
    /// Write buffer.
    Buffer {
        /// Write sub-requests that found their page in the buffer.
        hits: u64,
        /// And those that did not.
        misses: u64,
        /// Pages evicted.
        evictions: u64,
        /// Of these, partial ones.
        evicted_partial_pages: u64,
        /// Partial pages in the buffer, on average over evictions.
        mean_partial_pages: f64,
        /// Time that writes waited for room in it.
        wait_ns: u64,
    }
}
group! {
    /// Mapping table.
    Mapping {
        /// Bytes of the whole table.
        bytes: u64,
        /// DRAM accesses of look-ups.
        dram_accesses: u64,
        /// DRAM accesses of updates.
        dram_updates: u64,
        /// Look-ups that found their translation page in RAM.
        cache_hits: u64,
        /// And those that did not.
        cache_misses: u64,
    }
}
group! {
    /// Streams.
    Streams {
        /// FlashAlloc calls that were honoured.
        #[serde(rename = "flashalloc_calls")]
        calls: u64,
        /// FlashAlloc calls that were refused: an overlap, too many ranges, no clean blocks.
        #[serde(rename = "flashalloc_refused")]
        refused: u64,
        /// Time from the arrival of FlashAlloc calls to their completion, in nanoseconds, added up.
        #[serde(rename = "flashalloc_ns")]
        calls_ns: u64,
        /// FlashFree calls.
        #[serde(rename = "flashfree_calls")]
        freed: u64,
        /// FlashAlloc instances at the end.
        instances_live: u64,
        /// Pages programmed for objects, their copies included.
        fa_pages: u64,
        /// Blocks of objects that a trim left empty: erased whole, without a copy.
        block_erases_by_trim: u64,
        /// Blocks of objects whose survivors had to become normal.
        dedicated_demoted: u64,
        /// Each stream of the device; their media bytes and those of parity, which is of no stream, add up to flash.bytes_programmed.
        per_stream: Vec<Stream>,
        /// The host's writes by class: the stream id of the request, or the one that its object was announced with.
        per_class: Vec<Class>,
    }
}
group! {
    /// One stream of the device.
    Stream {
        /// Its number.
        stream: u64,
        /// What it holds: `normal` (without streams), `stream`, `handle` (FDP), `objects` (all of FlashAlloc's), `internal` (map, log, and copies whose stream is no longer known).
        kind: String,
        /// Bytes of the host's programmed for it, without those that a read-modify-write carried along.
        host_bytes: u64,
        /// Bytes programmed for it, copies included.
        media_bytes: u64,
        /// Their ratio; null until something of the host's was programmed for it.
        waf: Option<f64>,
        /// Its part of the drive's WAF: media bytes over all bytes that the host wrote. The parts and waf_parts.parity add up to `waf`.
        waf_part: f64,
    }
}
group! {
    /// The host's writes of one class.
    Class {
        /// The host's stream id.
        class: u64,
        /// Writes that completed.
        requests: u64,
        /// Their bytes.
        host_bytes: u64,
        /// Latency.
        lat_ns: Mean,
    }
}
group! {
    /// Garbage collection.
    Gc {
        /// Victims chosen.
        invocations: u64,
        /// Mapping units moved (of a drive that maps pages: pages), wear levelling included.
        moved_pages: u64,
        /// Time in which host writes stood still for want of free blocks.
        foreground_ns: u64,
        /// Victims by live pages when chosen, in twentieths of a block; the last is a full one.
        victim_valid_histogram: Vec<u64>,
        /// The same of blocks dedicated to objects; the first counts also those erased whole without being collected.
        victim_valid_histogram_objects: Vec<u64>,
    }
}
group! {
    /// Wear, over the device's whole life.
    Wear {
        /// Erases of the least worn good block.
        erase_min: u64,
        /// Erases of the most worn good block.
        erase_max: u64,
        /// Mean.
        erase_mean: f64,
        /// Standard deviation.
        erase_stddev: f64,
        /// Blocks out of use.
        bad_blocks: u64,
    }
}
group! {
    /// Power cuts and what recovery from them took, all added up.
    Recovery {
        /// Cuts.
        cuts: u64,
        /// Cuts that were asked for and did not come: the measured part was over before.
        #[serde(default)]
        cuts_missed: u64,
        /// Of these, recoveries that began at a checkpoint; the others read every page's out-of-band area.
        from_checkpoint: u64,
        /// Flash reads.
        reads: u64,
        /// Of these, of out-of-band areas alone.
        oob_reads: u64,
        /// Time.
        time_ns: u64,
        /// Time of the longest.
        time_max_ns: u64,
        /// Longest time that the capacitors had to last (`recovery.plp`).
        hold_up_max_ns: u64,
        /// Requests under way that were lost.
        requests_lost: u64,
    }
}
group! {
    /// How long the flash lasts at this rate.
    Lifetime {
        /// Logical capacities that the host writes in a day of simulated time; null without a clock or writes.
        dwpd: Option<f64>,
        /// Years until each block has been erased `endurance` times, at this rate and `waf_steady` (or `waf`); null as `dwpd`.
        years: Option<f64>,
        /// What making the flash emitted, in kg CO2e, for each TB that the host writes before it is worn out: 0.16 kg a GB of
        /// flash (Tannu and Nair, HotCarbon 2022), over endurance / WAF.
        kg_co2e_per_tb: Option<f64>,
        /// Erases that a block stands: `cell.endurance`.
        endurance: u32,
        /// The device file has none, so that it is the usual one of such cells: SLC 100,000, MLC 10,000, TLC 3,000, QLC 1,000.
        endurance_assumed: bool,
    }
}
group! {
    /// Failures of the flash (`[faults]`, endurance).
    Faults {
        /// Programs that failed and, but for those lost, were repeated elsewhere.
        program_failures: u64,
        /// Of these, those that found no page to be repeated in: what they held is unreadable.
        programs_lost: u64,
        /// Blocks that their last erase took out of use.
        erase_failures: u64,
        /// Sectors that host reads asked for and did not get; of a served drive also those that its image no longer had at the start.
        unreadable_sectors: u64,
        /// The drive takes no more writes.
        read_only: bool,
        /// Sectors that a read-only drive has taken and still holds in its write buffer.
        buffered_sectors: u64,
    }
}
group! {
    /// Verification of every completion, and of every sector that the run wrote or trimmed.
    Integrity {
        /// Sectors compared with the last write.
        checked_sectors: u64,
        /// Sectors that should have been: those that reads asked for, and what is read back at the end and
        /// after power cuts.
        expected_sectors: u64,
        /// Of those compared, wrong ones.
        mismatches: u64,
        /// Sectors that the drive said it could not read; they are not judged.
        unreadable: u64,
        /// Completions that were wrong otherwise: unknown or missing, a status that the drive may not give,
        /// too few bytes.
        wrong_completions: u64,
    }
}

impl Integrity {
    /// What is wrong, in one sentence; nothing if all is right.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let Self { checked_sectors, mismatches, wrong_completions, .. } = self;
        (mismatches + wrong_completions > 0).then(|| {
            format!(
                "integrity: {mismatches} of {checked_sectors} sectors and {wrong_completions} completions were \
                 wrong (this is a bug of the simulator)"
            )
        })
    }
}

impl Summary {
    /// Why the run shows nothing of what it was to show, in one sentence; nothing if all is right.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let Recovery { cuts, cuts_missed, .. } = self.recovery;
        let uncut = (self.complete && cuts == 0 && cuts_missed > 0).then(|| {
            format!("--power-cut-at: none of {cuts_missed} cuts came: the measured part was over before")
        });
        self.integrity.failure().or(uncut)
    }

    /// A counter of a scheme, as `section.key`; 0 if no scheme has such a one.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        let (section, key) = name.split_once('.').unwrap_or_default();
        self.schemes.get(section).and_then(|keys| keys.get(key)).copied().unwrap_or_default()
    }
}
