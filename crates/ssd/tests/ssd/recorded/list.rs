//! Draws the list: first each setting by itself, then devices in which every two settings meet that may.

use std::collections::{BTreeMap, BTreeSet};

use nandle_random::Stream;

/// Pairs are met until there are this many lines.
const LINES: usize = 420;

/// One question that a device or its workload answers: the answers are settings, the first the default.
struct Factor {
    name: &'static str,
    answers: &'static [&'static str],
    /// Answers to other questions without which the others of these make no difference, or are refused.
    needs: &'static [(&'static str, &'static [usize])],
}

const fn factor(name: &'static str, answers: &'static [&'static str]) -> Factor {
    Factor { name, answers, needs: &[] }
}

impl Factor {
    const fn needs(mut self, needs: &'static [(&'static str, &'static [usize])]) -> Self {
        self.needs = needs;
        self
    }
}

/// The questions of which every two answers must meet: policies.
const SEAMS: usize = 7;

const VERSIONS: &[(&str, &[usize])] = &[("mapping", &[1, 4])];
const OBJECTS: &[(&str, &[usize])] = &[("streams", &[4]), ("workload", &[2, 3])];
const CALM: &[(&str, &[usize])] = &[("spare", &[2, 3])];

#[rustfmt::skip]
const FACTORS: &[Factor] = &[
    factor("buffer", &["", "scheme.buffer=lru buffer.bytes=6p", "scheme.buffer=fifo buffer.bytes=8p",
        "scheme.buffer=mca buffer.bytes=8p", "scheme.buffer=pc-lru buffer.bytes=12p"]),
    factor("mapping", &["", "scheme.mapping=multi-version", "scheme.mapping=across", "scheme.mapping=mrsm",
        "scheme.mapping=across+multi-version"]),
    factor("compaction", &["", "scheme.compaction=true"]).needs(&[("buffer", &[1, 2, 3, 4]), ("mapping", &[0, 1, 2, 4])]),
    factor("allocation", &["", "scheme.allocation=lsb-first", "scheme.allocation=size-based", "scheme.allocation=papa"])
        .needs(&[("cell", &[1, 2, 3, 4]), ("order", &[1]), ("striping", &[0, 1, 2])]),
    factor("streams", &["", "scheme.streams=multi-stream streams.count=2", "scheme.streams=fdp streams.count=3",
        "scheme.streams=fdp streams.count=2 streams.isolation=persistently", "scheme.streams=flashalloc",
        "scheme.streams=multi-stream streams.count=5"]),
    factor("victim", &["", "gc.victim=cost-benefit", "gc.victim=d-choices gc.d=3", "gc.victim=fifo"]),
    factor("striping", &["", "scheme.striping=PDWC", "scheme.striping=dynamic", "scheme.striping=block-by-block"]),
    factor("workload", &["workload.kind=mixed", "workload.kind=streams", "workload.kind=objects", "workload.kind=cuts",
        "workload.kind=bursts", "workload.kind=sequential"]),
    factor("unit", &["workload.unit=0", "workload.unit=8"]),
    factor("gap", &["workload.gap=150000", "workload.gap=20000", "workload.gap=1000000"]),
    factor("shape", &["", "geometry.channels=1 geometry.planes_per_die=1 geometry.blocks_per_plane=60",
        "geometry.channels=1 geometry.chips_per_channel=2 geometry.dies_per_chip=2 geometry.planes_per_die=1",
        "geometry.channels=4 geometry.planes_per_die=1", "geometry.dies_per_chip=2"]),
    factor("page", &["", "geometry.page_bytes=512 geometry.pages_per_block=30 geometry.blocks_per_plane=24",
        "geometry.page_bytes=2048 geometry.pages_per_block=16 geometry.blocks_per_plane=24",
        "geometry.page_bytes=6656", "geometry.page_bytes=16384",
        "geometry.page_bytes=32768 geometry.pages_per_block=8 geometry.blocks_per_plane=24",
        "geometry.page_bytes=4096 geometry.sector_bytes=4096",
        "geometry.page_bytes=16384 geometry.sector_bytes=4096",
        "geometry.page_bytes=32768 geometry.sector_bytes=4096"]),
    factor("cell", &["", "cell.kind=mlc timing.read_ns=[50000,100000] timing.program_ns=[500000,2000000]",
        "cell.kind=tlc timing.read_ns=[50000,100000,150000] timing.program_ns=[500000,2000000,5500000]",
        "cell.kind=qlc timing.read_ns=[50000,100000,150000,200000] timing.program_ns=[500000,2000000,5500000,8000000]",
        "cell.kind=tlc timing.read_ns=[60000] timing.program_ns=[700000]"]),
    factor("order", &["", "cell.program_order=relaxed"]).needs(&[("cell", &[1, 2, 3, 4])]),
    factor("spare", &["spare=0", "spare=0.1", "spare=0.3", "spare=0.8"]),
    factor("scheduler", &["", "timing.scheduler=read-first", "timing.scheduler=host-over-gc", "timing.scheduler=priority"]),
    factor("suspend", &["", "timing.suspend=erase timing.suspend_ns=5000", "timing.suspend=program-erase timing.suspend_ns=20000"]),
    factor("copyback", &["", "timing.copyback=true"]),
    factor("multi-plane", &["", "timing.multi_plane=true", "timing.multi_plane=true timing.multi_plane_same_offset=false"])
        .needs(&[("shape", &[0, 4])]),
    factor("bus", &["", "timing.partial_transfer=true", "timing.command_ns=300 timing.dram_ns=1000"]),
    factor("map cache", &["", "map_cache.bytes=2p", "map_cache.bytes=5p", "map_cache.bytes=100p"]),
    factor("entry", &["", "map_cache.entry_bytes=8", "map_cache.entry_bytes=16"]).needs(&[("map cache", &[1, 2])]),
    factor("wear", &["", "wear.static_gap=2", "wear.dynamic=false", "wear.dynamic=false wear.static_gap=4"]),
    factor("factory bad", &["", "wear.factory_bad=0.08"]),
    factor("endurance", &["", "cell.endurance=200", "cell.endurance=20"]).needs(CALM),
    factor("faults", &["", "faults.program_rate=0.0006", "faults.erase_rate=0.004", "faults.read_rate=0.002",
        "faults.program_rate=0.0004 faults.erase_rate=0.002 faults.read_rate=0.001",
        "faults.programs=[200,201,900] faults.erases=[20,60] faults.reads=[100,400]"]).needs(CALM),
    factor("plp", &["", "recovery.plp=true"]),
    factor("checkpoint", &["", "recovery.checkpoint_interval=128", "recovery.checkpoint_interval=16",
        "recovery.checkpoint_interval=3"]),
    factor("paired pages", &["", "cell.paired_pages=true"]).needs(&[("plp", &[1]), ("cell", &[1, 2, 3, 4]), ("workload", &[3])]),
    factor("copies", &["", "gc.copies_in_flight=1", "gc.copies_in_flight=16"]),
    factor("watermarks", &["", "gc.soft=0.2", "gc.soft=0.15 gc.hard=0.1"]),
    factor("types ahead", &["", "gc.types_ahead=false"]).needs(&[("allocation", &[2, 3])]),
    factor("queue", &["", "queue.depth=1", "queue.depth=32"]),
    factor("max versions", &["", "scheme.multi_version.max_versions=3", "scheme.multi_version.max_versions=8"]).needs(VERSIONS),
    factor("pointer", &["", "scheme.multi_version.pointer=direct"]).needs(VERSIONS),
    factor("version budget", &["", "scheme.multi_version.version_budget=1.0", "scheme.multi_version.version_budget=0.1"]).needs(VERSIONS),
    factor("table share", &["", "scheme.multi_version.table_share=0.02"]).needs(VERSIONS),
    factor("idle merge", &["", "scheme.multi_version.idle_merge_after_ns=1000000",
        "scheme.multi_version.idle_merge_after_ns=0"]).needs(VERSIONS),
    factor("gc merge", &["", "scheme.multi_version.gc_merge=0", "scheme.multi_version.gc_merge=6"])
        .needs(&[("mapping", &[1, 4]), ("compaction", &[1]), ("buffer", &[1, 2, 3, 4])]),
    factor("shrink", &["", "scheme.across.shrink=true"]).needs(&[("mapping", &[2, 4])]),
    factor("pieces", &["", "scheme.mrsm.pieces=5", "scheme.mrsm.region_pages=7 scheme.mrsm.switch_after=6"])
        .needs(&[("mapping", &[3])]),
    factor("insert", &["", "scheme.pc_lru.insert=head", "scheme.pc_lru.insert=at(3)"]).needs(&[("buffer", &[4])]),
    factor("passes", &["", "scheme.pc_lru.passes=0", "scheme.pc_lru.passes=3"]).needs(&[("buffer", &[4])]),
    factor("when", &["", "scheme.pc_lru.when=always", "scheme.pc_lru.search_window=3"]).needs(&[("buffer", &[4])]),
    factor("packing", &["", "scheme.compacted.region_pages=100", "scheme.compacted.region_pages=9 scheme.compacted.header=in-page",
        "scheme.compacted.header=oob"]).needs(&[("compaction", &[1]), ("buffer", &[1, 2, 3, 4]), ("mapping", &[0, 1, 2, 4])]),
    factor("on demand", &["", "streams.on_demand=true"]).needs(OBJECTS),
    factor("collect ended", &["", "streams.collect_ended=true"]).needs(OBJECTS),
    factor("share tiny", &["", "streams.share_tiny=true"]).needs(OBJECTS),
    factor("auto", &["", "streams.auto_align=65536", "streams.auto_run=32768",
        "streams.auto_run=16384 streams.auto_live=2"]).needs(&[("streams", &[4]), ("workload", &[2, 5])]),
    factor("ranges", &["", "streams.max_ranges=2"]).needs(OBJECTS),
    factor("reclaim unit", &["", "streams.reclaim_unit_bytes=1"]).needs(&[("streams", &[2, 3]), ("workload", &[1])]),
    factor("precondition", &["", "precondition.used=0.4 precondition.valid=0.2", "precondition.used=0.3 precondition.valid=0.3"]),
];

/// An answer to each question.
type Choice = Vec<usize>;

fn place(name: &str) -> usize {
    FACTORS.iter().position(|factor| factor.name == name).unwrap_or_else(|| panic!("no question {name}"))
}

/// Changes answers that are not `fixed` so that those of `factor` make a difference.
fn meet_needs(choice: &mut Choice, factor: usize, fixed: &[usize], draw: &mut Stream) {
    for &(name, answers) in FACTORS[factor].needs {
        let needed = place(name);
        if !fixed.contains(&needed) && !answers.contains(&choice[needed]) {
            choice[needed] = answers[draw.below(answers.len() as u64) as usize];
            meet_needs(choice, needed, fixed, draw);
        }
    }
}

/// "3p" is three pages; everything else stays.
fn in_bytes(value: &str, page: u64) -> String {
    let pages = value.strip_suffix('p').and_then(|pages| pages.parse::<u64>().ok());
    pages.map_or_else(|| value.into(), |pages| (pages * page).to_string())
}

/// The settings of a choice, if there is such a device; and its workload.
fn settle(choice: &Choice, number: u64) -> Option<(String, String)> {
    let mut all = BTreeMap::new();
    for (factor, &answer) in FACTORS.iter().zip(choice) {
        let settings =
            factor.answers[answer].split_whitespace().filter_map(|setting| setting.split_once('='));
        all.extend(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    let workload =
        ["kind", "unit", "gap"].map(|key| all.remove(&format!("workload.{key}")).expect("answered"));
    let requests = 3_000 + number * 617 % 3_001;
    let workload =
        format!("{} requests={requests} seed={number} unit={} gap={}", workload[0], workload[1], workload[2]);
    let page: u64 = all.get("geometry.page_bytes").map_or(4096, |bytes| bytes.parse().expect("a number"));
    all.values_mut().for_each(|value| *value = in_bytes(value, page));
    let spare: f64 = all.remove("spare").expect("answered").parse().expect("a number");
    let mut blocks: u32 = all.get("geometry.blocks_per_plane").map_or(20, |n| n.parse().expect("a number"));
    let mut ratio = 0.3;
    for _ in 0..12 {
        all.insert("op_ratio".into(), format!("{ratio:.4}"));
        let words: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let settings = words.join(" ");
        let Err(error) = super::device(&settings).validate() else {
            // As tight as it may be, and then so much more.
            all.insert("op_ratio".into(), format!("{:.4}", ratio + spare));
            let words: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
            return super::device(&words.join(" ")).validate().is_ok().then(|| (words.join(" "), workload));
        };
        if error.field != "op_ratio" {
            return None;
        }
        let least = error.expected.strip_prefix("at least ").and_then(|rest| rest.split(':').next());
        match least.and_then(|least| least.parse().ok()) {
            Some(least) if least < 2.0 => ratio = least,
            _ => {
                blocks += 6;
                ratio = 0.3;
                all.insert("geometry.blocks_per_plane".into(), blocks.to_string());
            }
        }
    }
    None
}

type Pair = (usize, usize, usize, usize);

fn pairs(choice: &Choice, factors: usize) -> impl Iterator<Item = Pair> + '_ {
    (0..factors).flat_map(move |a| (a + 1..factors).map(move |b| (a, choice[a], b, choice[b])))
}

fn all_pairs(factors: usize) -> BTreeSet<Pair> {
    let answers = |factor: usize| 0..FACTORS[factor].answers.len();
    (0..factors)
        .flat_map(|a| (a + 1..factors).map(move |b| (a, b)))
        .flat_map(|(a, b)| answers(a).flat_map(move |x| answers(b).map(move |y| (a, x, b, y))))
        .collect()
}

/// A choice with the pair's answers, in which as many as possible of `missing` meet; none if the two are
/// refused together.
fn with_pair((a, x, b, y): Pair, missing: &BTreeSet<Pair>, draw: &mut Stream) -> Option<Choice> {
    let mut best: Option<(usize, Choice)> = None;
    let mut candidates = 0;
    for _ in 0..150 {
        let mut choice: Choice = FACTORS
            .iter()
            .enumerate()
            .map(|(n, factor)| {
                // Settings are often the default; policies and workload are any.
                let default = n > SEAMS && draw.chance(0.4);
                if default { 0 } else { draw.below(factor.answers.len() as u64) as usize }
            })
            .collect();
        (choice[a], choice[b]) = (x, y);
        let mut fixed = vec![a, b];
        for factor in [a, b] {
            if choice[factor] > 0 {
                meet_needs(&mut choice, factor, &fixed, draw);
                fixed.extend(FACTORS[factor].needs.iter().map(|(name, _)| place(name)));
            }
        }
        for factor in 0..FACTORS.len() {
            if choice[factor] > 0 && draw.chance(0.8) {
                meet_needs(&mut choice, factor, &fixed, draw);
            }
        }
        // What would make no difference is left at its default.
        for factor in (0..FACTORS.len()).filter(|factor| ![a, b].contains(factor)) {
            let idle = |&(name, answers): &(&str, &[usize])| !answers.contains(&choice[place(name)]);
            if FACTORS[factor].needs.iter().any(idle) {
                choice[factor] = 0;
            }
        }
        if settle(&choice, 0).is_some() {
            let gain = pairs(&choice, FACTORS.len()).filter(|pair| missing.contains(pair)).count();
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, choice));
            }
            candidates += 1;
            if candidates == 12 {
                break;
            }
        }
    }
    best.map(|(_, choice)| choice)
}

