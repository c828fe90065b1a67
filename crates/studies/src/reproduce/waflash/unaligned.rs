//! Section II-B and Fig 1: how many writes are unaligned, and what they do to tails.

use nandle_lab::Error;
use nandle_lab::workload::Asked;

use super::super::{Bench, Cell, Claim, Report, Rule, Table, preset, traces};
use super::trial::{Trial, asked, run, ssdsim};

/// Section II-B: unaligned writes of the traces.
pub(super) fn shares(
    bench: &Bench<'_>,
    label: &str,
    workloads: &[(String, String)],
    report: &mut Report,
) -> Result<(), Error> {
    let drive = preset("pclru-ssdsim", None, &[])?;
    let shares = bench.each(
        workloads,
        |(name, _)| format!("{name}: alignment"),
        |(_, path)| {
            let requests = traces::requests(&asked(bench, path, 300_000, 30_000), &drive)?;
            let writes = || requests.iter().filter(|r| r.op == nandle_io::Op::Write);
            let share = |page: u64| {
                let odd = writes().filter(|r| !(r.offset | r.bytes).is_multiple_of(page)).count();
                odd as f64 / writes().count().max(1) as f64
            };
            Ok([share(8192), share(16384)])
        },
    )?;
    let mean = |n: usize| shares.iter().map(|s| s[n]).sum::<f64>() / shares.len() as f64;
    let twins = label.contains("twins");
    let why = "other traces, and parts of traces";
    for (n, size, paper) in [(0, "8 KiB", 0.831), (1, "16 KiB", 0.972)] {
        let what = format!("unaligned writes, {size} pages");
        let claim =
            Claim::new("waflash-unaligned-8k", "II-B", what, label, paper, mean(n), Rule::Points(0.05));
        report.claims.push(claim.because(why).input());
        if let Some(at) = workloads.iter().position(|(name, _)| name.starts_with("msnfs")) {
            let paper = [0.335, 0.991][n];
            let what = format!("unaligned writes of MSNFS, {size} pages");
            let (name, ours) = (&workloads[at].0, shares[at][n]);
            let claim =
                Claim::new("waflash-unaligned-8k", "II-B", what, name, paper, ours, Rule::Points(0.05));
            report.claims.push(claim.because(why).input());
        }
    }
    if twins {
        report.notes.push("the twins are made to have the unaligned shares of section II-B".into());
    }
    let mut table = Table::new(format!("Unaligned writes, {label}"), &["workload", "8 KiB", "16 KiB"]);
    for ((name, _), [small, large]) in workloads.iter().zip(shares) {
        table.rows.push(vec![name.clone().into(), small.into(), large.into()]);
    }
    report.tables.push(table);
    Ok(())
}

/// Fig 1: what unaligned writes do to tails on a page-mapped drive, with a write buffer and without one, at the rate
/// of MSNFS's twin and at others.
pub(super) fn tails(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let shares = ["0", "25", "50", "75", "100"];
    let rates: [(&str, f64); 5] =
        [("500/s", 2.0), ("1,000/s", 1.0), ("2,000/s", 0.5), ("3,000/s", 1.0 / 3.0), ("4,000/s", 0.25)];
    let mut trials = Vec::new();
    for (buffer, with) in [(0, "no buffer"), (8 << 20, "8 MiB buffer")] {
        for (rate, scale) in rates {
            trials.extend(shares.map(|share| Trial {
                workload: format!("waflash-fig1:{share}"),
                setting: format!("{rate}, {with}"),
                device: "pclru-ssdsim",
                scheme: "lru+page",
                sets: ssdsim(bench, 8192, buffer),
                asked: Asked {
                    time_scale: Some(scale),
                    ..asked(bench, &format!("waflash-fig1:{share}"), 120_000, 20_000)
                },
                verify: false,
            }));
        }
    }
    let runs = run(bench, &trials)?;
    let percentiles = [("90.000000", "90%", 8.0), ("95.000000", "95%", 24.0)];
    let mut by_rate = Table::new(
        "Fig 1: write latency with half of the writes unaligned to none",
        &["setting", "90%", "95%", "channels busy, none", "channels busy, half"],
    );
    let mut paper: Vec<Cell> = vec!["the paper, at a rate that is not published".into()];
    paper.extend(percentiles.map(|(.., figure)| Cell::from(figure)));
    paper.extend([f64::NAN; 2].map(Cell::from));
    by_rate.rows.push(paper);
    for (trials, runs) in trials.chunks(shares.len()).zip(runs.chunks(shares.len())) {
        let setting = &trials[0].setting;
        let ratio = |p: &str| runs[2].write_percentile(p) / runs[0].write_percentile(p);
        let mut row: Vec<Cell> = vec![setting.clone().into()];
        row.extend(percentiles.map(|(p, ..)| Cell::from(ratio(p))));
        row.extend([runs[0].channels_busy, runs[2].channels_busy].map(Cell::from));
        by_rate.rows.push(row);
        // How long tails are depends on the rate, which is not published: only that they are longer is counted.
        if trials[0].asked.time_scale == Some(1.0) {
            for (percentile, shown, _) in percentiles {
                let what =
                    format!("write latency at {shown}, no write unaligned to half (below 1: tails grow)");
                let (id, ours) = ("waflash-fig1-tail", 1.0 / ratio(percentile));
                report.claims.push(Claim::new(id, "Fig 1b", what, setting, 1.0, ours, Rule::Below));
            }
        }
    }
    report.tables.push(by_rate);
    let mut table = Table::new(
        "Fig 1: latencies in ms by share of unaligned writes",
        &[
            "workload",
            "setting",
            "write 50%",
            "write 90%",
            "write 95%",
            "write 99%",
            "read 50%",
            "read 90%",
            "read 95%",
            "read 99%",
            "dies busy",
            "channels busy",
            "RMW reads",
        ],
    );
    for (t, m) in trials.iter().zip(&runs) {
        let mut row: Vec<Cell> = vec![t.workload.clone().into(), t.setting.clone().into()];
        let percentiles = ["50.000000", "90.000000", "95.000000", "99.000000"];
        row.extend(percentiles.map(|p| Cell::from(m.write_percentile(p) / 1e6)));
        row.extend(percentiles.map(|p| Cell::from(m.read_percentile(p) / 1e6)));
        row.extend([m.dies_busy, m.channels_busy, m.summary.flash.reads.rmw as f64].map(Cell::from));
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}
