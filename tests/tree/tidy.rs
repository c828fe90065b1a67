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
        ("table", vec![]),
        ("trace", vec!["nandle-io", "nandle-random", "nandle-table"]),
        ("lab", vec!["nandle-io", "nandle-random", "nandle-ssd", "nandle-table", "nandle-trace"]),
        ("host", vec!["nandle-io"]),
        ("preload", vec!["nandle-host", "nandle-io"]),
        ("capi", vec!["nandle-host", "nandle-io"]),
        ("ublk", vec![]),
        ("observe", vec![]),
        ("crash", vec!["nandle-observe", "nandle-random"]),
        (
            "cost",
            vec!["nandle-host", "nandle-io", "nandle-lab", "nandle-observe", "nandle-random", "nandle-trace"],
        ),
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

/// A file of the core, and the text around it that has to declare it.
#[test]
fn every_file_of_the_core_is_part_of_it() {
    for file in rust_files("crates/ssd/src").into_iter().chain(rust_files("crates/nand/src")) {
        let folder = file.parent().expect("a folder");
        let stem = file.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
        let (name, above) = match stem {
            "lib" => continue,
            "mod" => (folder.file_name().and_then(|n| n.to_str()).unwrap_or_default(), folder.parent()),
            stem => (stem, Some(folder)),
        };
        let above = above.expect("a folder");
        let parent = [above.join("mod.rs"), above.join("lib.rs")].into_iter().find(|p| p.exists());
        let text = std::fs::read_to_string(parent.expect("a parent")).expect("readable");
        // Schemes are declared by their line in the list.
        let declared = [format!("mod {name};"), format!("mod {name} {{"), format!("    {name}::")];
        assert!(declared.iter().any(|d| text.contains(d)), "{} is not part of its folder", file.display());
    }
}

/// The words of a source text that are names: no strings, no comments.
fn names_in(text: &str) -> Vec<String> {
    fn walk(tokens: proc_macro2::TokenStream, names: &mut Vec<String>) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(name) => names.push(name.to_string()),
                proc_macro2::TokenTree::Group(group) => walk(group.stream(), names),
                _ => {}
            }
        }
    }
    let mut names = Vec::new();
    walk(text.parse().expect("Rust"), &mut names);
    names
}

#[test]
fn only_a_schemes_folder_and_its_line_know_its_name() {
    let mut schemes: Vec<String> = std::fs::read_dir(root().join("crates/ssd/src/schemes"))
        .expect("readable")
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(schemes.len() > 9, "{schemes:?}");
    // What belongs to a scheme though its folder has another name.
    schemes.extend(["multi_version", "compacted"].map(str::to_owned));
    // The list; what reproduces papers; NVMe's own words for placement.
    let exempt = ["ssd/src/schemes/", "studies/src/reproduce/", "serve/src/nvme_tcp/"];
    for part in ["nand", "ssd", "lab", "studies", "serve"] {
        for file in rust_files(&format!("crates/{part}/src")) {
            let path = file.display().to_string();
            if path.ends_with("tests.rs") || exempt.iter().any(|e| path.contains(e)) {
                continue;
            }
            for name in names_in(&std::fs::read_to_string(&file).expect("readable")) {
                // The operation has the name that its paper gave it.
                let plain = if name == "FlashAlloc" { continue } else { name.to_lowercase() };
                let known = schemes.iter().any(|scheme| plain == *scheme || plain == scheme.replace('_', ""));
                assert!(!known, "{path}: {name} is a scheme's name");
            }
        }
    }
}

#[test]
fn one_word_a_thing() {
    let given_up = ["begun", "shelf", "loose", "condemn", "attend", "give_way", "troubles", "advisor"];
    for file in rust_files("crates/ssd/src").into_iter().chain(rust_files("crates/nand/src")) {
        for name in names_in(&std::fs::read_to_string(&file).expect("readable")) {
            let parts: Vec<&str> = name.split('_').collect();
            let word = given_up.iter().find(|word| parts.contains(*word) || name == **word);
            assert!(word.is_none(), "{}: {name}: see docs/glossary.md", file.display());
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

/// Folders whose pages are written by hand.
const PAGES: [&str; 4] = ["docs", "docs/schemes", "docs/reproduction", "docs/reproduction/setup"];

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
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "crates/serve/README.md",
        "crates/trace/README.md",
        "python/README.md",
    ];
    let mut pages: Vec<PathBuf> = documents.iter().map(|name| root().join(name)).collect();
    for folder in PAGES {
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
    for folder in PAGES {
        for entry in std::fs::read_dir(root().join(folder)).expect("readable").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root().join("docs")).expect("inside").to_string_lossy().into_owned();
            let page = name.ends_with(".md") && name != "SUMMARY.md";
            assert!(!page || linked.contains(&name.as_str()), "docs/SUMMARY.md lacks {name}");
        }
    }
}

