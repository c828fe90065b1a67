use std::io::Write as _;

use super::*;

const SMALL: &str = r#"
name = "small"
op_ratio = 0.6

[geometry]
channels = 2
chips_per_channel = 1
dies_per_chip = 1
planes_per_die = 2
blocks_per_plane = 20
pages_per_block = 12
page_bytes = 4096
sector_bytes = 512

[timing]
read_ns = [40000]
program_ns = [200000]
erase_ns = 1500000
transfer_ns_per_page = 12000
"#;

fn load(text: &str, scheme: Option<&str>, sets: &[&str]) -> Result<Drive, String> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let device = file.path().display().to_string();
    let drive = Wanted { device: &device, scheme, sets: &sets }.load();
    drive.map_err(|e| e.to_string().replace(&device, "FILE"))
}

#[test]
fn every_preset_stands_and_says_what_it_is() {
    for preset in PRESETS {
        let drive = preset.load().unwrap_or_else(|e| panic!("{}: {e}", preset.name));
        assert_eq!(drive.config.name, preset.name);
        assert!(drive.config.description.len() > 10, "{}", preset.name);
    }
}

#[test]
fn the_largest_drives_start_at_once() {
    for name in ["modern-tlc-16tb", "modern-qlc-16tb"] {
        let drive = Wanted { device: name, ..Wanted::default() }.load().expect("a preset");
        let before = crate::resources::thread_cpu();
        let ssd = nandle_ssd::Ssd::new(&drive.config, 0, 1).expect("it starts");
        let took = crate::resources::thread_cpu() - before;
        assert!(ssd.layout().logical_bytes > 15_000_000_000_000);
        // Well below a second on a quiet machine.
        assert!(took.as_secs_f64() < 3.0, "{name} took {took:?}");
    }
}

#[test]
fn a_resolved_file_gives_the_same_device() {
    for preset in PRESETS {
        let drive = preset.load().expect("a preset");
        let again = load(&resolved(&drive), None, &[]).expect("the echo of a preset");
        assert_eq!(again.config, drive.config, "{}", preset.name);
    }
}

