//! Checks an image as a crash has left it, and says what a recovery would make of it. The file is only
//! read: the recovery takes place in memory.
//!
//! | step | what is looked at |
//! | --- | --- |
//! | file | its length against the device in its header |
//! | blocks | the record of each block and its checksum |
//! | pages | the record of each page and its checksum; where one byte alone explains a wrong checksum, which one |
//! | order | whether pages could have been programmed in the order that they say |
//! | drive | a recovery from what was read, and its invariants ([`nandle_ssd::drive::Inspection`]) |
//!
//! A crash alone leaves no fault. What it may leave: pages that a power cut tore (they are recorded as
//! such), erases that were cut off, and one page record that was half written, which ends in the middle
//! and is the last of its block. Anything else with a wrong checksum is damage: recovery would take it
//! for a torn page and show older data in its place, or none.

use std::fs::File;
use std::path::Path;

use nandle_lab::config::{self, Drive};
use nandle_ssd::Ssd;
use nandle_ssd::drive::Inspection;
use nandle_ssd::durability::RecoveryReport;
use nandle_ssd::nand::{BlockCondition, Extents, Oob, PageUse, Ppn, Silicon};
use rustix::fs::FlockOperation;
use serde::Serialize;

use super::record::{BLOCK_BYTES, BlockRecord, PAGE_HEAD, PageRecord};
use super::{Block, HEADER, Header, Image, header};
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

/// What the file holds.
#[derive(Debug, Default, Serialize)]
pub struct Contents {
    /// Its length in bytes.
    pub bytes: u64,
    /// What it should be.
    pub expected_bytes: u64,
    /// Blocks that are good.
    pub blocks_good: u64,
    /// Blocks that are bad.
    pub blocks_bad: u64,
    /// Blocks whose erase was cut off.
    pub blocks_undefined: u64,
    /// Pages of the host's data.
    pub pages_data: u64,
    /// Pages of areas over page borders.
    pub pages_area: u64,
    /// Translation pages.
    pub pages_map: u64,
    /// Pages of the metadata log.
    pub pages_log: u64,
    /// Pages of checkpoints.
    pub pages_checkpoint: u64,
    /// Pages that were left out to close a block.
    pub pages_padding: u64,
    /// Pages that a power cut tore, and the one that a kill may leave half written.
    pub pages_torn: u64,
    /// Pages that are damaged.
    pub pages_damaged: u64,
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
    let file = File::open(path).map_err(|e| no(format!("{e}; expected an image that nandle made")))?;
    let Some(Header { config, seed, logical_bytes, version }) = header(path)? else {
        return Err(no("nothing in it yet; expected an image that nandle made".into()));
    };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)
        .map_err(|_| no("in use by another process; expected an image that is free".into()))?;
    let drive = config::check(config).map_err(|e| no(format!("the device in the header: {e}")))?;
    let mut image = Image::around(file, path, &drive.config.unit_geometry());
    image.version = version;
    let bytes = image.file.metadata().map_err(|e| image.fail(e))?.len();
    let mut check = Check {
        device: drive.config.name.clone(),
        scheme: drive.scheme(),
        logical_bytes,
        clean: false,
        faults: 0,
        described: vec![],
        file: Contents { bytes, expected_bytes: image.end(), ..Contents::default() },
        recovery: None,
        drive: None,
    };
    if bytes < image.end() {
        check.fault(|| {
            let missing = image.end().saturating_sub(bytes.max(image.pages_at));
            format!(
                "the file is truncated: {bytes} bytes, {} expected; {} of {} page records are cut off",
                image.end(),
                missing.div_ceil(image.slot_bytes),
                image.geometry.pages()
            )
        });
    }
    look_at_records(&image, &mut check)?;
    match image.load(&drive.config) {
        Ok(array) => look_at_drive(&drive, Silicon(array), seed, &mut check)?,
        Err(Error::Input(what)) => {
            let named = format!("{}: ", path.display());
            check.fault(|| format!("{}; no drive starts from it", what.trim_start_matches(&named)));
        }
        Err(e) => return Err(e),
    }
    check.clean = check.faults == 0;
    Ok(check)
}

