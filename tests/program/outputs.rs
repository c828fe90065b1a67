//! Goal: what a command writes replaces nothing that it reads or that is somebody else's, and is tried before the work.
//! Method: the real program in temporary directories, with every way to name a file twice.

use crate::command::{bad, file, good, temp, text};

const CLAIMS: &str = r#"{ "schema_version": 1, "version": "0.1.0", "paper": "waflash", "title": "A paper", "quick": true, "seed": 1,
    "tables": [], "notes": [], "claims": [] }"#;

/// No output replaces what is read for it, by whatever name; two reports are not written to one file.
#[test]
fn results_do_not_overwrite_what_they_are_made_of() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    for name in ["r1.json", "r2.json", "r3.html"] {
        std::fs::write(at(name), CLAIMS).expect("written");
    }
    std::fs::hard_link(at("r1.json"), at("hard.html")).expect("linked");
    std::os::unix::fs::symlink("r1.json", at("soft.html")).expect("linked");
    good(&["trace", "generate", "mixed", "--requests", "500", "-o", "a.csv"], dir.path());
    good(&["run", "-d", "gc20@1/8", "-w", "a.csv", "--io-log", "-o", "rr1"], dir.path());
    good(&["trace", "convert", "a.csv", "rr1/io.parquet"], dir.path());
    let before = |name: &str| std::fs::read(at(name)).expect("there");
    let names = ["r1.json", "r3.html", "a.csv", "rr1/summary.json", "rr1/io.parquet"];
    let all = || names.map(before);
    let kept = all();
    for (args, said) in [
        ("report r1.json -o r1.json", "would be overwritten"),
        ("report r1.json -o hard.html", "would be overwritten"),
        ("report r1.json -o soft.html", "would be overwritten"),
        ("report r3.html", "would be overwritten"),
        ("report rr1 -o rr1/summary.json", "would be overwritten"),
        ("run -w a.csv --json a.csv", "would be overwritten"),
        ("run -w rr1/io.parquet -o rr1", "would be removed"),
        ("compare --schemes page,across -w a.csv --json a.csv", "would be overwritten"),
        ("cost a.csv --json a.csv", "would be overwritten"),
        ("report r1.json r2.json -o both.html", "a page of its own"),
        ("report rr1 r2.json -o both.html", "a page of its own"),
    ] {
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert!(message.contains(said) && message.trim_end().lines().count() == 1, "{args}: {message}");
    }
    assert!(all() == kept && !at("both.html").exists());
    good(&["report", "rr1", "-o", "rr1/report.html"], dir.path());
}

/// A directory is an earlier run's by what its files say, not by their names.
#[test]
fn directories_of_others_are_left_alone() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    let theirs = [
        ("web/manifest.json", "{ \"name\": \"My app\", \"start_url\": \"/\" }"),
        ("web/index.html", "<p>mine"),
        ("web/report.html", "<p>mine"),
        ("own/summary.json", "{}"),
        ("own/report.html", "<p>mine"),
        ("list/report.json", "[1]"),
    ];
    for (name, text) in theirs {
        std::fs::create_dir_all(at(name).parent().expect("a folder")).expect("made");
        std::fs::write(at(name), text).expect("written");
    }
    for args in [
        "run -d gc20@1/8 --requests 100 -o web",
        "run -d gc20@1/8 --requests 100 -o own",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o web",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o own",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o list",
        "sweep g.toml -o own",
    ] {
        std::fs::write(at("g.toml"), "workloads = ['random-write']\nrequests = 100\n").expect("written");
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert!(message.contains("; expected a"), "{args}: {message}");
    }
    for (name, text) in theirs {
        assert_eq!(file(at(name)), text, "{name}");
    }
    for folder in ["web", "own", "list"] {
        let names = std::fs::read_dir(at(folder)).expect("readable").count();
        assert_eq!(names, theirs.iter().filter(|(name, _)| name.starts_with(folder)).count(), "{folder}");
    }
    // What nandle wrote is taken over, whole or not, with what somebody put beside it.
    let run = ["run", "-d", "gc20@1/8", "--requests", "100", "-o", "mine"];
    good(&run, dir.path());
    std::fs::write(at("mine/notes.txt"), "mine").expect("written");
    good(&run, dir.path());
    assert_eq!(file(at("mine/notes.txt")), "mine");
    for name in ["notes.txt", "manifest.json"] {
        std::fs::remove_file(at("mine").join(name)).expect("removed");
    }
    good(&run, dir.path());
    let compare = "compare -d gc20@1/8 --schemes page,across --requests 100 -o all";
    let compare: Vec<&str> = compare.split(' ').collect();
    good(&compare, dir.path());
    good(&compare, dir.path());
}

/// Where results cannot go is said before anything runs; what fails later takes no table with it.
#[test]
fn outputs_are_tried_before_the_work() {
    let dir = temp();
    std::fs::write(dir.path().join("t.csv"), "time_ns,op,offset,bytes\n0,write,0,4096\n").expect("written");
    // Had they run, these would take hours, or leave a file.
    let long = "--requests 100G";
    for args in [
        format!("run {long} --json /nonexistent/x"),
        format!("run {long} --json ."),
        format!("run {long} --json new/"),
        format!("compare --schemes page,across {long} --json /nonexistent/x"),
        format!("compare --schemes page,across {long} -o t.csv/x"),
        "cost t.csv --json /nonexistent/x".to_owned(),
        "cost t.csv nosuch.csv -o co".to_owned(),
        "crash-test --run touch --check true --json /nonexistent/x".to_owned(),
        "record -o /nonexistent/x.csv -- touch ran".to_owned(),
    ] {
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert_eq!(message.trim_end().lines().count(), 1, "{args}: {message}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1, "nothing was done");
    for name in ["reproduction.json", "reproduction.md", "ledger.json", "report.html"] {
        let place = dir.path().join(name).join(name);
        std::fs::create_dir_all(&place).expect("a directory where a file would be");
        let message = bad(&["reproduce", "across", "-o", name], 2, dir.path());
        assert!(message.contains(&format!("{name}/{name}: ")), "{message}");
    }
    for args in [
        "run -d gc20@1/8 --requests 100",
        "compare -d gc20@1/8 --schemes page,across --requests 100",
        "reproduce waflash --claim waflash-unaligned-8k --quick",
    ] {
        let args = format!("{args} --json /dev/full");
        let out = crate::command::nandle(&args.split(' ').collect::<Vec<_>>(), dir.path());
        let (table, why) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(1), "{why}");
        assert!(table.to_uppercase().contains("WAF") && !table.contains("summary: "), "{table}");
        assert!(why.contains("/dev/full: No space left"), "{why}");
    }
}

/// A disk that fills up while a run directory is written costs what is written, not the table.
#[test]
fn a_log_that_finds_no_room_costs_no_result() {
    let dir = temp();
    // Files of 64 or 128 KiB at most, by the shell: the log of requests is larger.
    let limited = "trap '' XFSZ; ulimit -f 128; exec \"$@\"";
    let args = ["run", "-d", "gc20@1/8", "--requests", "200000", "--io-log", "-o", "out"];
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_nandle")]).args(args).current_dir(dir.path());
    let out = shell.output().expect("a shell");
    let (table, why) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(1), "{why}");
    assert!(table.contains("WAF") && !table.contains("run directory: "), "{table}");
    assert!(why.contains("out/io.parquet: File too large"), "{why}");
}
