//! From counters to [`Summary`].

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nandle_ssd::controller::PURPOSE_NAMES;
use nandle_ssd::nand::{Cause, Counters};
use nandle_ssd::schemes::SchemeConfig;
use nandle_ssd::{DeviceConfig, Op, Ssd, Stats};

use super::lifetime::lifetime;
use super::pages::{programs_for, reads_for};
use super::summary::*;
use super::{Charged, Latency, Meter, Steadiness};
use crate::config::SchemeNames;

/// Percentiles reported, in per cent.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// What the meter does not know.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Name of the workload.
    pub workload: String,
    /// Scheme of the device.
    pub scheme: SchemeNames,
    /// Seed of every random choice.
    pub seed: u64,
    /// The workload ran to its end.
    pub complete: bool,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// CPU seconds of the replay.
    pub cpu_s: f64,
    /// Requests, and what was done to them.
    pub trace: Trace,
    /// The phases before the measured one.
    pub prepare: Prepare,
    /// What power cuts cost.
    pub recovery: Recovery,
    /// Sectors compared and wrong, if reads were verified.
    pub integrity: Integrity,
    /// How steady the device was, of a run until it is.
    pub steady: Option<Steadiness>,
}

/// Beside those of schemes: what collection resorts to where a scheme chooses page types.
const EMERGENCY: (&str, &str) =
    ("allocation.emergency_gcs", "collections for want of a page of the right type");

/// What [`Summary::schemes`] holds: keys, and what each counts.
pub fn scheme_counters() -> impl Iterator<Item = (&'static str, &'static str)> {
    SchemeConfig::counters().chain([EMERGENCY])
}

/// The counters of schemes, section by section.
fn schemes(ssd: &Ssd) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut sections: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let emergency = (EMERGENCY.0, ssd.stats().collection.emergency_gcs);
    for (name, value) in ssd.scheme_counters().into_iter().chain([emergency]) {
        let (section, key) = name.split_once('.').unwrap_or(("scheme", name));
        sections.entry(section.into()).or_default().insert(key.into(), value);
    }
    sections
}

/// What write amplification is made of, after `written` bytes of the host's; all 0 before it wrote. `stats` are those of
/// [`Ssd::stats_programmed`].
#[must_use]
pub fn waf_parts(config: &DeviceConfig, stats: &Stats, counters: &Counters, written: u64) -> WafParts {
    let geometry = &config.geometry;
    let page = u64::from(geometry.page_bytes);
    let over_host = |bytes: u64| if written == 0 { 0.0 } else { bytes as f64 / written as f64 };
    let programmed = |cause: Cause| counters.programs[cause as usize].iter().sum::<u64>() * page;
    let for_host = programmed(Cause::Host) + programmed(Cause::Rmw);
    // A page that host data and copies share counts for what it was opened for.
    let host = (stats.host_sectors_programmed * u64::from(geometry.sector_bytes)).min(for_host);
    WafParts {
        host: over_host(host),
        padding: over_host(for_host - host),
        gc: over_host(programmed(Cause::Gc)),
        merge: over_host(programmed(Cause::Merge)),
        map: over_host(programmed(Cause::Map)),
        meta: over_host(programmed(Cause::Meta)),
        parity: over_host(programmed(Cause::Parity)),
    }
}