/// A page record with a wrong checksum.
struct Bad {
    ppn: Ppn,
    /// Where it could be the page that a kill left half written.
    cut_off: bool,
    what: String,
}

fn look_at_records(image: &Image, check: &mut Check) -> Result<(), Error> {
    let g = &image.geometry;
    let mut half_written = vec![];
    let mut record = [0; BLOCK_BYTES];
    for block in (0..g.planes()).flat_map(|plane| g.blocks_of(plane)) {
        let number = image.number(block);
        let at = HEADER + number * BLOCK_BYTES as u64;
        image.read(&mut record, at)?;
        let read = BlockRecord::read(number as u32, &record);
        let sound = record == read.bytes();
        // Images of the first version have no record for a block that was never erased.
        let lost = record == [0; BLOCK_BYTES];
        match read.condition {
            _ if !sound && !lost => {}
            BlockCondition::Good => check.file.blocks_good += 1,
            BlockCondition::Bad => check.file.blocks_bad += 1,
            BlockCondition::Undefined => check.file.blocks_undefined += 1,
        }
        let pages = look_at_pages(image, block, &read, check, &mut half_written)?;
        if lost && image.version > 1 {
            check.fault(|| {
                format!(
                    "{}: its record is lost (byte {at} of the file): erase count and condition are unknown; \
                     {pages} pages in it would be taken as they are",
                    place(image, block)
                )
            });
        } else if !sound && !lost {
            check.fault(|| {
                format!(
                    "{}: its record is damaged (byte {at} of the file): recovery would take the block for one \
                     whose erase was cut off and erase it, with {pages} pages in it",
                    place(image, block)
                )
            });
        }
    }
    // A kill cuts off one record at the most.
    let one = half_written.len() == 1;
    for bad in half_written {
        if bad.cut_off && one {
            check.file.pages_torn += 1;
        } else {
            check.file.pages_damaged += 1;
            check.fault(|| format!("{}: {}", page_place(image, bad.ppn), bad.what));
        }
    }
    Ok(())
}

/// Looks at the pages of a block; how many with a right checksum there are.
fn look_at_pages(
    image: &Image,
    block: Block,
    record: &BlockRecord,
    check: &mut Check,
    bad: &mut Vec<Bad>,
) -> Result<u64, Error> {
    let g = &image.geometry;
    if image.is_hole(block) {
        return Ok(0);
    }
    let (mut sound_pages, mut last, mut found) = (0, 0, vec![]);
    let mut slot = vec![0; image.slot_bytes as usize];
    for page in 0..g.pages_per_block {
        let ppn = g.ppn(block, page);
        let at = image.slot(ppn);
        image.read(&mut slot, at)?;
        let Some(read) = PageRecord::read(ppn.0, &slot[..PAGE_HEAD]) else { continue };
        let length = read.length.min(slot.len() - PAGE_HEAD);
        let (head, contents) = slot[..PAGE_HEAD + length].split_at(PAGE_HEAD);
        let torn = PageRecord::is_recorded_as_torn(ppn.0, head);
        let whole = !torn && read.is_sound(head, contents) && image.makes_sense(&read);
        if (torn || whole) && read.seq < record.since {
            continue; // from before the last erase
        }
        if torn {
            check.file.pages_torn += 1;
            last = last.max(read.seq);
        } else if whole {
            sound_pages += 1;
            last = last.max(read.seq);
            match read.kind {
                PageUse::Data if read.owner == Oob::PLAIN => check.file.pages_data += 1,
                PageUse::Data => check.file.pages_area += 1,
                PageUse::Map => check.file.pages_map += 1,
                PageUse::Meta => check.file.pages_log += 1,
                PageUse::Checkpoint => check.file.pages_checkpoint += 1,
                _ => check.file.pages_padding += 1,
            }
        } else {
            // The system writes 4 KiB at a time: what a kill cuts off ends at such a border.
            let end = PAGE_HEAD + g.page_bytes as usize;
            let ends = slot.iter().rposition(|&byte| byte != 0).map_or(0, |n| n + 1).next_multiple_of(4096);
            let byte = flipped(record_of(&read, &slot, g.page_bytes as usize));
            let what = describe(&read, byte, g.sectors_per_page());
            // Nobody is cut off in such a way that one byte would make it whole.
            found.push((read.seq, Bad { ppn, cut_off: ends < end && byte.is_none(), what }));
        }
    }
    for (seq, mut this) in found {
        this.cut_off &= seq >= last;
        bad.push(this);
    }
    Ok(sound_pages)
}

