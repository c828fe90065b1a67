//! What the paper does not say, three values each, on four dies: how much of the flash is spare, how many requests the
//! board takes at a time, and how fast InnoDB writes. No row of a claim.

use nandle_lab::Error;
use nandle_ssd::DeviceConfig;

use super::super::{Bench, Cell, Table};
use super::board::{BY_TIME, FLASHALLOC, Firmware, drive};
use super::host::{Callers, Host};
use super::outcome::{Outcome, run};
use super::written::{DB_BENCH, TPC_C};

/// Dies of the board for each that a run has.
const SCALE: u32 = 16;
/// Bytes a second of 3,600 pages, the most that the authors' host was seen to write, on so many dies.
const CLEANER: f64 = 3600.0 * 16384.0 / SCALE as f64;

const WORKLOADS: [&str; 5] = ["fio-2m-8", "rocksdb-x4", "f2fs", MYSQL, "rocksdb+mysql"];
const MYSQL: &str = "mysql";

struct Setting {
    name: &'static str,
    change: fn(&mut DeviceConfig),
    cleaner: Option<f64>,
}

/// The counted one, and two others of each.
const SETTINGS: [Setting; 7] = [
    Setting { name: "as counted", change: |_| {}, cleaner: None },
    Setting { name: "over-provisioning 9%", change: |c| c.op_ratio = 0.09, cleaner: None },
    Setting { name: "over-provisioning 20%", change: |c| c.op_ratio = 0.2, cleaner: None },
    Setting { name: "half the queue", change: |c| c.queue.depth /= 2, cleaner: None },
    Setting { name: "twice the queue", change: |c| c.queue.depth *= 2, cleaner: None },
    Setting { name: "InnoDB writes 3,600 pages a second", change: |_| {}, cleaner: Some(CLEANER) },
    Setting { name: "InnoDB writes 1,800 pages a second", change: |_| {}, cleaner: Some(CLEANER / 2.0) },
];

pub(super) fn table(bench: &Bench<'_>) -> Result<Table, Error> {
    let settings = SETTINGS.iter().flat_map(|setting| {
        let own = WORKLOADS.into_iter().filter(|w| setting.cleaner.is_none() || w.contains(MYSQL));
        own.map(move |workload| (setting, workload))
    });
    let jobs: Vec<_> = settings
        .flat_map(|(setting, workload)| [BY_TIME, FLASHALLOC].map(|policy| (setting, workload, policy)))
        .collect();
    let outcomes = bench.each(
        &jobs,
        |(setting, workload, policy)| format!("{workload} {policy}, {}", setting.name),
        |&(setting, workload, policy)| {
            let firmware = Firmware::of(workload);
            let mut config = drive(SCALE, policy, firmware)?;
            (setting.change)(&mut config);
            let host =
                Host { trims: firmware.trims(policy), cleaner: setting.cleaner, ..Host::with(Callers::All) };
            run(workload, &config, bench.options.seed, host, bench.stop)
        },
    )?;
    let columns = [
        "setting",
        "workload",
        "WAF, vanilla",
        "WAF, FlashAlloc",
        "WAF end, vanilla",
        "WAF end, FlashAlloc",
        "MB/s ratio",
        "OPS ratio",
        "TPS ratio",
    ];
    let mut table = Table::new("What is not published: four dies, FlashAlloc to vanilla", &columns);
    for (job, pair) in jobs.chunks(2).zip(outcomes.chunks(2)) {
        let (vanilla, ours) = (&pair[0], &pair[1]);
        let ratio =
            |f: &dyn Fn(&Outcome) -> f64| Cell::Number(Some(f(ours) / f(vanilla)).filter(|r| r.is_finite()));
        let mut row: Vec<Cell> = vec![job[0].0.name.into(), job[0].1.into()];
        row.extend([vanilla.waf(), ours.waf()].map(Cell::from));
        row.extend([vanilla.waf_of_last(0.1), ours.waf_of_last(0.1)].map(Cell::from));
        row.push(ratio(&Outcome::throughput));
        row.extend([DB_BENCH, TPC_C].map(|tenant| ratio(&|o| o.done(tenant))));
        table.rows.push(row);
    }
    Ok(table)
}