/// The whole list.
pub fn draw() -> String {
    let mut draw = Stream::new(1, "list");
    let mut text = String::new();
    let mut number = 0;
    let mut add = |name: String, choice: &Choice| {
        number += 1;
        let Some((settings, workload)) = settle(choice, number) else { return false };
        text += &format!("{number:03} {name} | {settings} | {workload}\n");
        true
    };
    for (n, factor) in FACTORS.iter().enumerate() {
        for answer in 1..factor.answers.len() {
            let mut choice = vec![0; FACTORS.len()];
            choice[n] = answer;
            choice[place("unit")] = answer % 2;
            meet_needs(&mut choice, n, &[n], &mut draw);
            assert!(add(format!("{} {answer}", factor.name), &choice), "{} {answer} is refused", factor.name);
        }
    }
    let (mut refused, mut missing) = (BTreeSet::new(), all_pairs(FACTORS.len()));
    for lines in FACTORS.iter().map(|factor| factor.answers.len() - 1).sum::<usize>().. {
        let choice = loop {
            if missing.is_empty() {
                missing = all_pairs(FACTORS.len()).difference(&refused).copied().collect();
            }
            // Policies first.
            let policies = missing.iter().find(|pair| pair.2 < SEAMS);
            let any = draw.below(missing.len() as u64) as usize;
            let pair = *policies.or(missing.iter().nth(any)).expect("some are missing");
            match with_pair(pair, &missing, &mut draw) {
                Some(choice) => break choice,
                None => {
                    missing.remove(&pair);
                    refused.insert(pair);
                }
            }
        };
        pairs(&choice, FACTORS.len()).for_each(|pair| _ = missing.remove(&pair));
        assert!(add(policies(&choice), &choice), "it was legal before");
        if lines >= LINES && missing.iter().all(|pair| pair.2 >= SEAMS) {
            break;
        }
    }
    text
}

