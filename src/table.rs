//! The summary as people read it: microseconds and MiB, WAF never without its parts.

use std::fmt::Write;

use nandle_lab::batch::Labels;
use nandle_lab::measure::metrics::{METRICS, STEADY_BELOW, copied_nothing, lengths, ratio, steady};
use nandle_lab::measure::summary::{Requests, Summary};
use nandle_lab::report::unsteady;
use nandle_lab::units::{bytes, count, quantity, time};

/// The whole table.
pub fn summary(s: &Summary) -> String {
    let mut t = String::new();
    let state = if s.complete { "" } else { "  ** partial: interrupted **" };
    let _ = writeln!(t, "{} | {} | {} | seed {}{state}", s.device, s.scheme, s.workload, s.seed);
    if s.scheme != s.resolved_scheme && !s.resolved_scheme.is_empty() {
        let _ = writeln!(t, "scheme    {}", s.resolved_scheme);
    }
    let _ = writeln!(
        t,
        "device    {} raw, {} logical: over-provisioning {:.1}% ({:.1}% without blocks held free, open or bad)",
        bytes(s.device_bytes.raw),
        bytes(s.device_bytes.logical),
        s.op_ratio * 100.0,
        s.op_effective_ratio * 100.0
    );
    let _ = writeln!(
        t,
        "run       {} simulated in {:.2} CPU s, {} requests per CPU s, {} peak memory",
        if s.untimed { "no time".into() } else { time(s.simulated_ns as f64) },
        s.cpu_s,
        count(s.requests_per_cpu_s as u64),
        bytes(s.peak_rss_bytes)
    );
    if s.prepare.phases > 0 {
        let _ = writeln!(
            t,
            "          after {} requests of preparation ({}), not counted below",
            count(s.prepare.requests),
            time(s.prepare.simulated_ns as f64)
        );
    }
    latencies(&mut t, s);
    waf(&mut t, s);
    flash(&mut t, s);
    rest(&mut t, s);
    for note in &s.notes {
        let _ = writeln!(t, "note: {note}");
    }
    t
}

fn latencies(t: &mut String, s: &Summary) {
    let h = &s.host;
    let _ = writeln!(
        t,
        "\n{:<9} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "host", "requests", "IOPS", "bandwidth", "mean", "50%", "99%", "99.9%", "max"
    );
    let trim = Requests::from(&h.trim);
    let kinds = [("read", &h.read), ("write", &h.write), ("trim", &trim), ("flush", &h.flush)];
    for (name, r) in kinds.into_iter().filter(|(_, r)| r.requests > 0) {
        line(t, name, r, s.untimed);
    }
    if kinds.iter().filter(|(_, r)| r.requests > 0).count() != 1 {
        line(t, "all", &h.all, s.untimed);
    }
    users(t, s);
    let mut more = Vec::new();
    let mut add = |n: u64, what: &str| {
        if n > 0 {
            more.push(format!("{} {what}", count(n)));
        }
    };
    add(h.unaligned_writes, "unaligned writes");
    add(h.across_page_requests, "across-page requests");
    add(h.partial_writes, "partial page writes");
    add(h.partial_updates, "partial updates");
    if !more.is_empty() {
        let _ = writeln!(t, "          {}", more.join(", "));
    }
    if h.unmapped_reads > 0 {
        let _ = writeln!(
            t,
            "          {} page reads found nothing written: they cost no flash time and flatter the latencies",
            count(h.unmapped_reads)
        );
    }
    if h.rejected > 0 {
        let _ = writeln!(
            t,
            "          {} requests REJECTED (outside of the device, or worn out)",
            count(h.rejected)
        );
    }
}

/// Users shown one by one.
const USERS: usize = 8;

fn users(t: &mut String, s: &Summary) {
    for user in s.users.iter().take(USERS) {
        let _ = writeln!(t, "  {}", user.name);
        let (write, trim) = (&user.write, Requests::from(&user.trim));
        let kinds = [("- read", &user.read), ("- write", write), ("- trim", &trim), ("- flush", &user.flush)];
        kinds.into_iter().filter(|(_, r)| r.requests > 0).for_each(|(name, r)| line(t, name, r, s.untimed));
        if let Some(waf) = user.waf {
            let (programmed, copied) = (bytes(user.programmed_bytes), bytes(user.copied_bytes));
            let _ = writeln!(t, "  - flash {programmed:>12} programmed, {copied} copied: WAF {waf:.3}");
        }
    }
    if s.users.len() > USERS {
        let _ = writeln!(t, "          and {} users more, in summary.json", s.users.len() - USERS);
    }
}

