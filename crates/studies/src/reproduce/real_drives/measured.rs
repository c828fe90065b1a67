//! What was measured on real drives: the tables beside this file.

use std::sync::OnceLock;

/// A run: how a drive amplified what it was written with, and how fast it took it.
#[derive(Clone, Debug)]
pub struct Run {
    /// The preset of the drive.
    pub preset: &'static str,
    /// Name of the run, whose first part is the drive that was measured.
    pub id: &'static str,
    /// The same workload here, on a drive of full size.
    pub workload: &'static str,
    /// What `value` is.
    pub quantity: Quantity,
    /// Over the last 40% of the host's bytes.
    pub value: f64,
    /// Host MiB/s over the last 40%, and in the first minute.
    pub mib_s: Option<f64>,
    pub mib_s_first: Option<f64>,
    /// What of the preset was fitted to this run.
    pub fits: &'static str,
    /// Repository, commit and file.
    pub source: &'static str,
}

/// What a run measured of write amplification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The drive's own counter.
    Counter,
    /// Sequential throughput over that of the run, for want of a counter.
    Implied,
}

/// Latency of small requests at one load.
#[derive(Clone, Debug)]
pub struct Latency {
    pub preset: &'static str,
    pub id: &'static str,
    /// Requests offered a second; none: 512 in flight.
    pub offered: Option<f64>,
    /// Writes done a second.
    pub writes: f64,
    pub reads: bool,
    pub mean_us: f64,
    pub saturated: bool,
}

/// The lines of a table, without remarks and its head, cut into fields.
fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("preset;"));
    lines.map(|line| line.split(';').collect())
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

/// All runs.
pub fn runs() -> &'static [Run] {
    static RUNS: OnceLock<Vec<Run>> = OnceLock::new();
    RUNS.get_or_init(|| rows(include_str!("amplification.csv")).filter_map(|f| run(&f)).collect())
}

fn run(fields: &[&'static str]) -> Option<Run> {
    let &[preset, id, workload, quantity, value, mib_s, mib_s_first, fits, source] = fields else {
        return None;
    };
    let quantity = if quantity == "waf" { Quantity::Counter } else { Quantity::Implied };
    let (mib_s, mib_s_first) = (number(mib_s), number(mib_s_first));
    Some(Run { preset, id, workload, quantity, value: number(value)?, mib_s, mib_s_first, fits, source })
}

/// All latencies.
pub fn latencies() -> &'static [Latency] {
    static LATENCIES: OnceLock<Vec<Latency>> = OnceLock::new();
    LATENCIES.get_or_init(|| rows(include_str!("latency.csv")).filter_map(|f| latency(&f)).collect())
}

fn latency(fields: &[&'static str]) -> Option<Latency> {
    let &[preset, id, offered, writes, op, mean, _, saturated, _] = fields else { return None };
    Some(Latency {
        preset,
        id,
        offered: number(offered),
        writes: number(writes)?,
        reads: op == "read",
        mean_us: number(mean)?,
        saturated: saturated == "1",
    })
}

/// Amplification of each interval of a run: used ranges written at its end, and bytes programmed over
/// bytes written in it. Empty if the run has none.
pub fn curve(id: &str) -> Vec<(f64, f64)> {
    let row = rows(include_str!("curves.csv")).find(|f| f[0] == id);
    let point = |field: &&str| field.split_once(':').and_then(|(x, y)| Some((number(x)?, number(y)?)));
    row.iter().flat_map(|f| &f[1..]).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of the tables, remarks and heads aside.
    fn lines(text: &'static str) -> usize {
        rows(text).count()
    }

    #[test]
    fn every_row_is_read() {
        assert_eq!(runs().len(), lines(include_str!("amplification.csv")));
        assert_eq!(latencies().len(), lines(include_str!("latency.csv")));
        assert!(runs().iter().all(|r| r.value >= 1.0 && r.source.contains('@')), "{:?}", runs());
        assert!(curve("mp0/uniform/fill745").len() > 10);
        assert!(curve("nobody").is_empty());
    }
}