/// The summary of a finished run.
#[must_use]
pub fn summarise(ssd: &Ssd, meter: &Meter, context: Context) -> Summary {
    let (config, layout) = (ssd.config(), ssd.layout());
    let geometry = &config.geometry;
    let (raw, logical) = (geometry.raw_bytes(), layout.logical_bytes);
    let stats = ssd.stats();
    let untimed = config.timing.untimed;
    let assumed = ssd.without_time().into_iter().map(|assumed| format!("untimed: {assumed}"));
    let ns = |measured: u64| if untimed { 0 } else { measured };
    let simulated_ns = ns(meter.ended_ns.saturating_sub(meter.begun_ns));
    let flash = flash(ssd);
    let written = meter.written;
    let programmed = ssd.stats_programmed();
    let waf_parts = waf_parts(config, &programmed, ssd.counters(), written);
    let padding = (waf_parts.padding * written as f64).round() as u64;
    let waf = (written > 0).then(|| flash.bytes_programmed as f64 / written as f64);
    let steadiness = context.steady.unwrap_or_else(|| meter.steadiness(ssd));
    let wear = wear(ssd);
    let worn = steadiness.waf.filter(|&waf| waf > 0.0).or(waf);
    let lifetime = lifetime(config, logical, written, simulated_ns as f64 / 1e9, worn);
    let addressed = config.unit_geometry();
    let held =
        u64::from(addressed.planes()) * u64::from(layout.kept_blocks + layout.open_blocks) + wear.bad_blocks;
    let usable = (addressed.blocks().saturating_sub(held) * addressed.block_bytes()) as f64;
    let mean = |sum: u64, n: u64| if n == 0 { 0.0 } else { sum as f64 / n as f64 };
    let total = context.trace.completed;
    Summary {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
        device: config.name.clone(),
        scheme: context.scheme.called,
        resolved_scheme: context.scheme.resolved,
        workload: context.workload,
        seed: context.seed,
        complete: context.complete,
        untimed,
        digest: format!("{:016x}", ssd.digest()),
        notes: context.notes.into_iter().chain(assumed).collect(),
        simulated_ns,
        cpu_s: context.cpu_s,
        requests_per_cpu_s: if context.cpu_s > 0.0 { total as f64 / context.cpu_s } else { 0.0 },
        peak_rss_bytes: crate::resources::peak_rss_bytes(),
        device_bytes: DeviceBytes { raw, logical },
        op_ratio: (raw as f64 - logical as f64) / logical as f64,
        op_effective_ratio: usable / logical as f64 - 1.0,
        prepare: Prepare { simulated_ns: ns(context.prepare.simulated_ns), ..context.prepare },
        trace: context.trace,
        host: host(ssd, meter, simulated_ns),
        users: users(meter, simulated_ns),
        waf,
        waf_parts,
        waf_steady: steadiness.waf,
        drive_writes: steadiness.drive_writes,
        steady_state: steadiness.steady,
        steady_state_reason: steadiness.why,
        steady: Steady {
            reached: steadiness.steady,
            band: steadiness.band,
            waf: steadiness.waf,
            from_drive_writes: steadiness.from_drive_writes,
        },
        link: link(ssd, simulated_ns),
        controller: controller(ssd, simulated_ns),
        units: Units { bytes: config.unit_bytes().into(), padding },
        slc: slc_cache(ssd),
        rmw: Rmw { count: stats.rmw_count, lat_ns: Mean { mean: mean(ns(stats.rmw_ns), stats.rmw_count) } },
        buffer: Buffer {
            hits: stats.buffer_hits,
            misses: stats.buffer_misses,
            evictions: stats.evictions,
            evicted_partial_pages: stats.evicted_partial_pages,
            mean_partial_pages: mean(stats.partial_pages_sum, stats.evictions),
            wait_ns: ns(stats.buffer_wait_ns),
        },
        mapping: Mapping {
            bytes: ssd.mapping_bytes().0,
            dram_accesses: stats.dram_accesses,
            dram_updates: stats.dram_updates,
            cache_hits: stats.cache_hits,
            cache_misses: stats.cache_misses,
        },
        schemes: schemes(ssd),
        streams: streams(ssd, &programmed, meter),
        gc: Gc {
            invocations: stats.gc_invocations,
            moved_pages: stats.gc_moved_pages,
            foreground_ns: ns(stats.foreground_ns),
            victim_valid_histogram: stats.victim_valid.to_vec(),
            victim_valid_histogram_objects: stats.victim_valid_dedicated.to_vec(),
        },
        flash,
        wear,
        lifetime,
        recovery: context.recovery,
        faults: Faults {
            program_failures: stats.program_failures,
            programs_lost: stats.programs_lost,
            erase_failures: stats.erase_failures,
            unreadable_sectors: stats.unreadable_sectors,
            read_only: ssd.is_read_only(),
            buffered_sectors: ssd.buffer().filter(|_| ssd.is_read_only()).map_or(0, |b| b.sectors()),
        },
        integrity: context.integrity,
    }
}

fn share(busy_ns: u64, of_ns: u64) -> f64 {
    if of_ns == 0 { 0.0 } else { busy_ns as f64 / of_ns as f64 }
}

fn link(ssd: &Ssd, simulated_ns: u64) -> Link {
    let (to_drive_ns, to_host_ns) = ssd.link_busy_ns().unwrap_or_default();
    Link { to_drive_ns, to_host_ns, utilisation: share(to_drive_ns.max(to_host_ns), simulated_ns) }
}

