//! Goal: what the README and the papers' pages count is what the ledgers of docs/reproduction/data have.
//! Method: the counts and tables are made from the ledgers and compared with the pages; `PAGES=write` renews them.
//! Other tests hold the ledgers against the program.

use std::ops::Range;
use std::path::PathBuf;

use nandle_lab::reproduce::ledger::Row;
use nandle_lab::reproduce::{Kind, Paper};

/// The papers whose figures are counted.
const PAPERS: [(&str, &str, &str); 5] = [
    ("waflash", "WAFLASH", "waflash.md"),
    ("pc-lru-poster", "PC-LRU poster", "pc-lru-poster.md"),
    ("papa", "PAPA", "papa.md"),
    ("across", "Across-FTL", "across.md"),
    ("flashalloc", "FlashAlloc", "flashalloc.md"),
];

fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

/// A ledger below docs/reproduction/data, if there is one.
fn ledger(folder: &str) -> Option<Vec<Row>> {
    let file = root().join("docs/reproduction/data").join(folder).join("ledger.json");
    let text = std::fs::read_to_string(file).ok()?;
    Some(serde_json::from_str(&text).expect("a ledger"))
}

/// Those met, and all, of the rows of a kind.
fn met<'a>(rows: impl Iterator<Item = &'a Row>) -> (usize, usize) {
    rows.fold((0, 0), |(met, all), row| (met + usize::from(row.verdict == "met"), all + 1))
}

fn of_kind(rows: &[Row], kind: Kind) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.kind == kind && !row.fitted)
}

fn of((met, all): (usize, usize)) -> String {
    if all == 0 { "-".into() } else { format!("{met} of {all}") }
}

/// The part of `page` between the marks called `name`, which are comments.
fn part(page: &str, name: &str) -> Range<usize> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- /{name} -->"));
    let from = page.find(&begin).unwrap_or_else(|| panic!("no {begin}")) + begin.len();
    let to = page[from..].find(&end).unwrap_or_else(|| panic!("no {end}"));
    from..from + to
}

/// Compares the part of a page with what it should be, or renews it.
fn compare(file: &str, name: &str, wanted: &str) {
    let path = root().join(file);
    let page = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
    let found = part(&page, name);
    let (before, after) = (&page[..found.start], &page[found.end..]);
    if std::env::var("PAGES").is_ok_and(|v| v == "write") {
        std::fs::write(&path, [before, wanted, after].concat()).expect("docs can be written");
        return;
    }
    assert!(
        page[found] == *wanted,
        "{file} is stale: {name} should be\n{wanted}PAGES=write cargo test -p nandle-lab --test pages renews it"
    );
}

fn counts(rows: &[Row]) -> [(usize, usize); 3] {
    [Kind::Prediction, Kind::Direction, Kind::Input].map(|kind| met(of_kind(rows, kind)))
}

fn sum(all: &[[(usize, usize); 3]]) -> [(usize, usize); 3] {
    std::array::from_fn(|n| all.iter().fold((0, 0), |(met, all), row| (met + row[n].0, all + row[n].1)))
}

#[test]
fn the_pages_count_what_the_ledgers_have() {
    let mut table = "| paper | predictions met | directions that hold | inputs that come out | page |\n\
        | --- | ---: | ---: | ---: | --- |\n"
        .to_owned();
    let mut all = vec![];
    let mut claims = "| claim | predictions met |\n| --- | ---: |\n".to_owned();
    for (name, title, page) in PAPERS {
        let rows = ledger(name).unwrap_or_else(|| panic!("no ledger of {name}"));
        let [predictions, directions, inputs] = counts(&rows).map(of);
        table += &format!("| {title} | {predictions} | {directions} | {inputs} | [{page}]({page}) |\n");
        all.push(counts(&rows));
        for id in Paper::named(name).expect("a paper").claims() {
            let own = || rows.iter().filter(|row| row.claim == *id);
            let count = met(own().filter(|row| row.kind == Kind::Prediction && !row.fitted));
            let what = match own().next() {
                Some(row) if count.1 == 0 => {
                    if row.kind == Kind::Input { "input" } else { "direction" }.into()
                }
                _ => of(count),
            };
            claims += &format!("| {id} | {what} |\n");
        }
    }
    let [predictions, directions, inputs] = sum(&all);
    table += &format!("| all | {} | {} | {} | |\n", of(predictions), of(directions), of(inputs));
    compare("docs/reproduction/README.md", "counts", &table);
    compare("docs/reproduction/README.md", "claims", &claims);
    let said = format!(
        "of {} figures that nothing here was made from or fitted to, {} are met with margins on both sides",
        predictions.1, predictions.0
    );
    let readme = std::fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.contains(&said), "README.md should say: {said}");
}

/// A figure as the pages show it.
fn shown(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The real drives' rows.
#[test]
fn the_real_drives_page_has_the_ledgers_rows() {
    let rows = ledger("real-drives").expect("the ledger of the real drives");
    let mut table = "| claim | drive and figure | workload | measured | here | here / measured | |\n\
        | --- | --- | --- | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for row in &rows {
        let Some(ours) = row.ours else { continue };
        let verdict = if row.fitted { format!("fitted, {}", row.verdict) } else { row.verdict.clone() };
        table += &format!(
            "| {} | {} | `{}` | {} | {} | {:.3} | {} |\n",
            row.claim.trim_start_matches("real-"),
            row.what,
            row.workload,
            shown(row.paper_value),
            shown(ours),
            ours / row.paper_value,
            verdict,
        );
    }
    let mut summary =
        "| claim | predictions met | fitted rows that come out |\n| --- | ---: | ---: |\n".to_owned();
    for id in Paper::RealDrives.claims() {
        let own = || rows.iter().filter(|row| row.claim == *id);
        let predictions = met(own().filter(|row| row.kind == Kind::Prediction && !row.fitted));
        let fitted = met(own().filter(|row| row.fitted));
        summary += &format!("| `{id}` | {} | {} |\n", of(predictions), of(fitted));
    }
    compare("docs/reproduction/real-drives.md", "summary", &summary);
    compare("docs/reproduction/real-drives.md", "rows", &table);
}
