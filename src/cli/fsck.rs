//! `nandle fsck`: what is wrong with an image.

use std::fmt::Write;

use nandle_lab::units::{bytes, count, time};
use nandle_serve::image::check::{Check, check};

use super::args;
use super::terminal::{Failure, json_text, say};

/// `nandle fsck`
pub fn fsck(args: &args::Fsck) -> Result<(), Failure> {
    let found = check(&args.image)?;
    if args.json {
        say(&json_text(&found))?;
    } else {
        say(&text(&found))?;
    }
    let name = args.image.display();
    match found.faults {
        0 => Ok(()),
        1 => Err(Failure::Ran(format!("{name}: 1 fault found"))),
        n => Err(Failure::Ran(format!("{name}: {n} faults found"))),
    }
}

fn text(found: &Check) -> String {
    let Check { device, scheme, logical_bytes, file, .. } = found;
    let mut out = format!("{device} | {scheme} | {}\n", bytes(*logical_bytes));
    let _ = writeln!(
        out,
        "blocks    {} good, {} bad, {} with an erase that was cut off",
        count(file.blocks_good),
        count(file.blocks_bad),
        count(file.blocks_undefined)
    );
    let _ = writeln!(
        out,
        "pages     {} data, {} areas, {} map, {} log, {} checkpoint, {} padding, {} torn, {} damaged",
        count(file.pages_data),
        count(file.pages_area),
        count(file.pages_map),
        count(file.pages_log),
        count(file.pages_checkpoint),
        count(file.pages_padding),
        count(file.pages_torn),
        count(file.pages_damaged)
    );
    if let Some(recovery) = &found.recovery {
        let r = &recovery.report;
        let checkpoint = match recovery.pages_since_checkpoint {
            Some(pages) => format!(
                "{} checkpoint, its last page {} pages ago",
                if r.from_checkpoint { "from a" } else { "without a whole" },
                count(pages)
            ),
            None => "without a checkpoint".into(),
        };
        let _ = writeln!(
            out,
            "recovery  {checkpoint}: {} blocks scanned, {} out-of-band areas and {} pages read, {} blocks erased, {}",
            count(r.blocks_scanned),
            count(r.oob_reads),
            count(r.checkpoint_reads + r.log_reads + r.map_reads),
            count(r.erases),
            time(r.time_ns as f64)
        );
    }
    if let Some(drive) = &found.drive {
        let _ = writeln!(
            out,
            "sectors   {} of {} stored, {} unreadable",
            count(drive.sectors_stored),
            count(drive.sectors),
            count(drive.sectors_unreadable)
        );
        let _ = writeln!(
            out,
            "map       {} pages in several versions, {} compacted pages, {} areas, {} objects",
            count(drive.versioned_pages),
            count(drive.compacted_pages),
            count(drive.areas),
            count(drive.objects)
        );
        let [free, open, closed, bad] = drive.blocks.map(count);
        let _ = writeln!(
            out,
            "blocks    {free} free, {open} open, {closed} closed, {bad} bad; {} to {} erases{}",
            drive.erases.0,
            drive.erases.1,
            if drive.read_only { "; read-only: too few good blocks are left" } else { "" }
        );
        for &(what, checked, wrong) in &drive.invariants {
            let verdict = if wrong == 0 { "ok".into() } else { format!("{} WRONG", count(wrong)) };
            let _ = writeln!(out, "  {what:<58} {:>10}  {verdict}", count(checked));
        }
    }
    for fault in &found.described {
        let _ = writeln!(out, "FAULT     {fault}");
    }
    if found.faults > found.described.len() as u64 {
        let _ =
            writeln!(out, "          ... and {} more", count(found.faults - found.described.len() as u64));
    }
    if found.clean {
        out += "clean\n";
    }
    out
}
