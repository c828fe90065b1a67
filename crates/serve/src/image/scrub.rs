//! The file is read back while it is served: what goes bad in it is found before the next server needs it.
//!
//! A [`Reader`] goes from the file's beginning to its end, beside the drive, and names the [`Place`]s that do not agree
//! with their checksums or copies, as the loader would. The owner of the image then looks for itself, so that nothing is
//! taken for damage that was only being written, and writes again from memory what is wrong.

use nandle_ssd::nand::{Array, Block, BlockCondition, PageUse, Ppn};

use super::damage::Slot;
use super::layout::HEADER;
use super::record::{BLOCK_BYTES, BlockRecord, COPY_BYTES, Found, Page, copy_of, read_copy, read_page};
use super::session::{BYTES as SESSION_BYTES, Session};
use super::store::{Store, read};
use super::{Image, read_header};
use crate::Error;
use crate::suspect::Place;

/// About how many bytes are read in a step.
const STEP: u64 = 256 << 10;
/// What a block costs of which there is nothing but its records.
const BLOCK: u64 = 4096;

/// What a step has read.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// How much.
    pub bytes: u64,
    /// What may be damaged.
    pub places: Vec<Place>,
}

/// Reads an image from its beginning to its end, again and again, while its owner goes on writing.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Store,
    blocks: Vec<Block>,
    /// The next block, and its next page.
    block: usize,
    page: u32,
    /// What the block's record says: none while it has not been read; pages older than this are from before its erase.
    since: Option<u64>,
    slot: Vec<u8>,
}

/// A page's two records, as they are in the file.
struct Pair {
    record: Found<Page>,
    copy: Found<Page>,
}

impl Pair {
    /// None if they cannot be read.
    fn read(store: &Store, ppn: Ppn, since: u64, slot: &mut [u8]) -> Option<Self> {
        let mut copy = [0; COPY_BYTES];
        read(&*store.medium, slot, store.layout.slot(ppn)).ok()?;
        read(&*store.medium, &mut copy, store.layout.copy(ppn)).ok()?;
        // Those of before the erase do not count, whether they were freed or not.
        let live = |found: Found<Page>| match found {
            Found::Sound(page) if page.record.seq < since => Found::Nothing,
            other => other,
        };
        Some(Self { record: live(read_page(ppn.0, slot)), copy: live(read_copy(ppn.0, &copy)) })
    }

    fn agrees(&self) -> bool {
        match (&self.record, &self.copy) {
            (Found::Nothing, Found::Nothing) => true,
            (Found::Sound(one), Found::Sound(two)) => {
                (one.record.sum, one.record.kind) == (two.record.sum, two.record.kind)
            }
            _ => false,
        }
    }
}

fn block_records(store: &Store, block: Block) -> [Found<BlockRecord>; 2] {
    store.layout.records(block).map(|at| {
        let mut bytes = [0; BLOCK_BYTES];
        match read(&*store.medium, &mut bytes, at) {
            Ok(()) => BlockRecord::read(store.layout.number(block) as u32, &bytes),
            Err(_) => Found::Damaged,
        }
    })
}

fn reads_as_a_header(store: &Store) -> bool {
    matches!(read_header(&*store.medium), Ok(Ok(_)))
}

fn reads_as_a_session(store: &Store) -> bool {
    let mut bytes = [0; SESSION_BYTES];
    read(&*store.medium, &mut bytes, store.layout.session()).is_ok() && Session::read(&bytes).is_some()
}

impl Reader {
    fn new(store: Store) -> Self {
        let blocks = store.layout.blocks().collect();
        let slot = vec![0; store.layout.slots().1 as usize];
        Self { store, blocks, block: 0, page: 0, since: None, slot }
    }

    /// The share of the file that has been read.
    pub fn progress(&self) -> f64 {
        let pages = f64::from(self.store.layout.geometry().pages_per_block);
        (self.block as f64 + f64::from(self.page) / pages) / self.blocks.len() as f64
    }

    /// Reads on; none at the end, after which it begins anew.
    pub fn step(&mut self) -> Option<Step> {
        if self.block == self.blocks.len() {
            self.block = 0;
            return None;
        }
        let mut step = Step::default();
        if (self.block, self.page) == (0, 0) {
            step.bytes = HEADER;
            let ends = [
                (Place::Header, reads_as_a_header(&self.store)),
                (Place::Session, reads_as_a_session(&self.store)),
            ];
            step.places.extend(ends.into_iter().filter_map(|(place, sound)| (!sound).then_some(place)));
        }
        while step.bytes < STEP && self.block < self.blocks.len() {
            self.read_on(&mut step);
        }
        Some(step)
    }

