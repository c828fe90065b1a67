//! Charts over time: of one run and its streams, and of several on one axis.

use nandle_table::{Table, Values};

use super::chart::{self, Axis, Bar, Plot, Series, Show, strips};
use super::page::{Csv, Page};
use super::side_by_side::{CAUSES, Shown};
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
    fn of(series: &Table) -> Option<Self> {
        let (start, interval) = (whole(series, "start_ns")?, whole(series, "interval_ns")?);
        let Values::U32(phase) = series.column("phase")?.values() else { return None };
        let rows = series.rows();
        if rows == 0 {
            return None;
        }
        let (first, width) = (start[0], interval[rows - 1].max(1));
        let end = start[rows - 1] + width;
        let cells = ((end - first).div_ceil(width) as usize).clamp(1, CELLS);
        // Whole intervals to a cell: no row lies in two of them.
        let step = ((end - first).div_ceil(width)).div_ceil(cells as u64).max(1) * width;
        let cells = (end - first).div_ceil(step) as usize;
        let edges = (0..=cells).map(|n| (first + n as u64 * step) as f64 / 1e9).collect();
        let of_row = (0..rows).map(|row| ((start[row] - first) / step) as usize).collect();
        let last = phase[rows - 1];
        let measured = (0..rows).find(|&row| phase[row] == last).filter(|&row| row > 0);
        let measured = measured.map(|row| start[row] as f64 / 1e9);
        Some(Self { edges, of_row, measured })
    }

    fn count(&self) -> usize {
        self.edges.len() - 1
    }

    /// Layers with a figure a cell, one on another.
    fn layers(&self, what: &str, y: Axis, layers: impl Iterator<Item = (String, Vec<f64>)>) -> Plot {
        // Each figure holds up to the end of its cell, the last one too.
        let stepped = |values: &[f64]| values.iter().chain(values.last()).copied().collect::<Vec<f64>>();
        let series =
            layers.map(|(name, values)| Series::new(&name, self.edges.iter().copied().zip(stepped(&values))));
        let mark = self.measured.map(|at| (at, "measured from here".to_owned()));
        let x = Axis::linear("simulated time", Show::Seconds);
        Plot { stacked: true, stepped: true, mark, ..Plot::lines(what, x, y, series.collect()) }
    }

    /// A column added up.
    fn sum(&self, series: &Table, name: &str) -> Vec<f64> {
        let mut out = vec![0.0; self.count()];
        if let Some(column) = whole(series, name) {
            self.of_row.iter().enumerate().for_each(|(row, &cell)| out[cell] += column[row] as f64);
        }
        out
    }
}

fn whole<'a>(series: &'a Table, name: &str) -> Option<&'a [u64]> {
    let Values::U64(rows) = series.column(name)?.values() else { return None };
    Some(rows)
}

/// A figure of those rows that have it.
fn real<'a>(series: &'a Table, name: &str) -> Option<impl Fn(usize) -> Option<f64> + use<'a>> {
    let column = series.column(name)?;
    let Values::F64(rows) = column.values() else { return None };
    Some(move |row| column.has(row).then(|| rows[row]))
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
    free_blocks(page, &[("free blocks".to_owned(), points(series, "free_blocks"))]);
    reclaim_units(page, run);
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
                if let Some(figure) = column(row) {
                    bytes[cell] += figure * host.map_or(0.0, |h| h[row] as f64);
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
    let y = Axis { to: cut.then_some(2.0 * usual), ..Axis::linear("WAF", Show::Number) };
    let named = CAUSES.iter().map(|cause| cause.1.to_owned()).zip(layers);
    let plot =
        cells.layers("write amplification over time", y, named.filter(|l| l.1.iter().any(|&v| v > 0.0)));
    let hint = if cut {
        format!("Cut off at the top: the highest cell is {most:.1}.")
    } else {
        "The parts add up, interval by interval.".into()
    };
    page.card("WAF over time", &hint, &plot.html(), &csv);
}

fn throughput(page: &mut Page, series: &Table, cells: &Cells) {
    let kinds = ["read", "write"].map(|kind| cells.sum(series, &format!("{kind}_bytes")));
    let width = |n: usize| (cells.edges[n + 1] - cells.edges[n]).max(1e-9);
    let layers: Vec<Vec<f64>> =
        kinds.iter().map(|k| k.iter().enumerate().map(|(n, v)| v / width(n)).collect()).collect();
    let mut csv = Csv::new(["from_s", "to_s", "read_bytes_per_s", "write_bytes_per_s"]);
    for (borders, (reads, writes)) in cells.edges.windows(2).zip(layers[0].iter().zip(&layers[1])) {
        csv.row([borders[0], borders[1], *reads, *writes].map(|v| v.to_string()));
    }
    let y = Axis::linear("MB/s", Show::Megabytes);
    let named = ["reads", "writes"].map(str::to_owned).into_iter().zip(layers);
    let plot = cells.layers("host bandwidth over time", y, named);
    page.card("Host bandwidth over time", "Reads and writes, one on the other.", &plot.html(), &csv);
}

