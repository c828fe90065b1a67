//! Checks an image as a crash has left it, and says what a recovery would make of it. The file is only
//! read: the recovery takes place in memory.
//!
//! First comes what the loader says of the file: a server that starts from it finds the same. Then a recovery
//! from what was read, and its invariants ([`nandle_ssd::drive::Inspection`]).
//!
//! A crash alone leaves no fault. What it may leave: pages that a power cut tore (they are recorded as
//! such), erases that were cut off, and one page record that was half written, the last of its block.

use std::fs::File;
use std::path::Path;

use nandle_lab::config::{self, Drive};
use nandle_ssd::Ssd;
use nandle_ssd::drive::Inspection;
use nandle_ssd::durability::RecoveryReport;
use nandle_ssd::nand::{Extents, PageUse, Ppn, Silicon};
use rustix::fs::FlockOperation;
use serde::Serialize;

use super::files::assembled;
use super::layout::Layout;
use super::load::{Contents, Damage, Outcome, load};
use super::store::Store;
use super::{Header, header};
use crate::Error;

/// Faults described; the others are counted.
const DESCRIBED: usize = 50;

/// What was found in an image.
#[derive(Debug, Serialize)]
pub struct Check {
    /// The device's name.
    pub device: String,
    /// Its scheme.
    pub scheme: String,
    /// Its size for the host, in bytes.
    pub logical_bytes: u64,
    /// Nothing is wrong.
    pub clean: bool,
    /// How many faults there are.
    pub faults: u64,
    /// The first of them: what, where, and what it means.
    pub described: Vec<String>,
    /// What the file holds.
    pub file: Contents,
    /// What recovery would do; none if it could not begin.
    pub recovery: Option<Recovery>,
    /// The drive behind it; none if recovery could not begin.
    pub drive: Option<Found>,
}

/// What recovery would do.
#[derive(Debug, Serialize)]
pub struct Recovery {
    /// Pages programmed since the newest checkpoint page; none without one.
    pub pages_since_checkpoint: Option<u64>,
    /// What it would read, and how long that would take.
    #[serde(flatten)]
    pub report: RecoveryReport,
}

/// The drive as recovery finds it.
#[derive(Debug, Default, Serialize)]
pub struct Found {
    /// Logical sectors.
    pub sectors: u64,
    /// Of these, those that hold data.
    pub sectors_stored: u64,
    /// Of these, those that the flash cannot return.
    pub sectors_unreadable: u64,
    /// Logical pages that consist of several physical pages.
    pub versioned_pages: u64,
    /// Physical pages with live data of several logical pages.
    pub compacted_pages: u64,
    /// Areas over page borders.
    pub areas: u64,
    /// FlashAlloc objects.
    pub objects: u64,
    /// Blocks that are free, open, closed, bad.
    pub blocks: [u64; 4],
    /// Erases of the least and of the most worn good block.
    pub erases: (u32, u32),
    /// Too few good blocks are left for writing.
    pub read_only: bool,
    /// The invariants: what has to hold, how often it was looked at, how often it was wrong.
    pub invariants: Vec<(&'static str, u64, u64)>,
}

impl Check {
    fn fault(&mut self, what: impl FnOnce() -> String) {
        self.faults += 1;
        if self.described.len() < DESCRIBED {
            self.described.push(what());
        }
    }
}

/// Checks the image at `path` without changing it.
///
/// # Errors
/// If there is no such file, it is no image, its header is damaged, a server has it open, or it cannot
/// be read.
pub fn check(path: &Path) -> Result<Check, Error> {
    let no = |what: String| Error::input(format!("{}: {what}", path.display()));
    let Some(header) = header(path)? else {
        return Err(no("there is no such file; expected an image that nandle made".into()));
    };
    let file = File::open(path).map_err(|e| no(format!("{e}; expected an image that nandle made")))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)
        .map_err(|_| no("in use by another process; expected an image that is free".into()))?;
    let drive = config::check(header.config.clone());
    let drive = drive.map_err(|e| no(format!("the device in the header: {e}")))?;
    let geometry = drive.config.unit_geometry();
    let bytes = Layout::new(&geometry).end();
    let medium = assembled(file, path, header.piece, bytes, File::options().read(true))?;
    let Header { seed, logical_bytes, .. } = header;
    let store = Store::new(medium, path, &geometry);
    let loaded = load(&store, &drive.config)?;
    let mut check = Check {
        device: drive.config.name.clone(),
        scheme: drive.scheme(),
        logical_bytes,
        clean: false,
        faults: 0,
        described: vec![],
        file: loaded.contents,
        recovery: None,
        drive: None,
    };
    let starts = loaded.damage.iter().all(|damage| damage.outcome != Outcome::Unknown);
    for Damage { what, outcome } in loaded.damage {
        let end = if outcome == Outcome::Unknown { "; no drive starts from it" } else { "" };
        check.fault(|| what + end);
    }
    if starts {
        look_at_drive(&drive, Silicon(*loaded.array), seed, &mut check)?;
    }
    check.clean = check.faults == 0;
    Ok(check)
}

fn look_at_drive(drive: &Drive, silicon: Silicon, seed: u64, check: &mut Check) -> Result<(), Error> {
    let array = &silicon.0;
    let g = array.geometry();
    let pages = (0..g.planes())
        .flat_map(|plane| g.blocks_of(plane))
        .flat_map(|block| (0..g.pages_per_block).map(move |page| g.ppn(block, page)));
    let newest =
        pages.filter(|&ppn| array.page_use(ppn) == PageUse::Checkpoint).map(|ppn| array.seq(ppn)).max();
    let next = array.next_seq();
    let ssd = Ssd::power_on(&drive.config, silicon, seed).map_err(|e| Error::input(e.to_string()))?;
    check.recovery = Some(Recovery {
        pages_since_checkpoint: newest.map(|seq| next.saturating_sub(seq + 1)),
        report: ssd.recovery().cloned().unwrap_or_default(),
    });
    let inspection: Inspection = ssd.inspect();
    for finding in &inspection.findings {
        for problem in &finding.problems {
            check.fault(|| format!("{}: {problem}", finding.what));
        }
        check.faults += finding.wrong - finding.problems.len() as u64;
    }
    let flash = ssd.flash();
    let array = flash.array();
    let mut found = Found {
        sectors: inspection.sectors.0,
        sectors_stored: inspection.sectors.1,
        sectors_unreadable: inspection.unreadable,
        areas: flash.map().annex().map_or(0, |areas| u64::from(areas.live())),
        objects: u64::from(ssd.objects_live()),
        blocks: inspection.blocks,
        erases: inspection.erases,
        read_only: inspection.read_only,
        invariants: inspection.findings.iter().map(|f| (f.what, f.checked, f.wrong)).collect(),
        ..Found::default()
    };
    let mut shared = std::collections::BTreeSet::new();
    for lpn in 0..flash.fragments().len() {
        let list = flash.fragments().get(lpn, array);
        let mut pages: Vec<Ppn> =
            list.iter().map(|f| f.ppn).filter(|&ppn| array.page_use(ppn) == PageUse::Data).collect();
        pages.sort_unstable();
        pages.dedup();
        found.versioned_pages += u64::from(pages.len() > 1);
        shared.extend(pages.into_iter().filter(|&ppn| {
            let spp = u64::from(flash.sectors_per_page());
            matches!(array.oob(ppn).extents, Extents::List(list)
                if list.iter().any(|e| e.lsn / spp != u64::from(lpn)))
        }));
    }
    found.compacted_pages = shared.len() as u64;
    check.drive = Some(found);
    Ok(())
}