    /// Reads a page, or a block's records.
    fn read_on(&mut self, step: &mut Step) {
        let block = self.blocks[self.block];
        let Some(since) = self.since else {
            step.bytes += BLOCK;
            match block_records(&self.store, block) {
                [Found::Sound(one), Found::Sound(two)] if one == two => {
                    if one.condition == BlockCondition::Good && !self.is_empty(block) {
                        self.since = Some(one.since);
                        return;
                    }
                }
                _ => step.places.push(Place::Block(block)),
            }
            self.block += 1;
            return;
        };
        let ppn = self.store.layout.geometry().ppn(block, self.page);
        let pair = Pair::read(&self.store, ppn, since, &mut self.slot);
        if !pair.is_some_and(|pair| pair.agrees()) {
            step.places.push(Place::Page(ppn));
        }
        step.bytes += self.slot.len() as u64;
        self.page += 1;
        if self.page == self.store.layout.geometry().pages_per_block {
            // What the system keeps of it says nothing of the disk: the next round is to read that again.
            for (from, bytes) in self.store.layout.areas(block) {
                self.store.medium.forget(from, bytes);
            }
            (self.block, self.page, self.since) = (self.block + 1, 0, None);
        }
    }

    fn is_empty(&self, block: Block) -> bool {
        let areas = self.store.layout.areas(block);
        areas.into_iter().all(|area| self.store.is_hole(area).unwrap_or(false))
    }
}

impl Image {
    /// A reader of the same file.
    ///
    /// # Errors
    /// If the system has no further handles to it.
    pub(crate) fn reader(&self) -> Result<Reader, Error> {
        let medium = self.store.medium.another().map_err(|e| self.store.fail(e))?;
        let geometry = self.store.layout.geometry();
        Ok(Reader::new(Store::new(medium, &self.store.path, geometry, self.store.version)))
    }

    /// Looks at a place, and writes it again if it is damaged: what was wrong. `idle`: nothing is under way in the
    /// flash.
    ///
    /// # Errors
    /// If the file cannot be written: nothing can be promised any more.
    pub(crate) fn mend(&mut self, array: &Array, place: Place, idle: bool) -> Result<Option<String>, Error> {
        let what = match place {
            Place::Header if reads_as_a_header(&self.store) => None,
            Place::Header => {
                self.store.write(&self.header, 0)?;
                Some("its header was damaged".into())
            }
            Place::Session if reads_as_a_session(&self.store) => None,
            Place::Session => {
                self.store.write(&self.session.bytes(), self.store.layout.session())?;
                Some("the record of who has it open was damaged".into())
            }
            Place::Block(block) => self.mend_block(array, block)?,
            Place::Page(ppn) => self.mend_page(array, ppn, idle)?,
        };
        if what.is_some() {
            self.unsynced = true;
        }
        Ok(what.map(|what| {
            format!("{}: {what}; written again from memory, nothing is missing", self.store.path.display())
        }))
    }

    fn mend_block(&mut self, array: &Array, block: Block) -> Result<Option<String>, Error> {
        let records = block_records(&self.store, block);
        if matches!(&records, [Found::Sound(one), Found::Sound(two)] if one == two) {
            return Ok(None);
        }
        self.write_block(array, block)?;
        let [at, again] = self.store.layout.records(block);
        let (name, what, at) = match records {
            [Found::Sound(_), Found::Sound(_)] => ("its record", "and its copy differed", at),
            [Found::Sound(_), _] => ("the copy of its record", "was damaged", again),
            _ => ("its record", "was damaged", at),
        };
        Ok(Some(format!("{}: {name} {what} (byte {at} of the file)", self.store.layout.name(block))))
    }

    fn mend_page(&mut self, array: &Array, ppn: Ppn, idle: bool) -> Result<Option<String>, Error> {
        let block = self.store.layout.geometry().block_of(ppn);
        if array.condition(block) != BlockCondition::Good {
            return Ok(None);
        }
        let copy_at = self.store.layout.copy(ppn);
        // Its copy is only to come.
        if self.unmarked.iter().any(|&(at, _)| at == copy_at) {
            return Ok(None);
        }
        let mut slot = vec![0; self.store.layout.slots().1 as usize];
        let since = self.record_of(array, block).since;
        let pair = Pair::read(&self.store, ppn, since, &mut slot);
        if pair.as_ref().is_some_and(Pair::agrees) {
            return Ok(None);
        }
        let name = self.store.layout.page_name(ppn);
        let there = array.page_use(ppn) != PageUse::Erased;
        let what = match pair {
            Some(Pair { record: Found::Sound(_), copy: Found::Nothing | Found::Damaged }) => {
                self.lay_out_page(array, ppn);
                self.store.write(&copy_of(&self.buffer), copy_at)?;
                return Ok(Some(format!("{name}: the copy of its head (byte {copy_at}) was damaged")));
            }
            Some(Pair { copy: Found::Sound(copy), .. }) => {
                Slot::new(&slot, self.store.layout.geometry()).describe(ppn.0, &copy.record)
            }
            // A page may be on its way here, and nothing of it in the file yet.
            _ if there && !idle => return Ok(None),
            Some(_) if there => "its record and the copy of its head were damaged".into(),
            Some(_) => "where no page is there was something else".into(),
            None => "it could not be read".into(),
        };
        if there {
            if self.outlives_host() {
                self.sync()?;
            }
            self.lay_out_page(array, ppn);
            self.store.write(&self.buffer, self.store.layout.slot(ppn))?;
            self.store.write(&copy_of(&self.buffer), copy_at)?;
        } else {
            slot.fill(0);
            self.store.write(&slot, self.store.layout.slot(ppn))?;
            self.store.write(&[0; COPY_BYTES], copy_at)?;
        }
        Ok(Some(format!("{name}: {what}")))
    }
}
