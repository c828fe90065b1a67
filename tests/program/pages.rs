//! Goal: what README, tutorial and how-tos tell their readers to type works, and prints what they show.
//! Method: each block of `sh` is run, page by page, in a folder of its own; where a block of `text` follows, its lines
//! are those that were printed, `...` standing for whatever else. A comment before a block that is not run says what it
//! needs, or which test runs it.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A fenced block of a page.
struct Block<'a> {
    kind: &'a str,
    /// The comment in the line before it.
    comment: Option<&'a str>,
    text: String,
    line: usize,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let (mut inside, mut before) = (false, "");
    for (n, line) in page.lines().enumerate() {
        if let Some(kind) = line.strip_prefix("```") {
            inside = !inside;
            if inside {
                let comment = before.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                blocks.push(Block { kind, comment, text: String::new(), line: n + 1 });
            }
        } else if let (true, Some(block)) = (inside, blocks.last_mut()) {
            block.text += &format!("{line}\n");
        }
        before = line;
    }
    blocks
}

/// Whether `line` is as `shown`, in which `...` is anything.
fn fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.trim_end().split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.trim_end().strip_prefix(first) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    open || rest.is_empty()
}

/// The first line of `shown` that was not printed in its place.
fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().filter(|line| !line.trim().is_empty());
    let mut skips = false;
    for line in shown.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim() == "..." {
            skips = true;
            continue;
        }
        let found = match skips {
            true => printed.any(|there| fits(line, there)),
            false => printed.next().is_some_and(|there| fits(line, there)),
        };
        if !found {
            return Some(line);
        }
        skips = false;
    }
    None
}

fn stands(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join(name)).expect("a page");
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::os::unix::fs::symlink(root.join("examples"), dir.path().join("examples")).expect("a link");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_nandle"));
    let path = format!(
        "{}:{}",
        program.parent().expect("a folder").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let all = blocks(&page);
    let mut ran = 0;
    for (n, block) in all.iter().enumerate().filter(|(_, block)| block.kind == "sh") {
        if let Some(comment) = block.comment {
            let by = comment.split(' ').next().unwrap_or_default();
            assert!(
                by == "needs" || root.join(by).is_file(),
                "{name}:{}: {comment:?} is neither a need nor a test",
                block.line
            );
            continue;
        }
        let script = format!("set -eu -o pipefail\n{}", block.text);
        let out = Command::new("bash")
            .args(["-c", &script])
            .current_dir(dir.path())
            .env("PATH", &path)
            .env_remove("NANDLE_TRACES")
            .output()
            .expect("bash");
        let printed = String::from_utf8_lossy(&out.stdout);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{name}:{}: {}\n{printed}\n{said}", block.line, block.text);
        ran += 1;
        if let Some(shown) = all.get(n + 1).filter(|next| next.kind == "text") {
            let missing = missing(&shown.text, &printed);
            assert!(
                missing.is_none(),
                "{name}:{}: not printed here:\n{}\n\nprinted:\n{printed}",
                shown.line,
                missing.unwrap_or_default()
            );
        }
    }
    assert!(ran > 0, "{name}: nothing was run");
}

#[test]
fn the_readme_works() {
    stands("README.md");
}

#[test]
fn the_first_hour_works() {
    stands("docs/tutorial.md");
}

#[test]
fn the_how_tos_work() {
    stands("docs/how-to.md");
}

#[test]
fn the_laboratory_works() {
    stands("docs/laboratory.md");
}

#[test]
fn a_trace_of_ones_own_works() {
    stands("docs/traces.md");
}

#[test]
fn a_page_that_shows_something_else_is_found() {
    let printed = "one 1\ntwo 2 and more\n\nthree 3\n";
    for shown in
        ["one 1\n", "...\ntwo 2...\n", "...\nthree 3\n", "one ...\ntwo...more\n...\n", "...1\n...\nth...3\n"]
    {
        assert_eq!(missing(shown, printed), None, "{shown}");
    }
    for shown in
        ["two 2 and more\n", "one 2\n", "...\nthree 4\n", "...\nthree 3\n...\none 1\n", "one 1\nthree 3\n"]
    {
        assert!(missing(shown, printed).is_some(), "{shown}");
    }
    let page = "<!-- needs root -->\n```sh\nboo\n```\nwords\n```text\nsaid\n```\n";
    let found: Vec<_> = blocks(page).into_iter().map(|b| (b.kind, b.comment, b.text)).collect();
    assert_eq!(found, [("sh", Some("needs root"), "boo\n".into()), ("text", None, "said\n".into())]);
}