/// `untimed`: there are no rates and no latencies to show.
fn line(t: &mut String, name: &str, r: &Requests, untimed: bool) {
    let percentile = |key: &str| r.lat_ns.percentile.get(key).copied().unwrap_or(0) as f64;
    let unless = |absent: bool, shown: String| if absent { "-".into() } else { shown };
    let latency = |ns: f64| unless(untimed, time(ns));
    let _ = writeln!(
        t,
        "  {name:<7} {:>12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        count(r.requests),
        unless(untimed, count(r.iops as u64)),
        unless(untimed || name.ends_with("trim"), format!("{}/s", bytes(r.bw_bytes as u64))),
        latency(r.lat_ns.mean),
        latency(percentile("50.000000")),
        latency(percentile("99.000000")),
        latency(percentile("99.900000")),
        latency(r.lat_ns.max as f64)
    );
}

fn waf(t: &mut String, s: &Summary) {
    let Some(waf) = s.waf else {
        let _ = writeln!(t, "\nWAF       none: the host wrote nothing");
        return;
    };
    let p = &s.waf_parts;
    let parts: Vec<String> = [
        (p.host, "host"),
        (p.padding, "padding (old sectors rewritten, room unfilled)"),
        (p.gc, "garbage collection"),
        (p.merge, "merges"),
        (p.map, "mapping table"),
        (p.meta, "metadata"),
        (p.parity, "parity"),
    ]
    .into_iter()
    .filter(|(value, name)| *value > 0.0005 || *name == "host")
    .map(|(value, name)| format!("{value:.3} {name}"))
    .collect();
    let _ = writeln!(t, "\nWAF       {waf:.3} = {}", parts.join(" + "));
    if waf == 0.0 {
        let _ = writeln!(
            t,
            "          nothing was programmed: all that was written is still in the write buffer"
        );
    }
    let steady = if s.steady_state {
        let copied = if copied_nothing(s) { "; collection copied nothing" } else { "" };
        format!("yes, within {}%{copied}", (s.steady.band * 1000.0).round() / 10.0)
    } else {
        format!("no ({})", s.steady_state_reason)
    };
    let last = s.waf_steady.map_or_else(|| "-".into(), |w| format!("{w:.3}"));
    let of = s.drive_writes - s.steady.from_drive_writes.unwrap_or(s.drive_writes);
    let _ = writeln!(
        t,
        "          {last} over the last {of:.2} of {:.2} drive writes; steady state: {steady}",
        s.drive_writes
    );
}

fn flash(t: &mut String, s: &Summary) {
    let (r, p) = (&s.flash.reads, &s.flash.programs);
    let parity = r.parity + p.parity > 0;
    let _ = writeln!(
        t,
        "\n{:<9} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}{} {:>12}",
        "flash",
        "host",
        "RMW",
        "GC",
        "merge",
        "map",
        "metadata",
        if parity { format!(" {:>12}", "parity") } else { String::new() },
        "total"
    );
    let rows = [
        ("reads", [r.host, r.rmw, r.gc, r.merge, r.map, r.meta, r.parity, r.total]),
        ("programs", [p.host, 0, p.gc, p.merge, p.map, p.meta, p.parity, p.total]),
    ];
    for (name, values) in rows {
        let _ = write!(t, "  {name:<7}");
        for (n, value) in values.into_iter().enumerate().filter(|&(n, _)| n != 6 || parity) {
            let shown = if name == "programs" && n == 1 { "-".into() } else { count(value) };
            let _ = write!(t, " {shown:>12}");
        }
        let _ = writeln!(t);
    }
    let types = &s.flash.by_page_type;
    let kinds = [("LSB", &types.lsb), ("CSB", &types.csb), ("MSB", &types.msb), ("TSB", &types.tsb)];
    if kinds[1..].iter().any(|(_, k)| k.programs + k.reads > 0) {
        let shown: Vec<String> = kinds
            .iter()
            .filter(|(_, k)| k.programs + k.reads > 0)
            .map(|(name, k)| format!("{name} {}", count(k.programs)))
            .collect();
        let _ = writeln!(t, "          programs by page type: {}", shown.join(", "));
    }
}