/// Everything below `folder` that people write and machines run.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "target" && !name.starts_with(['.', '_']) {
                sources(&path, found);
            }
        } else if ["rs", "py", "sh", "c", "h", "lua", "js", "css"].contains(&kind) {
            found.push(path);
        }
    }
}

#[test]
fn no_two_places_share_ten_lines() {
    const LINES: usize = 10;
    let mut files = vec![];
    for folder in ["benches", "crates", "docs", "examples", "fuzz", "python", "src", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    assert!(files.len() > 300, "{} files", files.len());
    let texts: Vec<String> = files.iter().map(|f| std::fs::read_to_string(f).unwrap_or_default()).collect();
    let mut places: std::collections::HashMap<Vec<&str>, (usize, usize)> = std::collections::HashMap::new();
    for (file, text) in texts.iter().enumerate() {
        // Brackets say nothing, nor do the arguments that a trait of others asks for and nobody uses.
        let said = |line: &&str| line.len() > 3 && !line.starts_with("_: ");
        let lines: Vec<(usize, &str)> =
            text.lines().map(str::trim).enumerate().filter(|(_, line)| said(line)).collect();
        for window in lines.windows(LINES) {
            let at = (file, window[0].0 + 1);
            let run: Vec<&str> = window.iter().map(|(_, line)| *line).collect();
            let first = *places.entry(run).or_insert(at);
            let overlaps = first.0 == file && at.1 - first.1 < LINES;
            assert!(
                overlaps || first == at,
                "{}:{} and {}:{} are the same for {LINES} lines: one place for both",
                files[first.0].display(),
                first.1,
                files[file].display(),
                at.1
            );
        }
    }
}

/// What has a letter or a digit in it, outside of fenced blocks.
fn words(page: &str) -> usize {
    let prose = page.split("\n```").step_by(2);
    let all = prose.flat_map(str::split_whitespace);
    all.filter(|word| word.contains(|c: char| c.is_alphanumeric())).count()
}

#[test]
fn the_documentation_is_short() {
    let mut all = 0;
    for folder in PAGES {
        for entry in std::fs::read_dir(root().join(folder)).expect("readable").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "md") {
                let here = words(&std::fs::read_to_string(&path).expect("readable"));
                assert!(here <= 2_500, "{} has {here} words: expected at most 2,500", path.display());
                all += here;
            }
        }
    }
    assert!((10_000..=25_000).contains(&all), "docs has {all} words: expected at most 25,000");
    let readme = read("README.md");
    let columns = |line: &str| line.chars().count();
    assert!(readme.lines().count() <= 100, "README.md is longer than two screens");
    let wide = readme.lines().find(|line| columns(line) > 110 && !line.starts_with('|'));
    assert_eq!(wide, None, "README.md is wider than a screen");
}

/// What holds, what does not and why, without scrolling: the rest is in the page's set-up and in the generated tables.
#[test]
fn a_page_of_figures_is_one_screen() {
    let mut pages = 0;
    for entry in std::fs::read_dir(root().join("docs/reproduction")).expect("readable").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "md") {
            continue;
        }
        let (name, text) = (path.display(), std::fs::read_to_string(&path).expect("readable"));
        let (lines, words) = (text.lines().count(), words(&text));
        assert!(lines <= 50, "{name} has {lines} lines: expected at most 50");
        assert!(words <= 650, "{name} has {words} words: expected at most 650");
        let wide = text.lines().find(|line| line.chars().count() > 170);
        assert_eq!(wide, None, "{name} is wider than 170 columns");
        pages += 1;
    }
    assert!(pages > 8, "{pages} pages");
}

/// A test that is longer at night is one of the workspace: the nightly runs all of them, so none is forgotten.
#[test]
fn the_nightly_runs_every_test_at_its_long_size() {
    let script = read("test");
    let (day, night) = script.split_once("\nif [ -n \"$nightly\" ]; then\n").expect("a part for the night");
    let whole = |part: &str, start: &str| {
        let mut commands = part.lines().map(str::trim).filter(|line| line.starts_with(start));
        commands.next().is_some_and(|line| !line.contains(" -- ") && !line.contains("--test"))
    };
    assert!(whole(day, "cargo test --workspace"), "./test runs all tests");
    assert!(whole(night, "NANDLE_NIGHTLY=1 cargo test --release --workspace"), "the nightly runs all tests");
    assert!(night.contains("NANDLE_GUEST=1 cargo test"), "the nightly runs the tests in a virtual machine");
}
