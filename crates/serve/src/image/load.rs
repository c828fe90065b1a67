//! An image read back, and what is wrong with it.
//!
//! Every page is in the file twice: its record, and behind all records a copy of its head, written after it.
//! Every block has two records. So one write that was lost, torn or went elsewhere, and one place that rotted, is
//! known, and what was there is known as well:
//!
//! | record | copy | what it is |
//! | --- | --- | --- |
//! | sound | sound | a page |
//! | sound | nothing | the last page before the process was killed |
//! | torn | nothing | the same, if flash could hold it: nobody was told that it was written |
//! | any other | sound | damage: a page of data cannot be read, the sectors that it held are media errors |
//! | sound | damaged | damage of the copy alone: nothing is lost |
//! | any other | damaged | what it held cannot be told: no drive starts from it |
//!
//! After a server that outlives its host ([`Durability::Host`]) the copies are those of what was on the disk when they
//! were written. Behind the last copy of a block pages may be missing, or torn, in any order.

use std::borrow::Cow;
use std::ops::Range;

use nandle_ssd::DeviceConfig;
use nandle_ssd::nand::{Array, Block, BlockCondition, Extents, Geometry, Note, Oob, PageUse, Ppn};
use serde::Serialize;

use super::damage;
use super::record::{BLOCK_BYTES, BlockRecord, COPY_BYTES, Found, Page, PageRecord, read_copy, read_page};
use super::session::{BYTES as SESSION_BYTES, Durability, Session};
use super::store::Store;
use crate::Error;

/// Bytes of page records that are read at once: what a block lacks at its end is not read at all.
const READ: u64 = 1 << 20;

/// What the file holds.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Pages that a power cut tore, and those that a kill may leave half written.
    pub pages_torn: u64,
    /// Pages that are damaged.
    pub pages_damaged: u64,
}

/// What follows from damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing is missing.
    Whole,
    /// What is named can no longer be read, and says so.
    Unreadable,
    /// It is not known what is missing: no drive starts from it.
    Unknown,
}

/// Something that no crash leaves.
#[derive(Clone, Debug, Serialize)]
pub struct Damage {
    /// What, where, and what it means.
    pub what: String,
    /// What follows from it.
    pub outcome: Outcome,
}

/// What a repair has to write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    /// A page's record and its copy.
    Page(Ppn),
    /// The copy of a page's head.
    Copy(Ppn),
    /// A block's records.
    Block(Block),
    /// Nothing: there was never a page.
    Clear(Ppn),
}

/// What was read back.
pub(super) struct Loaded {
    pub array: Box<Array>,
    pub contents: Contents,
    pub damage: Vec<Damage>,
    pub repairs: Vec<Repair>,
}

/// A page on its way to the array.
struct Laid<'a> {
    ppn: Ppn,
    record: PageRecord,
    contents: Cow<'a, [u8]>,
}

/// What is read of a block; used for one after the other, since fresh memory costs more than reading.
#[derive(Default)]
struct Areas {
    slots: Vec<u8>,
    copies: Vec<u8>,
}

struct Loading<'a> {
    image: &'a Store,
    /// Behind the last copy of a block anything is possible.
    lenient: bool,
    out: Loaded,
    /// Half-written pages that a kill may have left.
    torn: Vec<(Ppn, damage::Slot)>,
    /// Pages without a copy.
    unmarked: Vec<Ppn>,
}

pub(super) fn load(image: &Store, config: &DeviceConfig) -> Result<Loaded, Error> {
    let g = image.layout.geometry();
    let mut array = config.nand().erased(g.sector_bytes as usize);
    array.keep_changes();
    array.keep_stale();
    array.take_huge_pages(true);
    let expected_bytes = image.layout.end();
    let bytes = image.length()?;
    let contents = Contents { bytes, expected_bytes, ..Contents::default() };
    let out = Loaded { array: Box::new(array), contents, damage: vec![], repairs: vec![] };
    let mut this = Loading { image, lenient: false, out, torn: vec![], unmarked: vec![] };
    if bytes < expected_bytes {
        let (first, slot) = image.layout.slots();
        let pages = (first + g.pages() * slot).saturating_sub(bytes.max(first)).div_ceil(slot);
        this.damaged(Outcome::Unknown, || {
            format!(
                "the file is truncated: {bytes} bytes, {expected_bytes} expected; {pages} of {} page records are cut \
                 off",
                g.pages()
            )
        });
    }
    this.session()?;
    let mut areas = Areas::default();
    for block in image.layout.blocks() {
        this.block(block, &mut areas)?;
    }
    this.judge_last_pages();
    this.out.array.take_huge_pages(false);
    Ok(this.out)
}