/// Controller and link, where they take time.
fn machine(t: &mut String, s: &Summary) {
    let c = &s.controller;
    if !c.utilisation.is_empty() {
        let cores: Vec<String> = c.utilisation.iter().map(|share| format!("{:.0}%", share * 100.0)).collect();
        let all = c.busy_ns.values().sum::<u64>().max(1) as f64;
        let mut parts: Vec<(&String, &u64)> = c.busy_ns.iter().filter(|(_, ns)| **ns > 0).collect();
        parts.sort_by_key(|&(_, &ns)| std::cmp::Reverse(ns));
        let parts: Vec<String> =
            parts.iter().map(|&(name, &ns)| format!("{name} {:.0}%", ns as f64 / all * 100.0)).collect();
        let _ = writeln!(t, "cores     busy {}; of that {}", cores.join(", "), parts.join(", "));
    }
    let l = &s.link;
    if l.utilisation > 0.0 {
        let _ =
            writeln!(t, "link      {:.1}% of its bandwidth, in the busier direction", l.utilisation * 100.0);
    }
    let c = &s.slc;
    if c.host_bytes + c.direct_bytes > 0 {
        let _ = writeln!(
            t,
            "SLC cache {} now; took {} of the host's data, {} went past it, {} were folded from {} blocks",
            bytes(c.bytes),
            bytes(c.host_bytes),
            bytes(c.direct_bytes),
            bytes(c.folded_bytes),
            count(c.folds)
        );
    }
    if s.flash.read_retries > 0 {
        let _ = writeln!(t, "retries   {} repetitions of flash reads", count(s.flash.read_retries));
    }
}

fn rest(t: &mut String, s: &Summary) {
    if s.rmw.count > 0 {
        let _ = writeln!(
            t,
            "RMW       {} read-modify-writes, {} each on average",
            count(s.rmw.count),
            time(s.rmw.lat_ns.mean)
        );
    }
    let b = &s.buffer;
    if b.hits + b.misses > 0 {
        let _ = writeln!(
            t,
            "buffer    {} hits, {} misses, {} pages evicted ({} partial), writes waited {}",
            count(b.hits),
            count(b.misses),
            count(b.evictions),
            count(b.evicted_partial_pages),
            time(b.wait_ns as f64)
        );
    }
    let m = &s.mapping;
    if m.cache_misses > 0 {
        let _ = writeln!(
            t,
            "map       {} table, {} hits, {} misses",
            bytes(m.bytes),
            count(m.cache_hits),
            count(m.cache_misses)
        );
    }
    let _ = writeln!(
        t,
        "GC        {} victims, {} units of {} moved, host writes stood still for {}",
        count(s.gc.invocations),
        count(s.gc.moved_pages),
        bytes(s.units.bytes),
        time(s.gc.foreground_ns as f64)
    );
    machine(t, s);
    streams(t, s);
    let w = &s.wear;
    let _ = writeln!(
        t,
        "wear      {} erases; per block {} to {}, mean {:.2}, deviation {:.2}; {} bad blocks",
        count(s.flash.erases),
        w.erase_min,
        w.erase_max,
        w.erase_mean,
        w.erase_stddev,
        w.bad_blocks
    );
    lifetime(t, s);
    let f = &s.faults;
    if f.program_failures + f.erase_failures + f.unreadable_sectors > 0 || f.read_only {
        let mut read_only = String::new();
        if f.read_only {
            read_only += "; READ-ONLY";
            if f.programs_lost > 0 {
                read_only += ": no page was left to repeat a program in";
            } else if f.program_failures + f.erase_failures > 0 {
                read_only += ": too few good blocks are left";
            }
            if f.buffered_sectors > 0 {
                let _ = write!(read_only, "; {} sectors in RAM are not on flash", count(f.buffered_sectors));
            }
        }
        let lost = match f.programs_lost {
            0 => String::new(),
            lost => format!(" and {} lost", count(lost)),
        };
        let _ = writeln!(
            t,
            "faults    {} programs failed and were repeated{lost}, {} blocks taken out of use, {} sectors unreadable{read_only}",
            count(f.program_failures - f.programs_lost),
            count(f.erase_failures),
            count(f.unreadable_sectors),
        );
    }
    let r = &s.recovery;
    if r.cuts_missed > 0 {
        let _ = writeln!(
            t,
            "power     {} of {} cuts did not come: the measured part was over before",
            count(r.cuts_missed),
            count(r.cuts + r.cuts_missed)
        );
    }
    if r.cuts > 0 {
        let _ = writeln!(
            t,
            "power     {} cuts, {} recoveries from a checkpoint; {} reads and {} each on average, {} at most; {} requests lost",
            count(r.cuts),
            count(r.from_checkpoint),
            count(r.reads / r.cuts),
            time((r.time_ns / r.cuts) as f64),
            time(r.time_max_ns as f64),
            count(r.requests_lost)
        );
    }
    if s.integrity.checked_sectors > 0 {
        let i = &s.integrity;
        let verdict = match i.mismatches + i.wrong_completions {
            0 => "all right".into(),
            _ => format!("{} WRONG, and {} completions", i.mismatches, i.wrong_completions),
        };
        let _ = writeln!(t, "verified  {} sectors, {verdict}", count(i.checked_sectors));
    }
    let tr = &s.trace;
    let mut handled = Vec::new();
    for (n, what) in [
        (tr.rounded, "rounded to whole sectors"),
        (tr.moved, "moved to fit the device"),
        (tr.empty_trims, "trims of less than a sector"),
        (tr.hints_ignored, "FlashAlloc commands left out"),
    ] {
        if n > 0 {
            handled.push(format!("{} {what}", count(n)));
        }
    }
    let handled = if handled.is_empty() { String::new() } else { format!("; {}", handled.join(", ")) };
    let _ =
        writeln!(t, "trace     {} requests in, {} out{handled}", count(tr.submitted), count(tr.completed));
}

