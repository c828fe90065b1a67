//! Goal: the files of a crate stand in an order and import only what stands below them, so that each can be read
//! knowing nothing of what stands above it; no two import each other, by whatever way round.
//! Method: the imports are read from the sources ([`imports`]) and compared with the order declared here; the
//! reader itself is tried on small crates made up for it.

use crate::imports;

use std::path::Path;

use imports::{Files, Import, circles, imports, out_of_order};

/// The files below `src`, but for those declared for tests alone.
fn read(src: &str) -> Files {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join(src);
    let mut files = Files::new();
    let mut folders = vec![src.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
                let name = path.strip_prefix(&src).expect("below it").to_string_lossy().into_owned();
                files.insert(name, std::fs::read_to_string(&path).expect("readable"));
            }
        }
    }
    files
}

/// A line for each two files: what the one names of the other.
fn lines(imports: &[&Import]) -> String {
    let by_files = imports.chunk_by(|a, b| (&a.from, &a.to) == (&b.from, &b.to));
    let line = |of: &[&Import]| {
        let items: Vec<&str> = of.iter().map(|i| i.item.as_str()).collect();
        format!("  {} -> {} ({})\n", of[0].from, of[0].to, items.join(", "))
    };
    by_files.map(line).collect()
}

/// The files below `src` lie in no circle, and import only what stands before them in `order`, lowest first.
#[track_caller]
fn stands(src: &str, order: &[&str]) {
    let files = read(src);
    let imports = imports(&files);
    let mut wrong = out_of_order(&files, &imports, order);
    wrong.extend(circles(&imports).into_iter().map(|c| format!("a circle:\n{}", lines(&c))));
    assert!(wrong.is_empty(), "{src}:\n{}", wrong.join("\n"));
}

#[test]
fn flash_imports_downwards() {
    stands(
        "crates/nand/src",
        &[
            "memory",
            "timers",
            "cell",
            "geometry",
            "shape",
            "weave",
            "fault",
            "zeros",
            "oob",
            "op",
            "stale",
            "places",
            "contents",
            "note",
            "timing",
            "array",
            "slots",
            "slc",
            "superblock",
            "changes",
            "reading",
            "stages",
            "schedule",
            "power",
        ],
    );
}

#[test]
fn traces_import_downwards() {
    stands(
        "crates/trace/src",
        &[
            "quiet",
            "request",
            "options",
            "input",
            "row",
            "parse",
            "order",
            "formats",
            "detect",
            "trace",
            "beside",
            "write",
            "info",
            "synthetic",
            "fio",
        ],
    );
}

#[test]
fn the_laboratory_imports_downwards() {
    stands(
        "crates/lab/src",
        &[
            "error",
            "output",
            "units",
            "resources",
            "config",
            "memory",
            "address",
            "measure",
            "workload",
            "oracle",
            "explain",
            "replay",
            "run/tables",
            "run/directory",
            "report",
            "run",
            "batch",
            "sweep",
            "logs",
        ],
    );
    stands(
        "crates/studies/src",
        &["atlas/data", "atlas/traces", "atlas/verdict", "atlas/page", "atlas/plan", "atlas", "reproduce"],
    );
}

#[test]
fn the_served_drive_imports_downwards() {
    stands(
        "crates/serve/src",
        &[
            "error",
            "lock",
            "buffers",
            "clock",
            "overload",
            "clients",
            "arrival",
            "budget",
            "listen",
            "wink",
            "deadline",
            "outbox",
            "timing",
            "report",
            "live/snapshot",
            "order",
            "request",
            "inbox",
            "device",
            "plan",
            "image",
            "live/shadow",
            "driver",
            "ctl",
            "live",
            "http",
            "tls",
            "nbd",
            "nvme_tcp",
            "fuse",
            "ublk",
            "vhost_user",
            "calibrate",
        ],
    );
}

#[test]
fn the_command_line_imports_downwards() {
    stands(
        "src",
        &["progress", "table", "cli/terminal", "cli/settling", "cli/watched", "cli/ctl", "cli/args", "cli"],
    );
}

#[test]
fn the_drive_imports_downwards() {
    stands(
        "crates/ssd/src",
        &[
            "error",
            "catalog",
            "linked",
            "controller",
            "link",
            "media",
            "map",
            "space",
            "flash",
            "buffer",
            "schemes/streams_config",
            "schemes/scheme",
            "schemes",
            "collect",
            "durability",
            "config",
            "drive",
        ],
    );
}