impl Loading<'_> {
    fn damaged(&mut self, outcome: Outcome, what: impl FnOnce() -> String) {
        self.out.damage.push(Damage { what: what(), outcome });
    }

    fn session(&mut self) -> Result<(), Error> {
        let mut bytes = [0; SESSION_BYTES];
        self.image.read(&mut bytes, self.image.layout.session())?;
        let Some(last) = Session::read(&bytes) else {
            self.damaged(Outcome::Whole, || {
                "the record of who had it open is damaged: whether the machine went down meanwhile is not known".into()
            });
            return Ok(());
        };
        self.lenient = last.open && last.durability == Durability::Host;
        if last.may_lack_writes(&Session::new(Durability::Process)) {
            self.damaged(Outcome::Whole, || {
                "the machine went down, or the file was taken to another one, while it was served with --durability \
                 process: what was written last may be missing without a trace"
                    .into()
            });
        }
        Ok(())
    }

    fn block(&mut self, block: Block, areas: &mut Areas) -> Result<(), Error> {
        let image = self.image;
        let number = image.layout.number(block) as u32;
        let mut records = [Found::Nothing, Found::Nothing];
        for (at, record) in image.layout.records(block).into_iter().zip(&mut records) {
            let mut bytes = [0; BLOCK_BYTES];
            image.read(&mut bytes, at)?;
            *record = BlockRecord::read(number, &bytes);
        }
        let record = self.choose(block, records);
        match record.condition {
            BlockCondition::Good => self.out.contents.blocks_good += 1,
            BlockCondition::Bad => self.out.contents.blocks_bad += 1,
            BlockCondition::Undefined => self.out.contents.blocks_undefined += 1,
        }
        self.out.array.restore_block(block, record.erases, record.condition, record.doomed);
        if record.since > 0 {
            self.out.array.restore_seq(record.since - 1);
        }
        if record.condition == BlockCondition::Good {
            self.pages(block, &record, areas)?;
        }
        Ok(())
    }

    /// The newer one of a block's two records that are sound.
    fn choose(&mut self, block: Block, records: [Found<BlockRecord>; 2]) -> BlockRecord {
        let key = |r: &BlockRecord| {
            let worse = match r.condition {
                BlockCondition::Good => 0,
                BlockCondition::Undefined => 1,
                BlockCondition::Bad => 2,
            };
            (r.erases, worse, r.doomed, r.since)
        };
        let [at, again] = self.image.layout.records(block);
        let name = self.image.layout.name(block);
        match records {
            [Found::Sound(a), Found::Sound(b)] if key(&a) >= key(&b) => {
                if a != b {
                    self.out.repairs.push(Repair::Block(block));
                }
                a
            }
            [Found::Sound(_), Found::Sound(b)] => {
                if !self.lenient {
                    self.damaged(Outcome::Whole, || {
                        format!("{name}: its record is older than its copy (byte {at} of the file): the copy counts")
                    });
                }
                self.out.repairs.push(Repair::Block(block));
                b
            }
            [Found::Sound(a), other] => {
                let how = if other == Found::Nothing { "lost" } else { "damaged" };
                self.damaged(Outcome::Whole, || {
                    format!("{name}: the copy of its record is {how} (byte {again} of the file): nothing is missing")
                });
                self.out.repairs.push(Repair::Block(block));
                a
            }
            [other, Found::Sound(b)] => {
                let how = if other == Found::Nothing { "lost" } else { "damaged" };
                self.damaged(Outcome::Whole, || {
                    format!("{name}: its record is {how} (byte {at} of the file): its copy counts, nothing is missing")
                });
                self.out.repairs.push(Repair::Block(block));
                b
            }
            [first, _] => {
                let how = if first == Found::Nothing { "lost" } else { "damaged" };
                self.damaged(Outcome::Unknown, || {
                    format!(
                        "{name}: its record is {how} (byte {at} of the file), and there is no copy that is sound: \
                         which of its pages are from before its last erase is not known"
                    )
                });
                BlockRecord { block: 0, erases: 0, condition: BlockCondition::Good, doomed: false, since: 0 }
            }
        }
    }

    fn pages(&mut self, block: Block, record: &BlockRecord, areas: &mut Areas) -> Result<(), Error> {
        let image = self.image;
        let [slots, copies] = image.layout.areas(block);
        if image.is_hole(copies)? && image.is_hole(slots)? {
            return Ok(());
        }
        let slot_bytes = image.layout.slots().1;
        let pages_at_once = (READ / slot_bytes).max(1);
        image.read_area(&mut areas.slots, slots, pages_at_once * slot_bytes)?;
        image.read_area(&mut areas.copies, copies, pages_at_once * COPY_BYTES as u64)?;
        let pages = (areas.slots.len() / slot_bytes as usize).max(areas.copies.len() / COPY_BYTES);
        areas.slots.resize(pages * slot_bytes as usize, 0);
        areas.copies.resize(pages * COPY_BYTES, 0);
        let g = image.layout.geometry();
        let (mut found, mut bad) = (vec![], vec![]);
        let slots = areas.slots.chunks_exact(slot_bytes as usize);
        for (page, (slot, copy)) in (0..).zip(slots.zip(areas.copies.chunks_exact(COPY_BYTES))) {
            let ppn = g.ppn(block, page);
            let live = |found| match found {
                Found::Sound(Page { record: page, .. }) if page.seq < record.since => Found::Nothing,
                Found::Sound(Page { record: page, .. }) if !makes_sense(g, &page) => Found::Damaged,
                other => other,
            };
            match (live(read_page(ppn.0, slot)), live(read_copy(ppn.0, copy))) {
                (Found::Nothing, Found::Nothing) => {}
                (Found::Sound(page), Found::Nothing) => {
                    self.unmarked.push(ppn);
                    found.push(Laid::of(ppn, page));
                }
                (Found::Damaged, Found::Nothing) => bad.push((ppn, damage::Slot::new(slot))),
                (Found::Sound(page), Found::Sound(copy)) => {
                    found.push(self.joined(ppn, page, copy, slot));
                }
                (_, Found::Sound(copy)) => found.push(self.rest_on_copy(ppn, copy, slot)),
                (Found::Sound(page), Found::Damaged) => {
                    // One that had not reached the disk may be torn.
                    if !self.lenient {
                        self.damaged(Outcome::Whole, || {
                            let (name, at) = (image.layout.page_name(ppn), image.layout.copy(ppn));
                            format!("{name}: the copy of its head is damaged (byte {at}): nothing is missing")
                        });
                    }
                    self.out.repairs.push(Repair::Copy(ppn));
                    found.push(Laid::of(ppn, page));
                }
                (_, Found::Damaged) => {
                    self.out.contents.pages_damaged += 1;
                    self.damaged(Outcome::Unknown, || {
                        let name = image.layout.page_name(ppn);
                        format!("{name}: its record is damaged and so is the copy of its head: what it held is not known")
                    });
                }
            }
        }
        let array = &self.out.array;
        let turn = |ppn: Ppn| (0..g.pages_per_block).position(|n| array.nth_strict(block, n) == Some(ppn));
        found.sort_by_cached_key(|laid| (laid.record.seq, turn(laid.ppn)));
        self.lay(block, found, record.since);
        self.take_torn(block, bad, record.since);
        Ok(())
    }

    /// A page whose record and copy are both sound.
    fn joined<'a>(&mut self, ppn: Ppn, page: Page<'a>, copy: Page<'a>, slot: &[u8]) -> Laid<'a> {
        let (one, two) = (&page.record, &copy.record);
        if one.sum == two.sum && one.kind == two.kind {
            return Laid::of(ppn, page);
        }
        // A tear is final, and so is the loss of sectors: they are written over what was there.
        let torn = one.kind == PageUse::Torn || two.kind == PageUse::Torn;
        let same = (one.seq, one.version, one.kind, &one.extents, one.home)
            == (two.seq, two.version, two.kind, &two.extents, two.home);
        if torn || same {
            self.out.repairs.push(Repair::Page(ppn));
            let lost = one.lost | two.lost;
            let mut laid = Laid::of(ppn, page);
            laid.record.lost = lost;
            if torn {
                laid.record.kind = PageUse::Torn;
            }
            return laid;
        }
        if one.seq > two.seq {
            self.damaged(Outcome::Whole, || {
                let name = self.image.layout.page_name(ppn);
                format!("{name}: the copy of its head is an older one: nothing is missing")
            });
            self.out.repairs.push(Repair::Copy(ppn));
            return Laid::of(ppn, page);
        }
        self.rest_on_copy(ppn, copy, slot)
    }

    /// A page of which only the copy of its head can be relied on.
    fn rest_on_copy<'a>(&mut self, ppn: Ppn, copy: Page<'a>, slot: &[u8]) -> Laid<'a> {
        let g = self.image.layout.geometry();
        let name = self.image.layout.page_name(ppn);
        let wrong = damage::Slot::new(slot).describe(ppn.0, &copy.record);
        self.out.contents.pages_damaged += 1;
        self.out.repairs.push(Repair::Page(ppn));
        let mut laid = Laid { ppn, record: copy.record, contents: Cow::default() };
        let kind = laid.record.kind;
        if let Some(contents) = copy.contents {
            self.damaged(Outcome::Whole, || format!("{name}: {wrong}; the copy has all of it"));
            laid.contents = contents.into();
        } else if kind.is_data() {
            self.damaged(Outcome::Unreadable, || {
                let held = damage::held(&laid.record, g.sectors_per_page());
                format!("{name}: {wrong}; it held sectors ({held}): those whose newest copy it was are media errors")
            });
            laid.record.lost = u64::MAX >> (64 - g.sectors_per_page());
            laid.contents = vec![0; g.page_bytes as usize].into();
        } else if kind == PageUse::Meta {
            self.damaged(Outcome::Unknown, || {
                format!("{name}: {wrong}; it is a page of the metadata log: what was trimmed is not known")
            });
            laid.record.kind = PageUse::Torn;
        } else {
            let of = if kind == PageUse::Map { "the mapping table" } else { "a checkpoint" };
            self.damaged(Outcome::Whole, || {
                format!("{name}: {wrong}; it is a page of {of}, which is made again")
            });
            laid.record.kind = PageUse::Torn;
        }
        laid
    }

    /// Lays a block's pages down, in the order of their programs.
    fn lay(&mut self, block: Block, found: Vec<Laid<'_>>, since: u64) {
        let here: Vec<Ppn> = found.iter().map(|laid| laid.ppn).collect();
        if let Some(laid) = found.iter().find(|laid| laid.record.kind != PageUse::Torn) {
            self.out.array.restore_mode(block, laid.record.stream);
        }
        let mut before = since;
        for Laid { ppn, record, contents } in found {
            let extents = match record.home {
                Some((lpn, start, len)) => Extents::Home { lpn, start, len },
                None => Extents::List(&record.extents),
            };
            let oob = Oob { kind: record.kind, owner: record.owner, stream: record.stream, extents };
            let oob = (record.kind != PageUse::Torn).then_some(&oob);
            if self.lenient {
                self.fill_gaps(block, ppn, before..record.seq, &here);
            }
            if let Err(e) = self.out.array.restore_page(ppn, (record.seq, record.version), oob) {
                self.damaged(Outcome::Unknown, || {
                    let name = self.image.layout.page_name(ppn);
                    format!("{name}: {e}: a page before it is missing without a trace")
                });
                return;
            }
            before = record.seq;
            self.count(&record);
            match record.kind {
                PageUse::Data => {
                    self.out.array.fill(ppn, 0, &contents);
                    self.out.array.lose(ppn, record.lost);
                }
                PageUse::Map | PageUse::Meta | PageUse::Checkpoint => {
                    self.out.array.set_note(ppn, Note::new(&contents));
                }
                _ => {}
            }
        }
    }

    /// Pages that had to be programmed before `ppn` and are not there never reached the disk: they are torn.
    fn fill_gaps(&mut self, block: Block, ppn: Ppn, between: Range<u64>, here: &[Ppn]) {
        let g = self.image.layout.geometry();
        for n in 1.. {
            let array = &self.out.array;
            let slots = array.slots();
            // What one program fills is there, or torn, together.
            let may = |ppn: &Ppn| array.may_follow(*ppn);
            if may(&ppn) || array.page_use(ppn) != PageUse::Erased {
                return;
            }
            let strict = (0..g.pages_per_block).step_by(slots as usize);
            let mut missing = strict.filter_map(|n| array.nth_strict(block, n)).filter(may);
            let Some(gap) = missing.find(|&gap| !array.together(gap).any(|ppn| here.contains(&ppn))) else {
                return;
            };
            if !self.tear(gap, (between.start + n).min(between.end)) {
                return;
            }
        }
    }

    /// Lays `ppn` down as a torn page; false if flash could not hold it.
    fn tear(&mut self, ppn: Ppn, seq: u64) -> bool {
        let possible = self.out.array.restore_page(ppn, (seq, seq), None).is_ok();
        if possible {
            self.out.contents.pages_torn += 1;
            self.out.repairs.push(Repair::Page(ppn));
        }
        possible
    }

    /// Half-written pages behind the others of their block, oldest first.
    fn take_torn(&mut self, block: Block, bad: Vec<(Ppn, damage::Slot)>, since: u64) {
        let g = self.image.layout.geometry();
        let array = &self.out.array;
        let pages = (0..g.pages_per_block).map(|page| g.ppn(block, page));
        let newest =
            pages.filter(|&ppn| array.page_use(ppn) != PageUse::Erased).map(|ppn| array.seq(ppn)).max();
        let mut seq = newest.map_or(since, |newest| newest + 1);
        for (ppn, slot) in bad {
            if self.out.array.page_use(ppn) != PageUse::Erased {
                continue; // it filled a gap
            }
            if self.tear(ppn, seq) {
                seq += 1;
                self.torn.push((ppn, slot));
                continue;
            }
            self.out.repairs.push(Repair::Clear(ppn));
            if !self.lenient {
                self.out.contents.pages_damaged += 1;
                let name = self.image.layout.page_name(ppn);
                self.damaged(Outcome::Whole, || {
                    let what = slot.describe_alone(ppn.0, g.sectors_per_page());
                    format!("{name}: {what}; no page was there")
                });
            }
        }
    }

    /// Whether the pages without a copy are those that a kill leaves: one at the most, the last of its block (of those
    /// in its plane, if the block is a superblock: its planes work at their own pace).
    fn judge_last_pages(&mut self) {
        let g = self.image.layout.geometry();
        let (torn, unmarked) = (std::mem::take(&mut self.torn), std::mem::take(&mut self.unmarked));
        self.out.repairs.extend(unmarked.iter().map(|&ppn| Repair::Copy(ppn)));
        if self.lenient {
            return;
        }
        let one = torn.len() == 1 && unmarked.is_empty();
        for (ppn, slot) in torn.iter().filter(|_| !one) {
            self.out.contents.pages_torn -= 1;
            self.out.contents.pages_damaged += 1;
            self.damaged(Outcome::Unknown, || {
                let name = self.image.layout.page_name(*ppn);
                format!("{name}: {}", slot.describe_alone(ppn.0, g.sectors_per_page()))
            });
        }
        let array = &self.out.array;
        let is_last = |ppn: Ppn| {
            let block = g.block_of(ppn);
            let pages = (0..g.pages_per_block).map(|page| g.ppn(block, page));
            let beside = pages.filter(|&p| array.plane_of(p) == array.plane_of(ppn));
            beside.filter(|&p| array.page_use(p) != PageUse::Erased).all(|p| array.seq(p) <= array.seq(ppn))
        };
        if let [ppn] = unmarked[..]
            && is_last(ppn)
        {
            return;
        }
        for ppn in unmarked {
            self.damaged(Outcome::Whole, || {
                let name = self.image.layout.page_name(ppn);
                format!("{name}: the copy of its head is missing: nothing else is")
            });
        }
    }

    fn count(&mut self, page: &PageRecord) {
        let contents = &mut self.out.contents;
        *match page.kind {
            PageUse::Data if page.owner == Oob::PLAIN => &mut contents.pages_data,
            PageUse::Data => &mut contents.pages_area,
            PageUse::Map => &mut contents.pages_map,
            PageUse::Meta => &mut contents.pages_log,
            PageUse::Checkpoint => &mut contents.pages_checkpoint,
            PageUse::Torn => &mut contents.pages_torn,
            PageUse::Padding | PageUse::Erased => &mut contents.pages_padding,
        } += 1;
    }
}

/// Whether a page with a right checksum is one of this device.
fn makes_sense(g: &Geometry, page: &PageRecord) -> bool {
    let spp = g.sectors_per_page() as usize;
    let fits = |at: u8, len: u8| len > 0 && usize::from(at) + usize::from(len) <= spp;
    let whole = page.length == g.page_bytes as usize || !page.kind.is_data();
    let runs = page.extents.iter().all(|e| fits(e.at, e.sectors));
    whole && runs && page.home.is_none_or(|(_, start, len)| fits(start, len))
}

impl<'a> Laid<'a> {
    fn of(ppn: Ppn, page: Page<'a>) -> Self {
        Self { ppn, record: page.record, contents: page.contents.unwrap_or_default().into() }
    }
}