/// Numbers of a column of lists: those of each row.
fn lists<'a>(series: &'a Table, name: &str) -> Option<&'a [Vec<u64>]> {
    let Values::Lists(rows) = series.column(name)?.values() else { return None };
    Some(rows)
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
        for (way, bytes) in [&reads[row], &writes[row]].into_iter().enumerate() {
            for (user, bytes) in rates.iter_mut().zip(bytes) {
                user[cell][way] += *bytes as f64 / seconds;
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
    let (most, others) = order.split_at(order.len().min(chart::COLOURS - 1));
    let sum = |of: &[usize]| -> Vec<f64> {
        (0..cells.count()).map(|cell| of.iter().flat_map(|&n| rates[n][cell]).sum()).collect()
    };
    let mut layers: Vec<(String, Vec<f64>)> =
        most.iter().map(|&n| (users[n].name.clone(), sum(&[n]))).collect();
    if !others.is_empty() {
        layers.push(("others".to_owned(), sum(others)));
    }
    let y = Axis::linear("reads and writes, MB/s", Show::Megabytes);
    let plot = cells.layers("bandwidth by user", y, layers.into_iter());
    page.card("Bandwidth by user", "One on the other.", &plot.html(), &csv);
}

/// A figure of each row of a run's time series, at the row's beginning.
fn points(series: &Table, name: &str) -> Vec<(f64, f64)> {
    let (Some(figures), Some(start)) = (whole(series, name), whole(series, "start_ns")) else {
        return Vec::new();
    };
    start.iter().zip(figures).map(|(&at, &figure)| (at as f64 / 1e9, figure as f64)).collect()
}

fn free_blocks(page: &mut Page, runs: &[(String, Vec<(f64, f64)>)]) {
    let mut csv = Csv::new(["scheme", "start_s", "free_blocks"]);
    for (label, points) in runs {
        points.iter().for_each(|p| csv.row([label.clone(), p.0.to_string(), p.1.to_string()]));
    }
    let series = runs.iter().map(|(label, points)| Series::new(label, points.iter().copied())).collect();
    let x = Axis::linear("simulated time", Show::Seconds);
    let plot = Plot::lines("free blocks over time", x, Axis::linear("free blocks", Show::Number), series);
    let hint = "Where the line is flat and low, collection keeps up with the host.";
    page.card("Free blocks", hint, &plot.html(), &csv);
}

/// What several runs did over time, a curve each on one axis.
pub(super) fn together(page: &mut Page, runs: &[Shown<'_>]) {
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    let mut csv = Csv::new(["scheme", "from_s", "waf", "host_bytes_per_s", "chips_busy"]);
    for run in runs {
        let Some(cells) = Cells::of(&run.series) else { continue };
        let sum = |name: &str| cells.sum(&run.series, name);
        let (written, read) = (sum("write_bytes"), sum("read_bytes"));
        let mut programmed = vec![0.0; cells.count()];
        if let (Some(waf), Some(host)) = (real(&run.series, "waf"), whole(&run.series, "write_bytes")) {
            for (row, &cell) in cells.of_row.iter().enumerate() {
                programmed[cell] += waf(row).unwrap_or(0.0) * host[row] as f64;
            }
        }
        let busy = busy(run, &cells).map(|(chips, _)| chips).unwrap_or_default();
        let mut points = [Vec::new(), Vec::new(), Vec::new()];
        for cell in 0..cells.count() {
            let (at, width) = (cells.edges[cell], cells.edges[cell + 1] - cells.edges[cell]);
            let waf = (written[cell] > 0.0).then(|| programmed[cell] / written[cell]);
            let rate = (written[cell] + read[cell]) / width.max(1e-9);
            // The last cell is what was left: programs of writes before, and hardly a write of its own.
            let rest = cell > 0 && cell + 1 == cells.count() && written[cell] < written[cell - 1] / 2.0;
            points[0].extend(waf.filter(|_| !rest).map(|waf| (at, waf)));
            points[1].push((at, rate));
            let mean = busy.iter().map(|chip| chip[cell]).sum::<f64>() / busy.len().max(1) as f64;
            points[2].push((at, 100.0 * mean));
            let waf = waf.map_or_else(String::new, |waf| waf.to_string());
            csv.row([run.label.clone(), at.to_string(), waf, rate.to_string(), mean.to_string()]);
        }
        for (lines, points) in lines.iter_mut().zip(points) {
            lines.push(Series::new(&run.label, points));
        }
    }
    let [waf, rate, busy] = lines;
    let x = Axis::linear("simulated time", Show::Seconds);
    for (title, y, series) in [
        ("WAF over time", Axis::linear("WAF", Show::Number), waf),
        ("Host bandwidth over time", Axis::linear("reads and writes, MB/s", Show::Megabytes), rate),
        ("How busy the chips were", Axis::linear("mean of all chips", Show::Percent), busy),
    ] {
        if series.iter().any(|s| !s.x.is_empty()) {
            page.card(title, "A curve a run.", &Plot::lines(title, x.clone(), y, series).html(), &csv);
        }
    }
    let free = |run: &Shown<'_>| (run.label.clone(), points(&run.series, "free_blocks"));
    free_blocks(page, &runs.iter().map(free).collect::<Vec<_>>());
}

/// Blocks by the stream, or placement handle, that wrote them.
fn reclaim_units(page: &mut Page, run: &Loaded) {
    let series = &run.series;
    let (Some(rows), Some(start)) = (lists(series, "group_blocks"), whole(series, "start_ns")) else {
        return;
    };
    let config = crate::config::parse(&run.config).ok();
    let Some(config) = config.filter(|config| config.streams.count > 1) else { return };
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
    let mut series: Vec<Series> = groups.iter().map(|&n| Series::new(&name(n), [])).collect();
    let mut csv = Csv::new(std::iter::once("start_s").chain(series.iter().map(|s| s.name.as_str())));
    for (row, counts) in rows.iter().enumerate().filter(|(_, counts)| !counts.is_empty()) {
        let at = start[row] as f64 / 1e9;
        let counts: Vec<u64> = groups.iter().map(|&n| counts.get(n).copied().unwrap_or(0)).collect();
        for (line, &count) in series.iter_mut().zip(&counts) {
            line.x.push(at);
            line.y.push(count as f64);
        }
        csv.row(std::iter::once(at.to_string()).chain(counts.iter().map(u64::to_string)));
    }
    let x = Axis::linear("simulated time", Show::Seconds);
    let plot = Plot::lines("reclaim units over time", x, Axis::linear("blocks", Show::Number), series);
    let hint = "Blocks written, by the stream or placement handle whose data they were opened for.";
    page.card("Reclaim units", hint, &plot.html(), &csv);
}

/// The share of each cell in which each chip was busy, and chips a channel.
fn busy(run: &Loaded, cells: &Cells) -> Option<(Vec<Vec<f64>>, usize)> {
    let busy_ns = lists(&run.series, "chip_busy_ns")?;
    let config = crate::config::parse(&run.config).ok()?;
    let mut busy = vec![vec![0.0; cells.count()]; config.geometry.chips() as usize];
    for (row, &cell) in cells.of_row.iter().enumerate() {
        for (chip, ns) in busy.iter_mut().zip(&busy_ns[row]) {
            chip[cell] += *ns as f64;
        }
    }
    let dies = f64::from(config.geometry.dies_per_chip);
    for chip in &mut busy {
        for (cell, ns) in chip.iter_mut().enumerate() {
            *ns /= ((cells.edges[cell + 1] - cells.edges[cell]) * 1e9 * dies).max(1.0);
        }
    }
    Some((busy, config.geometry.chips_per_channel as usize))
}

fn utilisation(page: &mut Page, run: &Loaded, cells: &Cells) {
    let Some((shares, per_channel)) = busy(run, cells) else { return };
    let chips = shares.len();
    let mut csv = Csv::new(["chip", "channel", "from_s", "to_s", "busy"]);
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
    let what = if chips > 64 { "A row is a channel." } else { "A row is a chip." };
    let ends = [0, cells.count()].map(|n| time(cells.edges[n] * 1e9));
    page.card(
        "How busy the chips were",
        &format!("{what} The fuller the colour, the busier."),
        &strips("utilisation of chips over time", &rows, &beside, [&ends[0], &ends[1]]),
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
        &chart::bars("WAF by stream", &bars, Some(1.0)),
        &csv,
    );
}
