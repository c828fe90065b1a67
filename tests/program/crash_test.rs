//! Goal: `nandle crash-test` says what was found as scripts and people read it, and bad use is one sentence.
//! Method: the real program on small programs of the shell; what must come out is counted by hand.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

use crate::command::said;

fn crash_test(args: &[&str], dir: &Path) -> Output {
    let mut command = Command::cargo_bin("nandle").expect("built");
    command.arg("crash-test").args(args).current_dir(dir).output().expect("it runs")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(output)))
}

/// Two files, the second of which must not be there without the first one's contents.
const WRONG: &str = "cd $NANDLE_DIR && printf data > a && printf done > b";
const RIGHT: &str = "cd $NANDLE_DIR && printf data > a && sync a . && printf done > b && sync b .";
const CHECK: &str = "cd $NANDLE_DIR && if [ -e b ]; then grep -q data a; fi";

#[test]
fn a_missing_flush_fails_and_can_be_checked_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for watch in ["auto", "calls"] {
        let output =
            crash_test(&["--run", WRONG, "--check", CHECK, "--watch", watch, "--json", "-"], dir.path());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let report = json(&output);
        // Names in order: none, a, a and b. a's data and size, b's data and size: 2 each; b is not
        // seen without its name, a neither.
        assert_eq!(report["states"], 1 + 3 + 9, "{report:#}");
        assert_eq!(report["exhaustive"], true);
        // b is there and a is empty or zeros: 2 of a's 3 contents, 3 of b's.
        assert_eq!(report["failed"], 6);
        let failure = &report["first_failure"];
        let fate = |event: &str, path: &str| -> Value {
            let writes = failure["writes"].as_array().expect("a list");
            let found = writes.iter().find(|w| w["event"] == event && w["path"] == path);
            found.unwrap_or_else(|| panic!("{event} {path}: {failure:#}"))["fate"].clone()
        };
        assert_eq!(fate("create", "b"), "reached");
        assert_ne!(fate("write", "a"), "reached");
        let text = said(&output);
        assert!(text.contains("never flushed"), "{text}");
        let again = crash_test(&["--again", "crash-failure.json", "--into", watch], dir.path());
        assert_eq!(again.status.code(), Some(1), "{}", said(&again));
        assert!(dir.path().join(watch).join("b").exists(), "the files are laid out");
        let other =
            crash_test(&["--again", "crash-failure.json", "--check", "test -e $NANDLE_DIR/b"], dir.path());
        assert_eq!(other.status.code(), Some(0), "{}", said(&other));
        // Its verdict goes to a file too; a state is laid out where nothing else is.
        let file = dir.path().join("again.json");
        let again = crash_test(&["--again", "crash-failure.json", "--json", "again.json"], dir.path());
        assert!(said(&again).contains("Now: "), "{}", said(&again));
        let verdict: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).expect("written")).expect("JSON");
        assert_eq!(verdict["passed"], false, "{verdict}");
        let full = crash_test(&["--again", "crash-failure.json", "--into", watch], dir.path());
        assert_eq!(full.status.code(), Some(2), "{}", said(&full));
        assert!(said(&full).contains("expected an empty directory"), "{}", said(&full));
    }
    for option in
        ["--states=9", "--lie=tear", "--fs=ext4", "--atomic=4Ki", "--jobs=1", "--save=x", "--seed=2"]
    {
        let output = crash_test(&["--again", "crash-failure.json", option], dir.path());
        assert_eq!(output.status.code(), Some(2), "{option}: {}", said(&output));
        assert!(said(&output).contains("cannot be used with"), "{option}: {}", said(&output));
    }
}

#[test]
fn whether_a_failure_can_be_kept_is_asked_first_and_what_was_found_is_told_anyway() {
    let dir = tempfile::tempdir().expect("a directory");
    let begins = format!("touch {}/begun && {WRONG}", dir.path().display());
    let output = crash_test(&["--run", &begins, "--check", CHECK, "--save", "none/f.json"], dir.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("--save none/f.json: "), "{}", said(&output));
    assert!(!dir.path().join("begun").exists(), "the program ran all the same");
    // Nothing is kept of what passes.
    let output = crash_test(&["--run", RIGHT, "--check", CHECK, "--save", "f.json"], dir.path());
    assert_eq!((output.status.code(), dir.path().join("f.json").exists()), (Some(0), false));
    // The folder goes while the program is checked.
    std::fs::create_dir(dir.path().join("kept")).expect("made");
    let gone = format!("rmdir {}/kept 2> /dev/null; {CHECK}", dir.path().display());
    let args = ["--run", WRONG, "--check", &gone, "--save", "kept/f.json", "--json", "found.json"];
    let output = crash_test(&args, dir.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("The first failure") && said(&output).contains("; --save kept/f.json"));
    let found = std::fs::read_to_string(dir.path().join("found.json")).expect("written");
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!((&found["failed"], &found["first_failure"]["again"]), (&6.into(), &Value::Null));
}