/// A made-up crate: what each file is called and says.
fn made_up(files: &[(&str, &str)]) -> Files {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn found(files: &[(&str, &str)]) -> String {
    lines(&imports(&made_up(files)).iter().collect::<Vec<_>>())
}

#[test]
fn an_import_leads_to_the_file_that_defines_the_item() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; use b::B; fn f(b: B) { c::run() }"),
        ("a.rs", "use crate::b::{self, B as Renamed}; fn f(r: Renamed) -> b::Kind { b::Kind::Small }"),
        ("b.rs", "pub struct B; pub enum Kind { Small }"),
        (
            "c/mod.rs",
            "pub mod deep; use self::deep::Deep; pub fn run() { use super::d; assert!(!d::yes(Deep)); }",
        ),
        ("c/deep.rs", "use super::super::d::*; pub struct Deep; impl Trait for Deep { fn f() { no(true) } }"),
        ("d.rs", "pub trait Trait {} pub fn yes() {} pub fn no() {} pub fn unused() {}"),
    ];
    let expected = "  a.rs -> b.rs (B, Kind)\n  c/deep.rs -> d.rs (Trait, no)\n  c/mod.rs -> c/deep.rs (Deep)\n  \
                    c/mod.rs -> d.rs (yes)\n  lib.rs -> b.rs (B)\n  lib.rs -> c/mod.rs (run)\n";
    assert_eq!(found(&files), expected);
}

#[test]
fn a_name_handed_on_is_imported_from_where_it_is_defined() {
    let files = [
        ("lib.rs", "mod folder; pub use folder::shape; pub use folder::Shape;"),
        ("folder/mod.rs", "mod shape; mod user; pub use shape::*; pub(crate) use shape::shape;"),
        ("folder/shape.rs", "pub struct Shape; pub fn shape() {}"),
        ("folder/user.rs", "use super::Shape; fn f() -> Shape { crate::shape(); super::shape::shape() }"),
    ];
    assert_eq!(found(&files), "  folder/user.rs -> folder/shape.rs (Shape, shape)\n");
    assert!(circles(&imports(&made_up(&files))).is_empty());
}

#[test]
fn other_crates_tests_and_documentation_are_no_imports() {
    let files = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        (
            "a.rs",
            "//! See [`crate::b::B`].\nuse std::fmt; use serde::b::B; pub struct A; \
             impl A { #[cfg(test)] fn f() -> crate::b::B {} } #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        ("b.rs", "use crate::a::A; mod inside { use super::super::a; use super::B; } pub struct B;"),
    ];
    assert_eq!(found(&files), "  b.rs -> a.rs (A)\n");
}

#[test]
fn a_circle_is_found_behind_names_handed_on() {
    let files = made_up(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A; pub use b::B; pub use c::C; use d::D;"),
        ("a.rs", "use crate::B; pub struct A(B);"),
        ("b.rs", "pub struct B(Vec<crate::C>); "),
        ("c.rs", "pub struct C; fn f() { println!(\"{:?}\", super::A) }"),
        ("d.rs", "use crate::A; pub struct D(A);"),
    ]);
    let imports = imports(&files);
    let circles: Vec<String> = circles(&imports).iter().map(|c| lines(c)).collect();
    assert_eq!(circles, ["  a.rs -> b.rs (B)\n  b.rs -> c.rs (C)\n  c.rs -> a.rs (A)\n"]);
}

#[test]
fn a_folder_and_its_file_that_need_each_other_are_a_circle() {
    let files = made_up(&[
        ("main.rs", "mod folder; mod other; fn main() { folder::run() }"),
        ("folder/mod.rs", "mod part; pub struct Failure; pub fn run() { part::part() }"),
        ("folder/part.rs", "use super::Failure; pub fn part() -> Failure { crate::other::fine() }"),
        ("other.rs", "pub fn fine() {}"),
    ]);
    let imports = imports(&files);
    let circles: Vec<String> = circles(&imports).iter().map(|c| lines(c)).collect();
    let expected = "  folder/mod.rs -> folder/part.rs (part)\n  folder/part.rs -> folder/mod.rs (Failure)\n";
    assert_eq!(circles, [expected]);
}

#[test]
fn imports_upwards_and_files_without_a_place_are_named() {
    let files = made_up(&[
        ("lib.rs", "mod low; mod high; mod more; pub struct Root;"),
        ("low.rs", "use crate::high::inner::Inner; use crate::Root;"),
        ("high/mod.rs", "pub mod inner; mod base; use crate::low::Low; use base::Base;"),
        ("high/inner.rs", "pub struct Inner; use super::base::Base;"),
        ("high/base.rs", "pub struct Base; use super::inner::Inner;"),
        ("more.rs", ""),
    ]);
    let wrong = |order: &[&str]| out_of_order(&files, &imports(&files), order);
    let upwards = ["low.rs -> high/inner.rs (Inner) leads upwards", "low.rs -> lib.rs (Root) leads upwards"];
    assert_eq!(wrong(&["low", "high", "more"]), upwards);
    let first = ["more.rs has no place in the order", "no file for gone, number 2 of the order"];
    let base = ["high/base.rs -> high/inner.rs (Inner) leads upwards"];
    assert_eq!(wrong(&["low", "high/base", "gone", "high"]), [&first[..], &base, &upwards].concat());
}