fn controller(ssd: &Ssd, simulated_ns: u64) -> Controller {
    let Some((purposes, cores)) = ssd.controller_busy_ns() else { return Controller::default() };
    Controller {
        busy_ns: PURPOSE_NAMES.iter().map(|&name| name.to_owned()).zip(purposes).collect(),
        utilisation: cores.into_iter().map(|busy_ns| share(busy_ns, simulated_ns)).collect(),
    }
}

fn slc_cache(ssd: &Ssd) -> SlcCache {
    let (slc, page) = (&ssd.stats().slc, u64::from(ssd.config().unit_bytes()));
    SlcCache {
        bytes: ssd.slc_cache_bytes(),
        host_bytes: slc.host_pages * page,
        direct_bytes: slc.direct_pages * page,
        folded_bytes: slc.folded_pages * page,
        folds: slc.folds,
        erases: slc.erases,
    }
}

/// How many streams are the host's: what the drive counts but for objects and its own.
fn host_streams(stats: &Stats) -> usize {
    stats.streams.len().saturating_sub(2)
}

/// The streams of a drive, with what was written for each. `stats` are those of [`Ssd::stats_programmed`].
#[must_use]
pub fn per_stream(config: &DeviceConfig, stats: &Stats, written: u64) -> Vec<Stream> {
    let sector = u64::from(config.geometry.sector_bytes);
    let scheme = &config.scheme;
    // The drive counts its host streams, then all objects, then what it writes for itself; handles that
    // keep their survivors apart have a second stream for these.
    let host = host_streams(stats);
    let handles = if scheme.has("fdp") { config.streams.count as usize } else { host };
    let mut per_stream: Vec<Stream> = Vec::new();
    for (number, count) in stats.streams.iter().enumerate() {
        let (host_bytes, media_bytes) = (count.host_sectors * sector, count.media_sectors * sector);
        if (handles..host).contains(&number) {
            let own = &mut per_stream[number - handles];
            own.host_bytes += host_bytes;
            own.media_bytes += media_bytes;
            continue;
        }
        let what = match number.cmp(&host) {
            Ordering::Greater => "internal",
            Ordering::Equal => "objects",
            Ordering::Less if scheme.has("multi-stream") => "stream",
            Ordering::Less if scheme.has("fdp") => "handle",
            Ordering::Less => "normal",
        };
        per_stream.push(Stream {
            stream: per_stream.len() as u64,
            kind: what.into(),
            host_bytes,
            media_bytes,
            waf: None,
            waf_part: 0.0,
        });
    }
    per_stream.retain(|s| !matches!(s.kind.as_str(), "objects" | "internal") || s.media_bytes > 0);
    for (number, stream) in per_stream.iter_mut().enumerate() {
        stream.stream = number as u64;
        stream.waf_part = if written == 0 { 0.0 } else { stream.media_bytes as f64 / written as f64 };
        stream.waf = (stream.host_bytes > 0).then(|| stream.media_bytes as f64 / stream.host_bytes as f64);
    }
    per_stream
}

fn streams(ssd: &Ssd, stats: &Stats, meter: &Meter) -> Streams {
    let config = ssd.config();
    let sector = u64::from(config.geometry.sector_bytes);
    let classes = meter.classes.iter().enumerate().filter(|(_, class)| class.requests > 0);
    let objects = stats.streams.get(host_streams(stats)).map_or(0, |count| count.media_sectors);
    Streams {
        calls: meter.calls.honoured,
        refused: meter.calls.refused,
        calls_ns: meter.calls.ns,
        freed: meter.calls.freed,
        instances_live: u64::from(ssd.objects_live()),
        fa_pages: objects * sector / u64::from(config.geometry.page_bytes),
        block_erases_by_trim: stats.block_erases_by_trim,
        dedicated_demoted: stats.dedicated_demoted,
        per_stream: per_stream(config, stats, meter.written),
        per_class: classes
            .map(|(number, class)| Class {
                class: number as u64,
                requests: class.requests,
                host_bytes: class.bytes,
                lat_ns: Mean { mean: class.latency_ns as f64 / class.requests as f64 },
            })
            .collect(),
    }
}

fn host(ssd: &Ssd, meter: &Meter, simulated_ns: u64) -> Host {
    let stats = ssd.stats();
    let mut all = Latency::default();
    meter.latency.iter().for_each(|l| all.add(l));
    // What a trim covers is not transferred.
    all.bytes -= meter.latency[Op::Trim as usize].bytes;
    let requests = |l: &Latency| requests(l, simulated_ns);
    let [read, write, trim, flush] = &meter.latency;
    Host {
        read: requests(read),
        write: requests(write),
        trim: requests(trim).into(),
        flush: requests(flush),
        all: requests(&all),
        unaligned_writes: stats.unaligned_writes,
        across_page_requests: stats.across_page_requests,
        partial_writes: stats.partial_writes,
        partial_updates: stats.partial_updates,
        unmapped_reads: stats.unmapped_reads,
        rejected: meter.refused,
    }
}

