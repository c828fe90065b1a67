//! What a run measured as tables.

use nandle_ssd::Op;
use nandle_ssd::nand::Cause;
use nandle_table::{Column, Table, Texts};

use crate::config::Drive;
use crate::measure::{Meter, Row};

/// The time series as a table; counts are of the interval, not running totals.
#[must_use]
pub fn series(drive: &Drive, meter: &Meter) -> Table {
    let rows = meter.rows.rows();
    let geometry = &drive.config.geometry;
    let page = u64::from(geometry.page_bytes);
    let sector = u64::from(geometry.sector_bytes);
    let mut columns = vec![Column::each("phase", rows, |row| row.phase)];
    let mut whole = |name: &str, f: &dyn Fn(&Row) -> u64| {
        columns.push(Column::each(name, rows, f));
    };
    whole("start_ns", &|row| meter.rows.start_ns(row));
    whole("interval_ns", &|_| meter.rows.interval_ns());
    for (kind, name) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
        whole(&format!("{name}_requests"), &|row| row.requests[kind]);
        whole(&format!("{name}_bytes"), &|row| row.bytes[kind]);
        whole(&format!("{name}_max_ns"), &|row| row.latency_max_ns[kind]);
    }
    for (cause, name) in [
        (Cause::Host, "host"),
        (Cause::Gc, "gc"),
        (Cause::Merge, "merge"),
        (Cause::Map, "map"),
        (Cause::Meta, "meta"),
        (Cause::Parity, "parity"),
    ] {
        whole(&format!("programs_{name}"), &|row| row.flash.programs[cause as usize]);
        whole(&format!("reads_{name}"), &|row| row.flash.reads[cause as usize]);
    }
    whole("reads_rmw", &|row| row.flash.reads[Cause::Rmw as usize]);
    whole("erases", &|row| row.flash.erases);
    whole("bytes_programmed", &|row| row.flash.programs.iter().sum::<u64>() * page);
    whole("host_bytes_programmed", &|row| row.flash.host_sectors * sector);
    whole("foreground_ns", &|row| row.flash.foreground_ns);
    whole("buffer_wait_ns", &|row| row.flash.buffer_wait_ns);
    whole("cache_hits", &|row| row.flash.cache_hits);
    whole("cache_misses", &|row| row.flash.cache_misses);
    whole("free_blocks", &|row| row.free_blocks);
    let mut real = |name: &str, f: &dyn Fn(&Row) -> Option<f64>| {
        columns.push(Column::optional(name, rows.iter().map(f).collect()));
    };
    let written = |row: &Row| Some(row.bytes[Op::Write as usize]).filter(|&b| b > 0);
    let over_host = |row: &Row, bytes: u64| written(row).map(|w| bytes as f64 / w as f64);
    real("waf", &|row| over_host(row, row.flash.programs.iter().sum::<u64>() * page));
    let for_host = |row: &Row| row.flash.programs[Cause::Host as usize] * page;
    // A page that host data and copies share counts for what it was opened for.
    let host = |row: &Row| (row.flash.host_sectors * sector).min(for_host(row));
    real("waf_host", &|row| over_host(row, host(row)));
    real("waf_padding", &|row| over_host(row, for_host(row) - host(row)));
    for (cause, name) in [
        (Cause::Gc, "gc"),
        (Cause::Merge, "merge"),
        (Cause::Map, "map"),
        (Cause::Meta, "meta"),
        (Cause::Parity, "parity"),
    ] {
        real(&format!("waf_{name}"), &|row| over_host(row, row.flash.programs[cause as usize] * page));
    }
    for (op, name) in [(Op::Read, "read"), (Op::Write, "write")] {
        real(&format!("{name}_mean_ns"), &|row| row.mean_ns(op));
        for (share, percentile) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99_9")] {
            real(&format!("{name}_{percentile}_ns"), &|row| row.percentile_ns(op, share).map(|ns| ns as f64));
        }
    }
    columns.push(Column::each("free_blocks_min", rows, |row| row.free_blocks_min));
    let mut lists = |name: &str, f: &dyn Fn(&Row) -> Vec<u64>| {
        columns.push(Column::each(name, rows, f));
    };
    lists("chip_busy_ns", &|row| row.chip_busy_ns.clone());
    lists("group_blocks", &|row| row.group_blocks.clone());
    // In the order of `users` in the summary.
    let last = rows.last().map_or(0, |row| row.phase);
    let of_users = |row: &Row, kind: Op| -> Vec<u64> {
        let users = if row.phase == last { meter.users.len() } else { 0 };
        (0..users).map(|user| row.user_bytes.get(user).map_or(0, |bytes| bytes[kind as usize])).collect()
    };
    lists("user_read_bytes", &|row| of_users(row, Op::Read));
    lists("user_write_bytes", &|row| of_users(row, Op::Write));
    Table::new(columns)
}

/// The latencies of the measured part: kind of request, upper end of each bucket of the histogram in
/// nanoseconds, requests in it, and the share of requests up to its end.
#[must_use]
pub fn latencies(meter: &Meter) -> Table {
    let (mut kinds, mut ends, mut counts, mut shares) = (Texts::default(), vec![], vec![], vec![]);
    for op in [Op::Read, Op::Write, Op::Trim, Op::Flush] {
        let latency = &meter.latency[op as usize];
        let mut seen = 0;
        for (end, count) in latency.tally.recorded() {
            seen += count;
            kinds.push(op.name());
            ends.push(end);
            counts.push(count);
            shares.push(seen as f64 / latency.requests as f64);
        }
    }
    Table::new(vec![
        Column::new("op", kinds),
        Column::new("latency_ns", ends),
        Column::new("requests", counts),
        Column::new("share", shares),
    ])
}
