//! Charts of one run over time, and of its streams.

use arrow_array::{Array, Float64Array, ListArray, RecordBatch, UInt32Array, UInt64Array};

use super::page::{Csv, Page};
use super::side_by_side::{CAUSES, occurring};
use super::svg::{self, Axis, Bar, figure};
use crate::measure::Summary;
use crate::run::Loaded;
use crate::units::{bytes, time};

/// Cells of charts over time.
const CELLS: usize = 64;

/// Rows of a time series added up to cells that a chart can show.
struct Cells {
    /// Borders in seconds, one more than cells.
    edges: Vec<f64>,
    /// Cell of each row.
    of_row: Vec<usize>,
    /// Where the measured part begins, in seconds, if something lies before it.
    measured: Option<f64>,
}

impl Cells {
    fn of(series: &RecordBatch) -> Option<Self> {
        let (start, interval) = (whole(series, "start_ns")?, whole(series, "interval_ns")?);
        let phase = series.column_by_name("phase")?.as_any().downcast_ref::<UInt32Array>()?;
        let rows = series.num_rows();
        if rows == 0 {
            return None;
        }
        let (first, width) = (start.value(0), interval.value(rows - 1).max(1));
        let end = start.value(rows - 1) + width;
        let cells = ((end - first).div_ceil(width) as usize).clamp(1, CELLS);
        // Whole intervals to a cell: no row lies in two of them.
        let step = ((end - first).div_ceil(width)).div_ceil(cells as u64).max(1) * width;
        let cells = (end - first).div_ceil(step) as usize;
        let edges = (0..=cells).map(|n| (first + n as u64 * step) as f64 / 1e9).collect();
        let of_row = (0..rows).map(|row| ((start.value(row) - first) / step) as usize).collect();
        let last = phase.value(rows - 1);
        let measured = (0..rows).find(|&row| phase.value(row) == last).filter(|&row| row > 0);
        let measured = measured.map(|row| start.value(row) as f64 / 1e9);
        Some(Self { edges, of_row, measured })
    }

    fn count(&self) -> usize {
        self.edges.len() - 1
    }

    /// A column added up.
    fn sum(&self, series: &RecordBatch, name: &str) -> Vec<f64> {
        let mut out = vec![0.0; self.count()];
        if let Some(column) = whole(series, name) {
            self.of_row.iter().enumerate().for_each(|(row, &cell)| out[cell] += column.value(row) as f64);
        }
        out
    }
}

fn whole<'a>(series: &'a RecordBatch, name: &str) -> Option<&'a UInt64Array> {
    series.column_by_name(name)?.as_any().downcast_ref()
}

fn real<'a>(series: &'a RecordBatch, name: &str) -> Option<&'a Float64Array> {
    series.column_by_name(name)?.as_any().downcast_ref()
}

fn seconds(v: f64) -> String {
    if v == 0.0 { "0 s".into() } else { time(v * 1e9) }
}

/// What a run did over time.
pub(super) fn details(page: &mut Page, run: &Loaded) {
    let series = &run.series;
    let Some(cells) = Cells::of(series) else { return };
    if run.summary.waf.is_some() {
        waf_over_time(page, run, &cells);
    }
    throughput(page, series, &cells);
    by_user(page, run, &cells);
    free_blocks(page, series, &cells);
    reclaim_units(page, run, &cells);
    utilisation(page, run, &cells);
    streams(page, &run.summary);
}