#[test]
fn flushed_in_order_survives_and_a_lie_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = crash_test(&["--run", RIGHT, "--check", CHECK, "--json", "r.json"], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("r.json")).expect("written"))
            .expect("JSON");
    assert_eq!((report["failed"].as_u64(), &report["first_failure"]), (Some(0), &Value::Null));
    let output = crash_test(&["--run", RIGHT, "--check", CHECK, "--lie", "ignore-flush"], dir.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // A check that cannot fail is told of.
    let output = crash_test(&["--run", RIGHT, "--check", "true", "--lie", "ignore-flush"], dir.path());
    assert_eq!(output.status.code(), Some(0));
    assert!(said(&output).contains("make sure that the check can fail"), "{}", said(&output));
}

#[test]
fn what_was_there_before_is_there_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("db")).expect("made");
    std::fs::write(dir.path().join("db/old"), "old").expect("written");
    let run = "cd $NANDLE_DIR && printf new > new && sync new . && rm old";
    let check = "cd $NANDLE_DIR && { grep -q old old || grep -q new new; }";
    let output = crash_test(&["--run", run, "--check", check, "--dir", "db"], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(std::fs::read_to_string(dir.path().join("db/old")).expect("there"), "old");
}

#[test]
fn what_the_program_had_printed_is_known() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = "cd $NANDLE_DIR && printf x > a && sync a . && echo saved && printf y > b";
    let check = "cd $NANDLE_DIR && if grep -q saved $NANDLE_OUTPUT; then test -s a; else ! test -e b; fi";
    let output = crash_test(&["--run", run, "--check", check], dir.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let early = run.replace("&& sync a . && echo saved", "&& echo saved && sync a .");
    let output = crash_test(&["--run", &early, "--check", check], dir.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[test]
fn bad_use_is_one_sentence() {
    let dir = tempfile::tempdir().expect("a directory");
    for (args, part) in [
        (vec!["--run", "no-such-program", "--check", "true"], "--run: the shell did not find"),
        (vec!["--run", WRONG, "--check", "no-such-check"], "--check: the shell did not find"),
        (
            vec!["--run", WRONG, "--check", "no-such-check", "--check-stays"],
            "--check: the shell did not find",
        ),
        (vec!["--run", "exit 3", "--check", "true"], "ended with exit 3"),
        (vec!["--run", "kill -9 $$", "--check", "true"], "ended by a signal"),
        (vec!["--run", "true", "--check", "true"], "changed no file in $NANDLE_DIR"),
        (vec!["--run", WRONG, "--check", "echo broken; false"], "fails with nothing lost: exit 1 (broken)"),
        (vec!["--run", WRONG, "--check", "sleep 9", "--patience", "1"], "it was not done after 1 s"),
        (vec!["--again", "none.json"], "none.json: "),
    ] {
        let output = crash_test(&args, dir.path());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
        // The shell may have said something of its own before.
        let ours: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("nandle: ")).collect();
        assert_eq!(ours.len(), 1, "{args:?}: {text}");
    }
    for args in [vec!["--run", "true"], vec!["--states", "0", "--run", "x", "--check", "y"]] {
        assert_eq!(crash_test(&args, dir.path()).status.code(), Some(2), "{args:?}");
    }
    // A broken state file.
    std::fs::write(dir.path().join("bad.json"), "{}").expect("written");
    let output = crash_test(&["--again", "bad.json"], dir.path());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn without_fuse_a_sentence_says_what_to_do_and_calls_do_it() {
    let dir = tempfile::tempdir().expect("a directory");
    // A mount namespace of its own, in which /dev/fuse is a device that mounts nothing.
    let without = |watch: &str| {
        let run = format!("'{WRONG}' --check '{CHECK}' --watch {watch}");
        let program = assert_cmd::cargo::cargo_bin("nandle");
        let script = format!(
            "test -e /dev/fuse || exit 77; mount --bind /dev/null /dev/fuse || exit 77; \
             exec '{}' crash-test --run {run}",
            program.display()
        );
        std::process::Command::new("unshare")
            .args(["-rm", "sh", "-c", &script])
            .current_dir(dir.path())
            .output()
    };
    let output = match without("fuse") {
        Ok(output) if output.status.code() == Some(2) => output,
        other => return eprintln!("skipped: no mount namespace for this user: {other:?}"),
    };
    let text = said(&output);
    assert!(text.starts_with("nandle: no FUSE for this user: "), "{text}");
    assert!(text.trim_end().ends_with("or --watch calls"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    // Both find what the program forgot.
    for watch in ["calls", "auto"] {
        let output = without(watch).expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{watch}: {}", said(&output));
    }
}

#[test]
fn the_documented_recipe_for_a_ci_finds_what_is_lost() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/crash-test.md"));
    let page = page.expect("there");
    let (_, after) =
        page.split_once("<!-- tests/program/crash_test.rs runs the recipe -->").expect("the mark");
    let recipe = after.split("```").nth(1).expect("a block").trim_start_matches("yaml").trim();
    assert!(recipe.lines().count() <= 12, "short: {recipe}");
    let runs: Vec<&str> =
        recipe.lines().filter_map(|line| line.trim().strip_prefix("- run: nandle ")).collect();
    let [command] = runs[..] else { panic!("one command of ours in {recipe}") };
    let dir = tempfile::tempdir().expect("a directory");
    let program = assert_cmd::cargo::cargo_bin("nandle");
    // A program that says that a file is kept, and one that says so too early.
    let mydb = dir.path().join("mydb");
    for (flush, code) in [("sync a .; echo saved", 0), ("echo saved; sync a .", 1)] {
        let text = format!(
            "#!/bin/sh\ncd $NANDLE_DIR || exit 1\ncase $1 in\n run) echo x > a; {flush} ;;\n \
             check) if grep -q saved $NANDLE_OUTPUT; then test -s a; fi ;;\nesac\n"
        );
        std::fs::write(&mydb, text).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&mydb, mode).expect("set");
        let line = format!("'{}' {command}", program.display());
        let output = std::process::Command::new("sh").args(["-c", &line]).current_dir(dir.path()).output();
        let output = output.expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    }
    assert!(dir.path().join("crash-failure.json").exists(), "what the recipe keeps");
}

#[test]
fn a_real_file_system_is_asked_for_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    for (mount, part) in [
        ("btrfs", "expected ext4 or xfs"),
        ("ext4,size=1Ki", "expected a size from 16Mi"),
        ("ext4,no-such-option", "--mount ext4: "),
    ] {
        let output = crash_test(&["--run", WRONG, "--check", "true", "--mount", mount], dir.path());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(part), "{mount}: {}", said(&output));
    }
}

