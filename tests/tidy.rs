//! Goal: the structure stays what ARCHITECTURE.md says.
//! Method: ordinary tests that read the sources.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn dependencies_point_one_way() {
    let may = [
        ("io", vec![]),
        ("random", vec![]),
        ("nand", vec!["nandle-random"]),
        ("ssd", vec!["nandle-io", "nandle-random", "nandle-nand"]),
        ("trace", vec!["nandle-io", "nandle-random"]),
        ("lab", vec!["nandle-io", "nandle-random", "nandle-ssd", "nandle-trace"]),
        ("host", vec!["nandle-io"]),
        ("preload", vec!["nandle-host", "nandle-io"]),
        ("capi", vec!["nandle-host", "nandle-io"]),
        ("ublk", vec![]),
        (
            "serve",
            vec![
                "nandle-host",
                "nandle-io",
                "nandle-lab",
                "nandle-random",
                "nandle-ssd",
                "nandle-trace",
                "nandle-ublk",
            ],
        ),
    ];
    for (name, allowed) in may {
        for line in read(format!("crates/{name}/Cargo.toml")).lines() {
            let ours = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if ours.starts_with("nandle-") {
                assert!(allowed.contains(&ours), "crates/{name} must not depend on {ours}");
            }
        }
    }
}

#[test]
fn the_drive_has_no_clock_thread_or_unordered_map() {
    for file in rust_files("crates/ssd/src").into_iter().chain(rust_files("crates/nand/src")) {
        let text = std::fs::read_to_string(&file).expect("readable");
        for word in ["std::time", "std::thread", "std::fs", "HashMap", "HashSet", "unsafe {"] {
            assert!(!text.contains(word), "{}: {word}", file.display());
        }
    }
}

#[test]
fn every_policy_file_is_registered() {
    for folder in ["buffer", "mapping", "allocation", "streams", "victim", "striping", "map_cache"] {
        let module = read(format!("crates/ssd/src/{folder}/mod.rs"));
        for file in rust_files(&format!("crates/ssd/src/{folder}")) {
            let name = file.file_stem().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            if name != "mod" && file.parent().is_some_and(|p| p.ends_with(folder)) {
                assert!(
                    module.contains(&format!("mod {name};")),
                    "{folder}/{name}.rs is not part of its folder"
                );
            }
        }
    }
}

#[test]
fn every_module_says_what_it_is() {
    for file in rust_files("crates/ssd/src").into_iter().chain(rust_files("crates/nand/src")) {
        let text = std::fs::read_to_string(&file).expect("readable");
        assert!(text.starts_with("//!"), "{} has no module documentation", file.display());
    }
}

#[test]
fn documents_name_files_that_exist() {
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        for part in read(document).split('`').skip(1).step_by(2) {
            let looks_like_a_path =
                part.contains('/') && part.ends_with(".rs") | part.ends_with(".py") | part.ends_with(".txt");
            if looks_like_a_path && !part.contains(' ') {
                let there = [
                    part.to_owned(),
                    format!("crates/{part}"),
                    format!("crates/{}", part.replacen('/', "/src/", 1)),
                ];
                assert!(there.iter().any(|p| root().join(p).exists()), "{document} names {part}");
            }
        }
    }
}

/// The anchors of a page: its headings, as GitHub and mdBook name them.
fn anchors(page: &str) -> Vec<String> {
    let mut fenced = false;
    let mut anchors: Vec<String> = vec![];
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        anchors.push(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
    }
    anchors
}

#[test]
fn links_lead_somewhere() {
    const REPOSITORY: &str = "https://github.com/nandle/nandle/blob/main/";
    let documents =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "crates/trace/README.md", "python/README.md"];
    let mut pages: Vec<PathBuf> = documents.iter().map(|name| root().join(name)).collect();
    for folder in ["docs", "docs/schemes", "docs/reproduction"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("readable").flatten();
        pages.extend(entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "md")));
    }
    let mut links = 0;
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("readable");
        // Code shows brackets too.
        let prose = text.split("```").step_by(2);
        let targets =
            prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|t| !t.contains(' ')) {
            links += 1;
            let name = page.display();
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file.strip_prefix(REPOSITORY) {
                Some(inside) => root().join(inside),
                None if file.starts_with("http") => continue,
                None if file.is_empty() => page.clone(),
                None => page.parent().expect("a folder").join(file),
            };
            assert!(path.exists(), "{name}: {target} does not exist");
            let path = path.canonicalize().expect("it exists");
            let docs = root().join("docs").canonicalize().expect("it exists");
            let leaves_the_book = page.starts_with(root().join("docs")) && !path.starts_with(docs);
            assert!(
                !leaves_the_book || file.starts_with(REPOSITORY),
                "{name}: {target} is not part of the book: expected {REPOSITORY}..."
            );
            assert!(!path.is_dir() || file.starts_with(REPOSITORY), "{name}: {target} is a folder");
            if !anchor.is_empty() {
                let there = anchors(&std::fs::read_to_string(&path).expect("text"));
                assert!(
                    there.iter().any(|a| a == anchor),
                    "{name}: {target}: no such heading among {there:?}"
                );
            }
        }
    }
    assert!(links > 100, "only {links} links were found");
}

#[test]
fn the_book_has_every_page() {
    let summary = read("docs/SUMMARY.md");
    let linked: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for page in &linked {
        assert!(root().join("docs").join(page).is_file(), "docs/SUMMARY.md names {page}");
    }
    for folder in ["docs", "docs/schemes", "docs/reproduction"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("readable").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root().join("docs")).expect("inside").to_string_lossy().into_owned();
            let page = name.ends_with(".md") && name != "SUMMARY.md";
            assert!(!page || linked.contains(&name.as_str()), "docs/SUMMARY.md lacks {name}");
        }
    }
}