fn waf_over_time(page: &mut Page, run: &Loaded, cells: &Cells) {
    let series = &run.series;
    let written = cells.sum(series, "write_bytes");
    let mut layers = Vec::new();
    for (name, _) in CAUSES {
        let mut bytes = vec![0.0; cells.count()];
        if let Some(column) = real(series, name) {
            let host = whole(series, "write_bytes");
            for (row, &cell) in cells.of_row.iter().enumerate() {
                if !column.is_null(row) {
                    bytes[cell] += column.value(row) * host.map_or(0.0, |h| h.value(row) as f64);
                }
            }
        }
        layers.push(
            bytes.iter().zip(&written).map(|(b, w)| if *w > 0.0 { b / w } else { 0.0 }).collect::<Vec<f64>>(),
        );
    }
    let totals: Vec<f64> = (0..cells.count()).map(|n| layers.iter().map(|l| l[n]).sum()).collect();
    let mut csv = Csv::new([
        "from_s",
        "to_s",
        "host",
        "padding",
        "gc",
        "merge",
        "map",
        "meta",
        "parity",
        "write_bytes",
    ]);
    for n in 0..cells.count() {
        let fields = [cells.edges[n], cells.edges[n + 1]]
            .into_iter()
            .chain(layers.iter().map(|l| l[n]))
            .chain([written[n]]);
        csv.row(fields.map(|v| v.to_string()));
    }
    // A cell with next to no writes says nothing and would flatten all others.
    let mut sorted = totals.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted[(sorted.len() - 1) * 9 / 10].max(run.summary.waf.unwrap_or(1.0));
    let most = sorted.last().copied().unwrap_or(1.0);
    let cut = most > 3.0 * usual;
    let y = Axis { to: cut.then_some(2.0 * usual), ..Axis::linear("WAF", svg::short) };
    let x = Axis::linear("simulated time", seconds);
    let chart = svg::layers(
        "write amplification over time",
        &cells.edges,
        &layers,
        &x,
        &y,
        cells.measured.map(|at| (at, "measured from here")),
    );
    let hint = if cut {
        format!("Cut off at the top: the highest cell is {most:.1}.")
    } else {
        "The parts add up, interval by interval.".into()
    };
    page.card(
        "WAF over time",
        &hint,
        &(occurring(&CAUSES.map(|c| c.1), |n| layers[n].iter().any(|&v| v > 0.0)) + &chart),
        &csv,
    );
}

fn throughput(page: &mut Page, series: &RecordBatch, cells: &Cells) {
    let kinds = ["read", "write"].map(|kind| cells.sum(series, &format!("{kind}_bytes")));
    let width = |n: usize| (cells.edges[n + 1] - cells.edges[n]).max(1e-9);
    let layers: Vec<Vec<f64>> =
        kinds.iter().map(|k| k.iter().enumerate().map(|(n, v)| v / width(n)).collect()).collect();
    let mut csv = Csv::new(["from_s", "to_s", "read_bytes_per_s", "write_bytes_per_s"]);
    for (borders, (reads, writes)) in cells.edges.windows(2).zip(layers[0].iter().zip(&layers[1])) {
        csv.row([borders[0], borders[1], *reads, *writes].map(|v| v.to_string()));
    }
    let y = Axis::linear("host bandwidth, MB/s", |v| svg::short(v / 1e6));
    let x = Axis::linear("simulated time", seconds);
    let chart = svg::layers(
        "host bandwidth over time",
        &cells.edges,
        &layers,
        &x,
        &y,
        cells.measured.map(|at| (at, "measured from here")),
    );
    page.card(
        "Host bandwidth over time",
        "Reads and writes, one on the other.",
        &(svg::legend(&["reads", "writes"]) + &chart),
        &csv,
    );
}

/// Numbers of a column of lists: those of each row.
fn lists<'a>(series: &'a RecordBatch, name: &str) -> Option<impl Fn(usize) -> Vec<u64> + use<'a>> {
    let column: &ListArray = series.column_by_name(name)?.as_any().downcast_ref()?;
    Some(move |row| {
        let values = column.value(row);
        let values = values.as_any().downcast_ref::<UInt64Array>();
        values.map_or_else(Vec::new, |values| values.iter().map(Option::unwrap_or_default).collect())
    })
}

