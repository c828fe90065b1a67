//! Goal: a policy of each kind is one file and one line in the user's own crate, changes what it is there
//! for and harms nothing; docs/extending.md shows code of these files and no other.
//! Method: the files of examples/extending against the oracle, with and without power cuts, on drives of
//! every kind; their figures against the drive's own; the page's code against the files.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::flash::Flash;
use nandle_ssd::schemes::{Interests, Scheme};
use nandle_ssd::space::PageClass;
use nandle_ssd::{DeviceConfig, Ssd};

use crate::devices;
use crate::torture;

#[path = "../../examples/extending/buffer.rs"]
mod buffer;
#[path = "../../examples/extending/mapping.rs"]
mod mapping;
#[path = "../../examples/extending/page_type.rs"]
mod page_type;
#[path = "../../examples/extending/stream.rs"]
mod stream;
#[path = "../../examples/extending/trials.rs"]
mod trials;
#[path = "../../examples/extending/victim.rs"]
mod victim;

fn policies() -> [(&'static str, Box<dyn Scheme>); 5] {
    [
        ("buffer", Box::new(buffer::Fullest)),
        ("victim", Box::new(victim::LeastWorn)),
        ("page_type", Box::new(page_type::Prompt)),
        ("stream", Box::new(stream::HotAndCold)),
        ("mapping", Box::new(mapping::Halves)),
    ]
}

/// Random traffic against the oracle, with two power cuts; the digest.
fn trouble(config: &DeviceConfig, policies: &[Box<dyn Scheme>]) -> u64 {
    let mut ssd = Ssd::new(config, UNIT, 7).expect("a valid device");
    policies.iter().for_each(|policy| ssd.add(policy.boxed()));
    let sectors = ssd.layout().logical_sectors;
    let (mut oracle, mut draw) = (Oracle::of(&ssd), Stream::new(7, "extending"));
    for round in 0..3 {
        torture::torture(&mut ssd, &mut oracle, &mut draw, 3_000, round * 1_000_000);
        if round < 2 {
            ssd = ssd.power_cycle(7).expect("a valid device");
            let (contents, gone) = ssd.contents(0, sectors);
            oracle.power_cut(&contents, &gone);
        }
    }
    assert_eq!(oracle.verdict(), Ok(()), "{policies:?}");
    assert!(oracle.checked() > 1_000, "{} sectors checked", oracle.checked());
    ssd.digest()
}

#[test]
fn each_policy_harms_nothing_on_any_drive() {
    let mut changed = [0; 5];
    for (name, mut config) in devices::small_devices() {
        // The stream policy needs two streams to choose from.
        if config.scheme.streams == "by-time" && config.geometry.blocks_per_plane >= 24 && config.slc.is_off()
        {
            config.scheme.streams = "multi-stream".into();
            config.streams.count = 2;
            config.op_ratio = config.op_ratio.max(1.6);
        }
        let own = trouble(&config, &[]);
        for ((kind, policy), changed) in policies().into_iter().zip(&mut changed) {
            let digest = trouble(&config, &[policy]);
            *changed += u32::from(digest != own);
            let no_choice = match kind {
                "buffer" => config.buffer.bytes == 0,
                "page_type" => config.scheme.allocation == "strict",
                "stream" => config.scheme.has("by-time") || config.scheme.has("flashalloc"),
                "mapping" => !config.scheme.has("multi-version"),
                _ => false,
            };
            assert!(!no_choice || digest == own, "{kind} on {name}: changed what it has no say in");
        }
        trouble(&config, &policies().map(|(_, policy)| policy));
    }
    assert!(changed.iter().all(|&drives| drives > 2), "drives that did something else: {changed:?}");
}

/// Answers everything with what cannot be.
#[derive(Clone, Copy, Debug)]
struct Nonsense;

impl Scheme for Nonsense {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }
    fn interests(&self) -> Interests {
        Interests::STREAM.and(Interests::REWRITES)
    }
    fn page_types(&self, _: PageClass, types: usize) -> Vec<usize> {
        vec![types + 7, 0, 0, usize::MAX]
    }
    fn stream(&self, _: &Flash, lsn: u64, _: u64, _: u16) -> Option<u16> {
        Some(lsn as u16 | 0xff00)
    }
    fn rewrites(&self, _: &Flash, lpn: u32, mask: u64, stored: u64) -> Option<u64> {
        Some(if lpn.is_multiple_of(2) { u64::MAX } else { mask & !stored })
    }
}

#[test]
fn nonsense_harms_nothing() {
    for (_, config) in devices::small_devices() {
        trouble(&config, &[Box::new(Nonsense)]);
    }
}

#[test]
fn each_policy_does_what_it_is_there_for() {
    let page = page();
    let (mut useless, mut others) = (vec![], vec![]);
    for trial in trials::all() {
        let figure = trial.figure.1;
        let run = |with| trial.run(with).expect("a drive of its kind");
        let (own, new) = (run(false), run(true));
        for summary in [&own, &new] {
            assert_eq!(summary.integrity.mismatches, 0, "{}", trial.name);
        }
        let line = trial.line(&own, &new);
        println!("{line}");
        others.extend((!page.contains(&line)).then_some(line));
        if figure(&new) > 0.97 * figure(&own) {
            useless.push(trial.name);
        }
        assert!(new.scheme.ends_with(trial.name), "the report says {}", new.scheme);
    }
    assert!(useless.is_empty(), "{useless:?} change nothing");
    assert!(others.is_empty(), "docs/extending.md has other figures than\n{}", others.join("\n"));
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/extending.md")).expect("the page")
}

#[test]
fn the_page_shows_the_files() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = page();
    let blocks: Vec<&str> =
        page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let mut true_to_a_file = vec![false; blocks.len()];
    for (kind, _) in policies() {
        let file = format!("examples/extending/{kind}.rs");
        let text = std::fs::read_to_string(root.join(&file)).expect("the file");
        let shows: Vec<bool> = blocks.iter().map(|block| text.contains(block.trim())).collect();
        let shown = shows.contains(&true);
        assert!(page.contains(&file) && shown, "docs/extending.md shows nothing of {file} as it is");
        true_to_a_file.iter_mut().zip(shows).for_each(|(known, shows)| *known |= shows);
    }
    for (block, known) in blocks.iter().zip(true_to_a_file) {
        assert!(known, "docs/extending.md shows code that is in no file:\n{block}");
    }
    let line = page.split("`").find(|part| part.contains("ssd.add(")).expect("the one line");
    assert!(line.contains("Box::new"), "{line}");
}