/// How long the flash lasts; nothing of a drive that was not written.
fn lifetime(t: &mut String, s: &Summary) {
    let l = &s.lifetime;
    let Some(kg) = l.kg_co2e_per_tb else { return };
    let assumed = if l.endurance_assumed { " (assumed)" } else { "" };
    let limit = format!("{} erases a block{assumed}", count(l.endurance.into()));
    let rate = match l.dwpd.zip(l.years) {
        Some((dwpd, years)) => {
            let last =
                if years < 1.0 { format!("{:.1} days", years * 365.25) } else { format!("{years:.1} years") };
            let a_day = if dwpd < 100.0 { format!("{dwpd:.2}") } else { count(dwpd as u64) };
            format!("{last} to {limit}, at {a_day} drive writes a day; ")
        }
        None => format!("{limit}; "),
    };
    let _ = writeln!(t, "lifetime  {rate}{} kg CO2e a TB written", quantity(kg));
}

/// Streams, objects and classes, where there are any.
fn streams(t: &mut String, s: &Summary) {
    let st = &s.streams;
    if st.per_stream.iter().any(|stream| !matches!(stream.kind.as_str(), "normal" | "internal")) {
        let _ = writeln!(
            t,
            "\n{:<14} {:>12} {:>12} {:>10} {:>10}",
            "streams", "host", "media", "WAF", "of drive's"
        );
        for stream in st.per_stream.iter().filter(|stream| stream.media_bytes > 0) {
            let name = match stream.kind.as_str() {
                "stream" | "handle" => format!("{} {}", stream.kind, stream.stream),
                kind => kind.to_owned(),
            };
            let waf = stream.waf.map_or_else(|| "-".into(), |waf| format!("{waf:.3}"));
            let _ = writeln!(
                t,
                "  {name:<12} {:>12} {:>12} {waf:>10} {:>10}",
                bytes(stream.host_bytes),
                bytes(stream.media_bytes),
                format!("{:.3}", stream.waf_part)
            );
        }
        if s.waf_parts.parity > 0.0 {
            let (name, part) = ("parity", s.waf_parts.parity);
            let media = bytes(s.flash.programs.parity * (s.flash.bytes_programmed / s.flash.programs.total));
            let _ = writeln!(t, "  {name:<12} {:>12} {media:>12} {:>10} {part:>10.3}", "-", "-");
        }
    }
    if st.calls + st.refused > 0 {
        let calls = st.calls + st.refused;
        let _ = writeln!(
            t,
            "objects   {} FlashAlloc calls honoured, {} refused, {} each on average; {} blocks erased whole by a trim, {} instances live",
            count(st.calls),
            count(st.refused),
            time(st.calls_ns as f64 / calls as f64),
            count(st.block_erases_by_trim),
            count(st.instances_live)
        );
    }
    if st.per_class.len() > 1 {
        let classes: Vec<String> = st
            .per_class
            .iter()
            .map(|c| format!("{}: {} ({})", c.class, bytes(c.host_bytes), time(c.lat_ns.mean)))
            .collect();
        let _ = writeln!(t, "classes   written (mean latency) {}", classes.join(", "));
    }
    let valid = |histogram: &[u64]| {
        let victims: u64 = histogram.iter().sum();
        let halves: u64 = histogram.iter().enumerate().map(|(twentieths, n)| twentieths as u64 * n).sum();
        (victims, halves as f64 * 5.0 / victims.max(1) as f64)
    };
    let objects = &s.gc.victim_valid_histogram_objects;
    let (dedicated, dedicated_valid) = valid(objects);
    if dedicated > 0 {
        let chosen: Vec<u64> = s.gc.victim_valid_histogram.clone();
        // Blocks that were erased whole were never victims: they are in the first bucket of objects alone.
        let normal: Vec<u64> =
            chosen.iter().zip(objects).skip(1).map(|(all, own)| all.saturating_sub(*own)).collect();
        let normal: Vec<u64> = chosen.first().copied().into_iter().chain(normal).collect();
        let (victims, share) = valid(&normal);
        let _ = writeln!(
            t,
            "victims   {} normal blocks, {share:.0}% valid on average; {} blocks of objects, {dedicated_valid:.0}%",
            count(victims),
            count(dedicated)
        );
    }
}