/// What each of several users was served.
fn by_user(page: &mut Page, run: &Loaded, cells: &Cells) {
    let users = &run.summary.users;
    let columns = ["user_read_bytes", "user_write_bytes"].map(|name| lists(&run.series, name));
    let [Some(reads), Some(writes)] = columns else { return };
    if users.is_empty() {
        return;
    }
    let mut rates = vec![vec![[0.0; 2]; cells.count()]; users.len()];
    for (row, &cell) in cells.of_row.iter().enumerate() {
        let seconds = (cells.edges[cell + 1] - cells.edges[cell]).max(1e-9);
        for (way, bytes) in [reads(row), writes(row)].into_iter().enumerate() {
            for (user, bytes) in rates.iter_mut().zip(bytes) {
                user[cell][way] += bytes as f64 / seconds;
            }
        }
    }
    let mut csv = Csv::new(["user", "from_s", "to_s", "read_bytes_per_s", "write_bytes_per_s"]);
    for (user, rates) in users.iter().zip(&rates) {
        for (borders, [read, write]) in cells.edges.windows(2).zip(rates) {
            let figures = [borders[0], borders[1], *read, *write].map(|v| v.to_string());
            csv.row([user.name.clone()].into_iter().chain(figures));
        }
    }
    // Those who move most have a colour of their own.
    let mut order: Vec<usize> = (0..users.len()).collect();
    let total = |n: usize| rates[n].iter().flatten().sum::<f64>();
    order.sort_by(|&a, &b| total(b).total_cmp(&total(a)));
    let (most, others) = order.split_at(order.len().min(svg::COLOURS - 1));
    let sum = |of: &[usize]| -> Vec<f64> {
        (0..cells.count()).map(|cell| of.iter().flat_map(|&n| rates[n][cell]).sum()).collect()
    };
    let mut names: Vec<&str> = most.iter().map(|&n| users[n].name.as_str()).collect();
    let mut layers: Vec<Vec<f64>> = most.iter().map(|&n| sum(&[n])).collect();
    if !others.is_empty() {
        names.push("others");
        layers.push(sum(others));
    }
    let y = Axis::linear("reads and writes, MB/s", |v| svg::short(v / 1e6));
    let x = Axis::linear("simulated time", seconds);
    let chart = svg::layers("bandwidth by user", &cells.edges, &layers, &x, &y, None);
    page.card("Bandwidth by user", "One on the other.", &(svg::legend(&names) + &chart), &csv);
}

fn free_blocks(page: &mut Page, series: &RecordBatch, cells: &Cells) {
    let (Some(free), Some(start)) = (whole(series, "free_blocks"), whole(series, "start_ns")) else { return };
    let points: Vec<(f64, f64)> =
        (0..series.num_rows()).map(|row| (start.value(row) as f64 / 1e9, free.value(row) as f64)).collect();
    let mut csv = Csv::new(["start_s", "free_blocks"]);
    points.iter().for_each(|p| csv.row([p.0.to_string(), p.1.to_string()]));
    let x =
        Axis { from_zero: false, to: cells.edges.last().copied(), ..Axis::linear("simulated time", seconds) };
    let y = Axis::linear("free blocks", figure);
    page.card(
        "Free blocks",
        "Where the line is flat and low, collection keeps up with the host.",
        &svg::lines("free blocks over time", &[points], &x, &y),
        &csv,
    );
}