/// The record in a slot, as long as it was meant to be.
fn record_of<'a>(read: &PageRecord, slot: &'a [u8], page_bytes: usize) -> &'a [u8] {
    let length = if read.kind.is_data() {
        page_bytes
    } else if read.kind == PageUse::Torn {
        // A head that makes no sense may still have the length.
        u32::from_le_bytes([slot[12], slot[13], slot[14], slot[15]]) as usize
    } else {
        read.length
    };
    &slot[..PAGE_HEAD.saturating_add(length).min(slot.len())]
}

/// What is wrong with a page record, in which byte if that is known, and what it held.
fn describe(read: &PageRecord, byte: Option<usize>, spp: u32) -> String {
    let mut what = match byte {
        Some(at) if at < PAGE_HEAD => format!("byte {at} of its out-of-band area is wrong"),
        Some(at) => format!("byte {} of its contents is wrong", at - PAGE_HEAD),
        None if read.kind == PageUse::Torn => "its out-of-band area makes no sense".into(),
        None => "its checksum is wrong".into(),
    };
    let base = |lpn: u32| u64::from(lpn) * u64::from(spp);
    let held: Vec<String> = match read.home {
        Some((lpn, start, len)) if read.kind.is_data() => {
            vec![format!("{} from {}", len, base(lpn) + u64::from(start))]
        }
        _ if read.kind.is_data() => {
            read.extents.iter().take(4).map(|e| format!("{} from {}", e.sectors, e.lsn)).collect()
        }
        _ => vec![],
    };
    if held.is_empty() {
        what += "; recovery would take it for a torn page";
    } else {
        what += &format!(
            "; it says that it holds sectors ({}), of which recovery would show older data, or none",
            held.join(", ")
        );
    }
    what
}

/// The one byte of a page record that, if it alone is wrong, explains its wrong checksum.
///
/// A checksum is linear: right and wrong one differ by what the wrong bits alone come to. Going back
/// from the end a byte at a time, that difference is a row of the table where the byte was.
fn flipped(record: &[u8]) -> Option<usize> {
    const POLYNOMIAL: u32 = 0xedb8_8320; // CRC-32 of IEEE 802.3, reflected
    let stored = u32::from_le_bytes(record.get(4..8)?.try_into().ok()?);
    let mut differs = stored ^ crc32fast::hash(&record[8..]);
    if differs == 0 {
        // The checksum covers neither itself nor the mark before it.
        return (0..4).find(|&at| record[at] != b"page"[at]);
    }
    let table: [u32; 256] = std::array::from_fn(|n| {
        (0..8).fold(n as u32, |c, _| c >> 1 ^ if c & 1 == 1 { POLYNOMIAL } else { 0 })
    });
    let mut row = [0_u32; 256];
    table.iter().enumerate().for_each(|(n, word)| row[(word >> 24) as usize] = n as u32);
    if let bytes @ [_, _, _, _] = differs.to_le_bytes()
        && bytes.iter().filter(|&&byte| byte != 0).count() == 1
    {
        return bytes.iter().position(|&byte| byte != 0).map(|n| 4 + n);
    }
    for at in (8..record.len()).rev() {
        if table[1..].contains(&differs) {
            return Some(at);
        }
        let n = row[(differs >> 24) as usize];
        differs = (differs ^ table[n as usize]) << 8 | n;
    }
    None
}

fn place(image: &Image, block: Block) -> String {
    let g = &image.geometry;
    format!("plane {}, block {}", g.plane_of(block), image.number(block) % u64::from(g.blocks_per_plane))
}

fn page_place(image: &Image, ppn: Ppn) -> String {
    let g = &image.geometry;
    let block = g.block_of(ppn);
    format!("{}, page {} (byte {} of the file)", place(image, block), g.page_of(ppn), image.slot(ppn))
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