/// The policies and the workload of a choice, those that are not the default.
fn policies(choice: &Choice) -> String {
    let words = FACTORS[..=SEAMS].iter().zip(choice).filter_map(|(factor, &answer)| {
        let setting = factor.answers[answer].split_whitespace().next()?;
        Some(if factor.name == "compaction" { factor.name } else { setting.split_once('=')?.1 })
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The pairs of policies that none of the lines' `settings` has: each is refused by the drive.
pub fn policies_apart<'a>(settings: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let words = |factor: usize, answer: usize| FACTORS[factor].answers[answer].split_whitespace();
    let mut apart = all_pairs(SEAMS);
    for settings in settings {
        let line: BTreeSet<&str> = settings.split_whitespace().collect();
        // The answer that says most: the default says nothing, and all lines have it.
        let of = |factor: usize| {
            let answers = (0..FACTORS[factor].answers.len()).filter(|&answer| {
                words(factor, answer).all(|word| word.starts_with("buffer.bytes") || line.contains(word))
            });
            answers.max_by_key(|&answer| words(factor, answer).count()).expect("the default")
        };
        let choice: Choice = (0..SEAMS).map(of).collect();
        pairs(&choice, SEAMS).for_each(|pair| _ = apart.remove(&pair));
    }
    let settings = |word: &str| match word.split_once('=') {
        Some((key, value)) => format!("{key}={} ", in_bytes(value, 4096)),
        None => String::new(),
    };
    apart.iter().map(|&(a, x, b, y)| words(a, x).chain(words(b, y)).map(settings).collect()).collect()
}