/// The block of a page that a comment with this file's name marks.
fn documented(page: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).expect("there");
    let (_, after) = text.split_once("<!-- tests/program/crash_test.rs runs this -->").expect("the mark");
    let block = after.split("```").nth(1).expect("a block");
    block.trim_start_matches("text").trim().to_owned()
}

#[test]
fn the_documented_story_is_what_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/crash/log_store.py");
    std::fs::copy(script, dir.path().join("log_store.py")).expect("copied");
    let block = documented("docs/crash-test.md");
    let (command, told) = block.split_once('\n').expect("a command and what it says");
    let line = command.trim_start_matches("$ nandle ");
    let program = assert_cmd::cargo::cargo_bin("nandle");
    let line = format!("'{}' {line} 2>&1", program.display());
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg(line)
        .current_dir(dir.path())
        .output()
        .expect("it runs");
    // How fast it was is not the same anywhere.
    let plain = |text: &str| -> Vec<String> {
        let without = |word: &str| {
            if word.chars().all(|c| c.is_ascii_digit() || c == ',') { "N".into() } else { word.to_owned() }
        };
        text.lines()
            .map(|line| match line.contains(" a second") {
                true => line.split(' ').map(without).collect::<Vec<_>>().join(" "),
                false => line.trim_end().to_owned(),
            })
            .filter(|line| !line.is_empty())
            .collect()
    };
    assert_eq!(plain(&said(&output)), plain(told));
}
