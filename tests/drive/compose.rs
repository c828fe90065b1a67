//! Goal: every subset of the schemes is one device, and none of them returns anything but the last
//! write or loses what was durable at a power cut.
//! Method: all combinations of the catalogs, on one geometry. A selection in which every two policies
//! of different seams meet is run by default; `NANDLE_NIGHTLY=1` runs all of them, for longer;
//! `NANDLE_COMPOSE="across, strict"` those whose name, as a failure says it, has that in it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use nandle_ssd::DeviceConfig;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::nand::{CellKind, ProgramOrder};
use nandle_ssd::schemes::Seam;
use nandle_ssd::schemes::mrsm::MrsmConfig;

use crate::devices;
use crate::torture;
use devices::{mappings, policies};
use torture::{cut_power, run};

/// Bytes of a mapping unit: a page, half of one, two planes' pages.
const UNITS: [u32; 3] = [0, 2048, 8192];

/// One policy of each seam, by its place in the catalog, no buffer being one policy more; and the mapping unit.
type Choice = [usize; 7];

/// How many policies each seam has.
fn seams() -> [usize; 7] {
    [
        policies(Seam::Buffer).len() + 1,
        mappings().len(),
        2,
        policies(Seam::Allocation).len(),
        policies(Seam::Streams).len(),
        VictimKind::ALL.len(),
        UNITS.len(),
    ]
}

fn device(
    [buffer, mapping, compaction, allocation, streams, victim, unit]: Choice,
) -> (String, DeviceConfig) {
    let mut c = devices::base();
    c.geometry.blocks_per_plane = 30;
    c.cell.kind = CellKind::Tlc;
    c.cell.program_order = ProgramOrder::Relaxed;
    c.timing.read_ns = vec![50_000, 100_000, 150_000];
    c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
    c.op_ratio = 1.2;
    c.streams.count = 2;
    c.scheme.mrsm = MrsmConfig { pieces: 2, region_pages: 32, switch_after: 2 };
    c.scheme.multi_version.table_share = 1.0;
    if let Some(&name) = policies(Seam::Buffer).get(buffer) {
        c.scheme.buffer = name.into();
        c.buffer.bytes = 32 << 10;
    }
    c.scheme.mapping = mappings().swap_remove(mapping);
    c.scheme.compaction = compaction == 1;
    c.scheme.allocation = policies(Seam::Allocation)[allocation].into();
    c.scheme.streams = policies(Seam::Streams)[streams].into();
    c.gc.victim = VictimKind::ALL[victim].0;
    c.mapping.unit_bytes = UNITS[unit];
    let buffer = if c.buffer.bytes > 0 { &c.scheme.buffer } else { "no buffer" };
    let s = &c.scheme;
    let (mapping, allocation) = (&s.mapping, &s.allocation);
    let packed = if s.compaction { "+compaction" } else { "" };
    let (streams, victim) = (&s.streams, c.gc.victim.name());
    let unit = ["", ", half units", ", units of two planes"][unit];
    (format!("{buffer}, {mapping}{packed}, {allocation}, {streams}, {victim}{unit}"), c)
}

fn all() -> Vec<Choice> {
    let mut all: Vec<Choice> = vec![[0; 7]];
    for (seam, &policies) in seams().iter().enumerate() {
        all = all
            .into_iter()
            .flat_map(|choice| {
                (0..policies).map(move |policy| {
                    let mut choice = choice;
                    choice[seam] = policy;
                    choice
                })
            })
            .collect();
    }
    all
}

fn legal() -> Vec<Choice> {
    all().into_iter().filter(|&choice| device(choice).1.validate().is_ok()).collect()
}

/// The pairs of policies that meet in a choice.
fn pairs(choice: &Choice) -> impl Iterator<Item = (usize, usize, usize, usize)> + '_ {
    (0..7).flat_map(move |a| (a + 1..7).map(move |b| (a, choice[a], b, choice[b])))
}

/// Few of `choices`, in which every pair meets that meets in any of them.
fn pairwise(choices: &[Choice]) -> Vec<Choice> {
    let mut missing: BTreeSet<_> = choices.iter().flat_map(pairs).collect();
    let mut chosen = vec![];
    while !missing.is_empty() {
        let gain = |choice: &&Choice| pairs(choice).filter(|pair| missing.contains(pair)).count();
        let best = *choices.iter().max_by_key(gain).expect("there are choices");
        pairs(&best).for_each(|pair| _ = missing.remove(&pair));
        chosen.push(best);
    }
    chosen
}

#[test]
fn what_is_refused_is_said_and_little() {
    for choice in all() {
        let (name, config) = device(choice);
        let scheme = &config.scheme;
        let with_another = scheme.has("across") || scheme.has("multi-version") || scheme.compaction;
        match config.validate() {
            Ok(_) => assert!(!(scheme.has("mrsm") && with_another), "{name}"),
            Err(e) if e.field == "mapping.unit_bytes" => {
                let chooses = ["papa", "size-based", "lsb-first"].contains(&scheme.allocation.as_str());
                assert!(chooses && name.ends_with("half units"), "{name}: {e}");
            }
            Err(e) => {
                assert!(scheme.has("mrsm") && with_another, "{name}: {e}");
                let tables = scheme.has("across") && e.expected.contains("a mapping table of its own");
                assert!(tables || e.expected.contains("packs parts of pages"), "{name}: {e}");
            }
        }
    }
}

#[test]
fn every_combination_keeps_its_word() {
    let nightly = std::env::var_os("NANDLE_NIGHTLY").is_some();
    let mut legal = legal();
    let asked = std::env::var("NANDLE_COMPOSE").ok();
    if let Some(asked) = &asked {
        legal.retain(|&choice| device(choice).0.contains(asked));
    }
    let (chosen, requests, cuts) =
        if nightly { (legal, 200_000, 100) } else { (pairwise(&legal), 30_000, 20) };
    println!("{} combinations", chosen.len());
    assert!(asked.is_some() || chosen.len() >= 25, "only {} combinations", chosen.len());
    let (queue, failed) = (Mutex::new(chosen.into_iter()), Mutex::new(vec![]));
    let work = || {
        while let Some(choice) = { queue.lock().expect("no panic holds it").next() } {
            let (name, config) = device(choice);
            let kept = std::panic::catch_unwind(|| {
                let (ssd, oracle) = run(&config, 1, requests);
                assert_eq!(oracle.verdict(), Ok(()), "{name}");
                assert!(oracle.checked() > requests / 4, "{name}: {} sectors were checked", oracle.checked());
                assert!(ssd.stats().gc_invocations > 20, "{name}: hardly any garbage collection");
                cut_power(&name, &config, 3, cuts);
            });
            if kept.is_err() {
                failed.lock().expect("no panic holds it").push(name);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().expect("no panic holds it");
    assert!(failed.is_empty(), "{} of them fail:\n{}", failed.len(), failed.join("\n"));
}

/// Found by all combinations at night: pieces (then sub-pages of equal size) that a power cut had left at home were packed elsewhere by collection,
/// in a region by page; objects and versions together kept more pages than the drive has beyond its data.
#[test]
fn what_many_power_cuts_found() {
    for wanted in [
        "lru, mrsm, size-based, by-time, d-choices, units of two planes",
        "lru, across+multi-version, size-based, flashalloc, greedy, units of two planes",
    ] {
        let found = legal().into_iter().map(device).find(|(name, _)| name == wanted);
        let (name, config) = found.expect("it is one of all");
        cut_power(&name, &config, 3, 100);
    }
}