#[test]
fn complaints_name_place_field_value_and_range() {
    let with = |from: &str, to: &str| SMALL.replace(from, to);
    let cases: &[(String, &[&str], &[&str])] = &[
        (
            with("channels = 2", "chanels = 2"),
            &[],
            &["FILE:6: unknown field `chanels`", "did you mean \"channels\""],
        ),
        (
            with("channels = 2", "channels = \"two\""),
            &[],
            &["FILE:6: geometry.channels = \"two\"", "whole number"],
        ),
        (with("channels = 2", "channels = -2"), &[], &["FILE:6: geometry.channels = -2", "0 to 4294967295"]),
        (with("channels = 2", "channels = 0"), &[], &["FILE:6: geometry.channels = 0: expected 1 to 256"]),
        (with("op_ratio = 0.6", "op_ratio = 0.01"), &[], &["FILE:3: op_ratio = 0.01: expected at least 0."]),
        (with("op_ratio = 0.6", ""), &[], &["FILE:", "missing field `op_ratio`"]),
        (with("[timing]", "[timing"), &[], &["FILE:15"]),
        (SMALL.into(), &["gc.sft=0.1"], &["--set gc.sft=0.1: unknown field `sft`, did you mean \"soft\"?"]),
        (SMALL.into(), &["gc.victim=gredy"], &["--set gc.victim=gredy", "did you mean \"greedy\"?"]),
        (SMALL.into(), &["gc.soft=7"], &["--set gc.soft=7: expected 0 to 0.9"]),
        (SMALL.into(), &["gc.victim=5"], &["--set gc.victim=5: expected a name"]),
        (SMALL.into(), &["fifo.evict=all"], &["unknown field `fifo`", "buffer.fifo_merge, fifo_evict"]),
        (SMALL.into(), &["gc.soft"], &["expected FIELD=VALUE"]),
        (SMALL.into(), &["op_ratio.x=1"], &["op_ratio is a single value"]),
        (SMALL.into(), &["geometry.channels=x"], &["--set geometry.channels=x", "whole number"]),
    ];
    for (text, sets, parts) in cases {
        let message = load(text, None, sets).map(|d| d.config).expect_err("a complaint");
        for part in *parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn overrides_take_toml_values_bare_words_and_sizes() {
    let sets =
        ["buffer.bytes=64KiB", "scheme.striping=dynamic", "timing.bus_mb_s=333", "gc.soft=0.1", "name=x y"];
    let config = load(SMALL, Some("fifo"), &sets).expect("a device").config;
    assert_eq!(config.buffer.bytes, 64 << 10);
    assert_eq!(config.scheme.striping, "dynamic");
    assert_eq!((config.timing.bus_mb_s, config.timing.transfer_ns_per_page), (Some(333.0), None));
    assert_eq!(config.gc.soft, 0.1);
    assert_eq!(config.name, "x y");
    assert_eq!(config.scheme.buffer, "fifo");
    // Texts are texts, whatever they look like.
    let sets = ["name=16k", "description=\"4k\"", "precondition.age_with=7"];
    let config = load(SMALL, None, &sets).expect("a device").config;
    assert_eq!((config.name.as_str(), config.description.as_str()), ("16k", "4k"));
    assert_eq!(config.precondition.age_with.as_deref(), Some("7"));
    // What leaves is the oldest requests: both words.
    let evict = |value: &str| load(SMALL, None, &[&format!("buffer.fifo_evict={value}")]).map(|d| d.config);
    assert_eq!(evict("request").expect("a device"), evict("room").expect("a device"));
    assert!(evict("request").expect("a device") != evict("all").expect("a device"));
    let text = SMALL.replace("op_ratio = 0.6", "");
    assert_eq!(load(&text, None, &["op_ratio=0.7"]).expect("completed").config.op_ratio, 0.7);
}

#[test]
fn a_buffer_has_room_for_a_mapping_unit_or_for_nothing() {
    let with = |bytes: u32, unit: u32, scheme: &str| {
        let sets = [format!("buffer.bytes={bytes}"), format!("mapping.unit_bytes={unit}")];
        load(SMALL, Some(scheme), &sets.each_ref().map(String::as_str)).map(drop)
    };
    let page = load(SMALL, None, &[]).expect("a device").config.geometry.page_bytes;
    for unit in [page / 2, page, 2 * page] {
        for bytes in [512, unit - 512] {
            let message = with(bytes, unit, "lru").expect_err("a complaint");
            assert!(
                message.contains(&format!("0 (no buffer) or at least one mapping unit ({unit})")),
                "{message}"
            );
        }
        let message = with(0, unit, "fifo").expect_err("a complaint");
        assert!(message.contains(&format!("at least one mapping unit ({unit}) for")), "{message}");
        for (bytes, scheme) in [(0, "lru"), (unit, "lru"), (unit, "fifo")] {
            with(bytes, unit, scheme).unwrap_or_else(|e| panic!("{bytes} {unit} {scheme}: {e}"));
        }
    }
}

#[test]
fn too_small_a_fraction_is_refused_at_once() {
    let refused =
        |name: &str| Wanted { device: name, ..Default::default() }.load().expect_err(name).to_string();
    let begun = std::time::Instant::now();
    for device in ["demo", "modern-tlc-16tb"] {
        let least = |name: &str| refused(name).split("; expected ").nth(1).map(str::to_owned);
        let works = least(&format!("{device}@1/4294967295"));
        assert_eq!(works, least(&format!("{device}@1/20000")), "{device}");
        let works =
            works.and_then(|text| text.strip_suffix(" or more").map(str::to_owned)).expect("a fraction");
        Wanted { device: &works, ..Default::default() }.load().expect("it works");
        let (_, of) = works.split_once("@1/").expect("a fraction");
        let smaller = format!("{device}@1/{}", of.parse::<u32>().expect("a number") + 1);
        assert!(refused(&smaller).ends_with(&format!("expected {works} or more")), "{smaller}");
    }
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn sums_name_one_policy_a_seam() {
    let scheme = |sum: &str| load(SMALL, Some(sum), &["buffer.bytes=1MiB"]).map(|d| d.config);
    assert_eq!(scheme("fifo+page").expect("a sum").scheme.buffer, "fifo");
    assert_eq!(scheme("page").expect("a sum").scheme.buffer, "lru");
    assert_eq!(scheme("baseline").expect("a shorthand").scheme.mapping, "page");
    let waflash = load(SMALL, Some("waflash"), &["buffer.bytes=1MiB", "op_ratio=0.9"]).expect("a shorthand");
    assert_eq!(waflash.scheme(), "waflash");
    assert_eq!(waflash.resolved_scheme(), "pc-lru+multi-version+compaction");
    assert_eq!(scheme("page+victim=fifo").expect("a seam").gc.victim.name(), "fifo");
    assert_eq!(scheme("gc.victim=cost-benefit").expect("a seam").gc.victim.name(), "cost-benefit");
    for (sum, part) in [
        ("fifo+lru", "fifo and lru both answer scheme.buffer"),
        ("pgae", "did you mean \"page\"?"),
        ("page+", "before and after each +"),
        ("bufer=lru", "did you mean \"buffer\"?"),
    ] {
        let message = scheme(sum).expect_err("a complaint");
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
}

#[test]
fn the_schema_describes_every_table() {
    let schema = schema().to_string();
    for word in ["geometry", "blocks_per_plane", "op_ratio", "Over-provisioning", "greedy", "age_with"] {
        assert!(schema.contains(word), "{word}");
    }
}

proptest::proptest! {
    #[test]
    fn mutated_files_never_panic(
        at in 0..SMALL.len(), cut in 0_usize..30, junk in "[ -~\n]{0,12}", set in "[a-z._=0-9-]{0,24}",
    ) {
        let end = (at + cut).min(SMALL.len());
        let text = format!("{}{junk}{}", &SMALL[..at], &SMALL[end..]);
        let _ = load(&text, None, &[]);
        let _ = load(SMALL, Some(&set), &[&set]);
    }

    #[test]
    fn wild_numbers_never_panic(field in 0_usize..16, value in proptest::num::i64::ANY, small in 0_i64..300) {
        let fields = [
            "geometry.channels", "geometry.chips_per_channel", "geometry.dies_per_chip", "geometry.planes_per_die",
            "geometry.blocks_per_plane", "geometry.pages_per_block", "geometry.page_bytes", "geometry.sector_bytes",
            "op_ratio", "gc.soft", "gc.hard", "gc.d", "buffer.bytes", "map_cache.bytes", "queue.depth",
            "precondition.used",
        ];
        let _ = load(SMALL, None, &[&format!("{}={value}", fields[field]), "gc.victim=fifo"]);
        let _ = load(SMALL, None, &[&format!("{}={small}", fields[field])]);
        let _ = load(SMALL, None, &[&format!("{}={}", fields[field], small as f64 / 100.0)]);
    }
}

#[test]
fn sizes_in_a_file_may_have_units() {
    let text = SMALL.replace("small", "4k") + "[buffer]\nbytes = \"1.5MiB\" # RAM\n";
    let drive = load(&text, None, &[]).expect("a device");
    assert_eq!((drive.config.buffer.bytes, drive.config.name.as_str()), (3 << 19, "4k"));
    let wrong = text.replace("1.5MiB", "1.5MiX");
    let message = load(&wrong, None, &[]).expect_err("a complaint");
    assert!(message.contains("buffer.bytes = \"1.5MiX\""), "{message}");
}