fn users(meter: &Meter, simulated_ns: u64) -> Vec<User> {
    let user = |served: &super::Served| {
        let [read, write, trim, flush] = served.latency.each_ref().map(|l| requests(l, simulated_ns));
        let Charged { programmed, copied } = served.flash;
        User {
            name: served.name.clone(),
            waf: (write.bytes > 0).then(|| (programmed + copied) as f64 / write.bytes as f64),
            read,
            write,
            trim: trim.into(),
            flush,
            programmed_bytes: programmed,
            copied_bytes: copied,
        }
    };
    meter.users.iter().map(user).collect()
}

fn requests(l: &Latency, simulated_ns: u64) -> Requests {
    let rate = |n: u64| if simulated_ns == 0 { 0.0 } else { n as f64 * 1e9 / simulated_ns as f64 };
    let percentile: BTreeMap<String, u64> =
        PERCENTILES.iter().map(|&p| (format!("{p:.6}"), l.percentile_ns(p / 100.0))).collect();
    Requests {
        requests: l.requests,
        bytes: l.bytes,
        iops: rate(l.requests),
        bw_bytes: rate(l.bytes),
        lat_ns: LatencyNs {
            mean: l.mean_ns(),
            stddev: l.stddev_ns(),
            min: if l.requests == 0 { 0 } else { l.min_ns },
            max: l.max_ns,
            percentile,
        },
    }
}

fn flash(ssd: &Ssd) -> Flash {
    let counters: &Counters = ssd.counters();
    let sum = |table: &[[u64; 4]; Cause::COUNT]| table.iter().flatten().sum::<u64>();
    let (reads, programs) = (sum(&counters.reads), sum(&counters.programs));
    let by_type = |kind: usize| PageTypeOps {
        reads: counters.reads.iter().map(|cause| cause[kind]).sum(),
        programs: counters.programs.iter().map(|cause| cause[kind]).sum(),
        rmw_reads: counters.reads[Cause::Rmw as usize][kind],
    };
    Flash {
        reads: Reads {
            host: reads_for(ssd, Cause::Host),
            rmw: reads_for(ssd, Cause::Rmw),
            gc: reads_for(ssd, Cause::Gc),
            merge: reads_for(ssd, Cause::Merge),
            map: reads_for(ssd, Cause::Map),
            meta: reads_for(ssd, Cause::Meta),
            parity: reads_for(ssd, Cause::Parity),
            total: reads,
        },
        programs: Programs {
            host: programs_for(ssd, Cause::Host) + programs_for(ssd, Cause::Rmw),
            gc: programs_for(ssd, Cause::Gc),
            merge: programs_for(ssd, Cause::Merge),
            map: programs_for(ssd, Cause::Map),
            meta: programs_for(ssd, Cause::Meta),
            parity: programs_for(ssd, Cause::Parity),
            total: programs,
        },
        read_retries: counters.read_retries,
        erases: counters.erases,
        rebuilt: counters.rebuilt,
        bytes_programmed: programs * u64::from(ssd.config().geometry.page_bytes),
        by_page_type: ByPageType { lsb: by_type(0), csb: by_type(1), msb: by_type(2), tsb: by_type(3) },
    }
}

fn wear(ssd: &Ssd) -> Wear {
    use nandle_ssd::space::State;
    let mut out = Wear { erase_min: u64::MAX, ..Wear::default() };
    let (mut n, mut sum, mut squares) = (0_u64, 0_u64, 0.0);
    for (block, state) in ssd.flash().blocks().each() {
        if state == State::Bad {
            out.bad_blocks += 1;
            continue;
        }
        let erases = u64::from(ssd.flash().array().erases(block));
        out.erase_min = out.erase_min.min(erases);
        out.erase_max = out.erase_max.max(erases);
        (n, sum, squares) = (n + 1, sum + erases, squares + (erases * erases) as f64);
    }
    if n == 0 {
        return Wear { erase_min: 0, ..out };
    }
    out.erase_mean = sum as f64 / n as f64;
    out.erase_stddev = (squares / n as f64 - out.erase_mean * out.erase_mean).max(0.0).sqrt();
    out
}
