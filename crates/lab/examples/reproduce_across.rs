//! Across-FTL's section 4 again: `cargo run --release -p nandle-lab --example reproduce_across [-- --quick]`.

use nandle_lab::reproduce::across::{findings, line, page_size_findings, runs, table};

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let mut all = Vec::new();
    for page in [8192, 4096, 16384] {
        println!("{} KiB pages", page / 1024);
        let runs = runs(page, quick, 1, |twin, mapping, run| println!("  {}", line(twin, mapping, run)));
        if page == 8192 {
            all.extend(findings(&runs));
        }
        all.extend(page_size_findings(page, &runs));
    }
    print!("{}", table(&all));
    // The twins touch a small part of the device: the same cache, as large for them as the paper's
    // is for MRSM's whole table.
    let scarce = if quick { 16 } else { 32 };
    println!("8 KiB pages, a mapping cache of 1/{scarce}");
    let runs = runs(8192, quick, scarce, |twin, mapping, run| println!("  {}", line(twin, mapping, run)));
    print!("{}", table(&findings(&runs)));
}