/// Blocks by the stream, or placement handle, that wrote them.
fn reclaim_units(page: &mut Page, run: &Loaded, cells: &Cells) {
    let series = &run.series;
    let (Some(blocks), Some(start)) = (lists(series, "group_blocks"), whole(series, "start_ns")) else {
        return;
    };
    let config: Option<nandle_ssd::DeviceConfig> = toml::from_str(&run.config).ok();
    let Some(config) = config.filter(|config| config.streams.count > 1) else { return };
    let rows: Vec<Vec<u64>> = (0..series.num_rows()).map(blocks).collect();
    let groups = rows.iter().map(Vec::len).max().unwrap_or(0);
    let (streams, kind) =
        (config.streams.count as usize, if config.scheme.has("fdp") { "handle" } else { "stream" });
    let name = |n: usize| match n {
        _ if n + 1 == groups => "collected together, and the drive's own".to_owned(),
        _ if n < streams => format!("{kind} {n}"),
        _ => format!("{kind} {}, collected", n - streams),
    };
    // Those that nobody used are no lines.
    let used = |&n: &usize| rows.iter().any(|row| row.get(n).is_some_and(|&count| count > 0));
    let groups: Vec<usize> = (0..groups).filter(used).collect();
    if groups.is_empty() {
        return;
    }
    let names: Vec<String> = groups.iter().map(|&n| name(n)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut csv = Csv::new(std::iter::once("start_s").chain(names.iter().copied()));
    let mut lines = vec![vec![]; groups.len()];
    for (row, counts) in rows.iter().enumerate().filter(|(_, counts)| !counts.is_empty()) {
        let at = start.value(row) as f64 / 1e9;
        let counts: Vec<u64> = groups.iter().map(|&n| counts.get(n).copied().unwrap_or(0)).collect();
        lines.iter_mut().zip(&counts).for_each(|(line, &count)| line.push((at, count as f64)));
        csv.row(std::iter::once(at.to_string()).chain(counts.iter().map(u64::to_string)));
    }
    let x =
        Axis { from_zero: false, to: cells.edges.last().copied(), ..Axis::linear("simulated time", seconds) };
    let y = Axis::linear("blocks", figure);
    page.card(
        "Reclaim units",
        "Blocks written, by the stream or placement handle whose data they were opened for.",
        &(svg::legend(&names) + &svg::lines("reclaim units over time", &lines, &x, &y)),
        &csv,
    );
}

fn utilisation(page: &mut Page, run: &Loaded, cells: &Cells) {
    let Some(busy_ns) = lists(&run.series, "chip_busy_ns") else { return };
    let geometry: Option<nandle_ssd::DeviceConfig> = toml::from_str(&run.config).ok();
    let Some(geometry) = geometry.map(|config| config.geometry) else { return };
    let chips = geometry.chips() as usize;
    let mut busy = vec![vec![0.0; cells.count()]; chips];
    for (row, &cell) in cells.of_row.iter().enumerate() {
        for (chip, ns) in busy.iter_mut().zip(busy_ns(row)) {
            chip[cell] += ns as f64;
        }
    }
    let dies = f64::from(geometry.dies_per_chip);
    let share =
        |ns: f64, cell: usize| ns / ((cells.edges[cell + 1] - cells.edges[cell]) * 1e9 * dies).max(1.0);
    let shares: Vec<Vec<f64>> = busy
        .iter()
        .map(|chip| chip.iter().enumerate().map(|(cell, &ns)| share(ns, cell)).collect())
        .collect();
    let mut csv = Csv::new(["chip", "channel", "from_s", "to_s", "busy"]);
    let per_channel = geometry.chips_per_channel as usize;
    for (chip, row) in shares.iter().enumerate() {
        for (cell, share) in row.iter().enumerate() {
            csv.row([
                chip.to_string(),
                (chip / per_channel).to_string(),
                cells.edges[cell].to_string(),
                cells.edges[cell + 1].to_string(),
                format!("{share:.4}"),
            ]);
        }
    }
    // So many chips that a row would be a hair: channels instead.
    let (rows, each) = if chips > 64 {
        let channels = shares.chunks(per_channel).map(|chips| {
            (0..cells.count())
                .map(|cell| chips.iter().map(|c| c[cell]).sum::<f64>() / chips.len() as f64)
                .collect()
        });
        (channels.collect::<Vec<Vec<f64>>>(), 1)
    } else {
        (shares, per_channel)
    };
    let beside: Vec<(usize, String)> =
        (0..rows.len()).step_by(each).map(|row| (row, format!("ch {}", row / each))).collect();
    let beside: Vec<(usize, String)> = if rows.len() / each > 8 {
        beside.into_iter().filter(|(row, _)| (row / each) % 4 == 0).collect()
    } else {
        beside
    };
    let x = Axis::linear("simulated time", seconds);
    let what = if chips > 64 { "A row is a channel." } else { "A row is a chip." };
    page.card(
        "How busy the chips were",
        what,
        &svg::heat("utilisation of chips over time", &cells.edges, &rows, &beside, &x),
        &csv,
    );
}

fn streams(page: &mut Page, s: &Summary) {
    let streams = &s.streams.per_stream;
    if !streams.iter().any(|stream| !matches!(stream.kind.as_str(), "normal" | "internal")) {
        return;
    }
    let mut csv = Csv::new(["stream", "kind", "host_bytes", "media_bytes", "waf"]);
    let mut bars = Vec::new();
    for stream in streams {
        csv.row([
            stream.stream.to_string(),
            stream.kind.clone(),
            stream.host_bytes.to_string(),
            stream.media_bytes.to_string(),
            stream.waf.map_or_else(String::new, |w| w.to_string()),
        ]);
        if stream.media_bytes == 0 {
            continue;
        }
        let label = if matches!(stream.kind.as_str(), "stream" | "handle") {
            format!("{} {}", stream.kind, stream.stream)
        } else {
            stream.kind.clone()
        };
        let waf = stream.waf.map_or_else(String::new, |w| format!("WAF {w:.3}, "));
        bars.push(Bar {
            label,
            parts: vec![stream.waf.unwrap_or(0.0)],
            colour: 0,
            shown: format!("{waf}{}", bytes(stream.media_bytes)),
        });
    }
    page.card(
        "WAF by stream",
        "Bytes programmed for a stream, copies included, by host bytes in it.",
        &svg::bars("WAF by stream", &bars, Some(1.0)),
        &csv,
    );
}