/// Runs of a sweep that are shown one by one.
const RUNS: usize = 40;

/// The runs of a sweep, a line each, and what cannot be concluded from them.
pub fn sweep(runs: &[(&Labels, &Summary)]) -> String {
    let mut t = String::new();
    if runs.is_empty() {
        return t;
    }
    let mean = |s: &Summary| Some(s.host.write.lat_ns.mean).filter(|&ns| ns > 0.0).map_or("-".into(), time);
    let ratio = |waf: Option<f64>| waf.map_or_else(|| "-".into(), |waf| format!("{waf:.3}"));
    let _ = writeln!(t, "\n{:>7} {:>9} {:>7} {:>11}", "WAF", "last part", "steady", "mean write");
    for (labels, s) in runs.iter().take(RUNS) {
        let (all, last) = (ratio(s.waf), ratio(s.waf_steady));
        let _ = writeln!(t, "{all:>7} {last:>9} {:>7} {:>11}  {labels}", steady(s), mean(s));
    }
    if runs.len() > RUNS {
        let _ = writeln!(t, "and {} runs more: the report and `nandle gather` have all", runs.len() - RUNS);
    }
    if let Some(why) = unsteady(runs) {
        let _ = writeln!(t, "{why}");
    }
    t
}

/// Columns of a comparison beside the first.
const COLUMNS: usize = 4;

/// Schemes side by side under a workload, each figure with what it is of the first one's: (name, summary).
pub fn comparison(workload: &str, runs: &[(&str, &Summary)]) -> String {
    let mut t = String::new();
    let Some((_, first)) = runs.first() else { return t };
    let (least, most) = lengths(runs.iter().map(|(_, s)| *s));
    let all = if least == most { count(most) } else { format!("{} to {}", count(least), count(most)) };
    let _ = writeln!(
        t,
        "{} | {workload} | seed {} | {all} requests; multiples of {}",
        first.device, first.seed, runs[0].0
    );
    // Wide tables are cut, each part with the first column.
    let parts: Vec<&[(&str, &Summary)]> =
        if runs.len() > 1 { runs[1..].chunks(COLUMNS).collect() } else { vec![&runs[1..]] };
    for part in parts {
        let columns: Vec<&(&str, &Summary)> = runs[..1].iter().chain(part).collect();
        let cells = |name: &str, cell: &dyn Fn(&(&str, &Summary)) -> String| {
            let mut row = format!("{name:<20}");
            for column in &columns {
                let _ = write!(row, " {:>24}", cell(column));
            }
            row.trim_end().to_owned() + "\n"
        };
        t += &cells("", &|c| {
            let name: String = c.0.chars().take(24).collect();
            name
        });
        for metric in METRICS {
            let base = (metric.of)(first);
            let compares = least == most || !metric.adds_up();
            if columns.iter().all(|c| (metric.of)(c.1).is_none()) || !compares {
                continue;
            }
            t += &cells(metric.name, &|c| match (metric.of)(c.1) {
                Some(value) => format!("{}  {:>6}", metric.unit.show(value), ratio(Some(value), base)),
                None => "-".into(),
            });
            if metric.key == STEADY_BELOW {
                t += &cells("  steady", &|c| format!("{}        ", steady(c.1)));
            }
        }
    }
    t
}
