//! The flash in a sparse file.
//!
//! ```text
//! 0        header: magic, version, checksum, the device's configuration
//! 64 KiB   block records, 32 bytes each: erases, condition
//!          page records, a slot each: out-of-band area (1 KiB), contents
//!          block records again
//!          copies of the pages' out-of-band areas, 1 KiB each
//!          who has it open
//! ```
//!
//! Only what operations have finished is in it, in the order in which they finished, so whenever the
//! process is killed the file holds what a power cut at that moment would have left. What is read back, and what
//! counts as damage, is in `load.rs`.
//!
//! With [`Durability::Host`] the same holds when the machine goes down. Between two syncs its disk may carry out writes
//! in any order, or not at all, so a sync comes first
//!
//! - before a flush or a FUA write is answered,
//! - before a block is erased, a page torn or a checkpoint's page written: what supersedes the old pages, and what the
//!   checkpoint speaks of, is on the disk then,
//! - before an erased block is written to, and before its old pages are freed: its new record is on the disk then.
//!
//! The copy of a page's head is written once the page is on the disk.

pub mod check;
mod damage;
mod files;
mod layout;
mod load;
mod medium;
mod pieces;
pub mod record;
mod session;
mod store;

use std::fs::{self, File};
use std::path::Path;

use nandle_lab::config::{self, Drive};
use nandle_ssd::DeviceConfig;
use nandle_ssd::nand::{Array, Block, BlockCondition, Change, Geometry, Note, Oob, PageUse, Ppn};

pub use self::files::may_be_in;
use self::files::{Unfinished, assembled, locked};
use self::layout::{HEADER, Layout};
pub use self::load::{Contents, Damage, Outcome};
use self::load::{Loaded, Repair};
use self::medium::Medium;
use self::record::{BlockRecord, copy_of, write_page};
pub use self::session::Durability;
use self::session::Session;
use self::store::{Store, read};
use crate::Error;

const MAGIC: &[u8; 16] = b"nandle image\r\n\x1a\n";
/// Every block has a record, also one that was never erased; these and heads of pages are there twice.
const VERSION: u32 = 3;
/// The same in several files.
const IN_PIECES: u32 = 4;
/// magic, version, length of the text, checksum of what follows, length of a piece as a power of two (0: it is all one
/// file), seed, logical bytes, text
const FIXED: usize = 48;

/// Settings that may differ from those with which an image was made: they change neither what the
/// flash holds nor how it is read.
const FREE: [&str; 7] = ["name", "description", "timing", "queue", "precondition", "gc", "faults"];

/// How an image is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// What its writes outlive.
    pub durability: Durability,
    /// Damage is accepted: what can no longer be read is said to be unreadable.
    pub damaged_ok: bool,
}

/// An image, locked, and where everything lies in it.
#[derive(Debug)]
pub struct Image {
    store: Store,
    session: Session,
    buffer: Vec<u8>,
    /// Pages were written since the last sync; or anything that counts.
    unsynced_pages: bool,
    unsynced: bool,
    /// Copies of heads whose pages may not be on the disk yet: place and bytes.
    unmarked: Vec<(u64, Vec<u8>)>,
    /// Erased blocks whose records may not be on the disk yet.
    freed: Vec<Block>,
    unfinished: Unfinished,
}

/// An image that is ready to be served from.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub image: Image,
    /// In how many files it is.
    pub files: u64,
    /// What it holds; none if it is new.
    pub array: Option<Box<Array>>,
    /// Damage that was accepted.
    pub damage: Vec<Damage>,
}

/// What the header of an image says.
#[derive(Clone, Debug)]
pub struct Header {
    /// The device.
    pub config: DeviceConfig,
    /// The seed with which it was made.
    pub seed: u64,
    /// Its size for the host.
    pub logical_bytes: u64,
    /// How long each of its files is, if it has several.
    pub piece: Option<u64>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Of a header with a text of `text` bytes.
fn checksum(bytes: &[u8], text: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[16..24]);
    hasher.update(&bytes[28..FIXED + text]);
    hasher.finalize()
}

/// Reads the header of the image at `path`; none if there is no file.
///
/// # Errors
/// If the file is no image, of another version, damaged, or cannot be read.
pub fn header(path: &Path) -> Result<Option<Header>, Error> {
    let fail = |e| Error::io(path.display().to_string(), e);
    let no =
        |what: &str| Error::input(format!("{}: {what}; expected an image that nandle made", path.display()));
    // Not by opening it: that waits for ever if it is a FIFO.
    match fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(fail(e)),
        Ok(metadata) if !metadata.is_file() => return Err(no("not a regular file")),
        Ok(metadata) if metadata.len() == 0 => {
            return Err(no("there is nothing in it (remove it if a new image is to be made in its place)"));
        }
        Ok(_) => {}
    }
    let file = File::open(path).map_err(fail)?;
    read_header(&file).map_err(fail)?.map(Some).map_err(|what| no(&what))
}

/// What a header says, or what is wrong with it.
fn read_header(medium: &dyn Medium) -> std::io::Result<Result<Header, String>> {
    let mut bytes = vec![0; HEADER as usize];
    read(medium, &mut bytes, 0)?;
    let no = |what: &str| Ok(Err(what.to_owned()));
    if bytes.iter().all(|&byte| byte == 0) {
        return no(
            "there are only zeros where its header should be (remove it if a new image is to be made in its place)",
        );
    }
    if medium.length()? < HEADER || bytes[..16] != *MAGIC {
        return no("not an image of a nandle device");
    }
    let version = word(&bytes, 16);
    if ![VERSION, IN_PIECES].contains(&version) {
        return no(&format!(
            "image version {version}, this program knows versions {VERSION} and {IN_PIECES}"
        ));
    }
    let Some(text) = bytes.get(FIXED..FIXED.saturating_add(word(&bytes, 20) as usize)) else {
        return no("damaged header");
    };
    if checksum(&bytes, text.len()) != word(&bytes, 24) {
        return no("damaged header: its checksum is wrong");
    }
    let config = std::str::from_utf8(text).ok().and_then(|text| nandle_lab::config::parse(text).ok());
    let Some(config) = config else {
        return no("a device in the header that this program does not understand");
    };
    let long = |at: usize| u64::from(word(&bytes, at)) | u64::from(word(&bytes, at + 4)) << 32;
    let piece = match word(&bytes, 28) {
        _ if version < IN_PIECES => None,
        power @ 17..=62 => Some(1 << power),
        _ => return no("damaged header: its pieces have no length"),
    };
    Ok(Ok(Header { config, seed: long(32), logical_bytes: long(40), piece }))
}

/// Opens the image at `path` for `drive`, or makes a new one if there is none.
///
/// # Errors
/// If it is in use, cannot be read or written, is damaged (and that was not accepted, or what is missing is not known),
/// or is that of another device: the message names the first setting that differs.
pub fn open(path: &Path, drive: &Drive, how: How) -> Result<Opened, Error> {
    let bytes = Layout::new(&drive.config.unit_geometry()).end();
    let Some(header) = header(path)? else {
        let (medium, unfinished) = Unfinished::make(path, bytes)?;
        return create(medium, path, drive, how, unfinished);
    };
    let first = locked(path, path, false)?;
    let medium = assembled(first, path, header.piece, bytes, File::options().read(true).write(true))?;
    open_in(medium, path, &header, drive, how)
}

/// A new image, to be filled.
fn create(
    medium: Box<dyn Medium>,
    path: &Path,
    drive: &Drive,
    how: How,
    unfinished: Unfinished,
) -> Result<Opened, Error> {
    let mut image = Image::around(medium, path, &drive.config.unit_geometry());
    image.session = Session::new(how.durability);
    image.unfinished = unfinished;
    // What is left of one that was not finished does not count.
    let end = image.store.layout.end();
    image.store.set_length(0)?;
    image.store.set_length(end)?;
    let files = pieces::count(end, image.unfinished.piece.unwrap_or(end));
    Ok(Opened { image, files, array: None, damage: vec![] })
}

/// An image with contents.
fn open_in(
    medium: Box<dyn Medium>,
    path: &Path,
    header: &Header,
    drive: &Drive,
    how: How,
) -> Result<Opened, Error> {
    fits(path, header, drive)?;
    let mut image = Image::around(medium, path, &drive.config.unit_geometry());
    let Loaded { array, damage, repairs, .. } = load::load(&image.store, &drive.config)?;
    let unknown = damage.iter().find(|damage| damage.outcome == Outcome::Unknown);
    if let Some(first) = unknown.or(damage.first())
        && (unknown.is_some() || !how.damaged_ok)
    {
        let more = if damage.len() > 1 { format!(" (and {} more)", damage.len() - 1) } else { String::new() };
        let so = if unknown.is_some() {
            "no drive starts from it"
        } else {
            "expected a sound one, or --damaged-ok to go on without what is lost"
        };
        let name = path.display();
        return Err(Error::input(format!("{name}: {}{more}; {so} (nandle fsck says all of it)", first.what)));
    }
    image.session = Session::new(how.durability);
    image.repair(&array, &repairs)?;
    let end = image.store.layout.end();
    let files = pieces::count(end, header.piece.unwrap_or(end));
    Ok(Opened { image, files, array: Some(array), damage })
}

/// Whether the device of an image is the one that was asked for.
fn fits(path: &Path, header: &Header, drive: &Drive) -> Result<(), Error> {
    let table = |config: &DeviceConfig| toml::Table::try_from(config).unwrap_or_default();
    let (image, given) = (table(&header.config), table(&drive.config));
    let mut differs = None;
    compare("", &toml::Value::Table(image), &toml::Value::Table(given), &mut differs);
    if differs.is_none() && header.logical_bytes != drive.layout.logical_bytes {
        let logical = drive.layout.logical_bytes;
        differs = Some(("logical bytes".into(), header.logical_bytes.to_string(), logical.to_string()));
    }
    match differs {
        None => Ok(()),
        Some((field, image, given)) => Err(Error::input(format!(
            "{}: {field} = {image} in the image, {given} was given; expected the image's own device (leave \
             --device, --scheme and --set away to take it as it is), or another file",
            path.display()
        ))),
    }
}

/// Finds the first setting in which two devices differ: name, first value, second value.
fn compare(at: &str, a: &toml::Value, b: &toml::Value, differs: &mut Option<(String, String, String)>) {
    if differs.is_some() || FREE.contains(&at) {
        return;
    }
    if let (toml::Value::Table(x), toml::Value::Table(y)) = (a, b) {
        let nothing = toml::Value::String("(nothing)".into());
        for key in x.keys().chain(y.keys().filter(|key| !x.contains_key(*key))) {
            let name = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            compare(&name, x.get(key).unwrap_or(&nothing), y.get(key).unwrap_or(&nothing), differs);
        }
    } else if a != b {
        *differs = Some((at.to_owned(), a.to_string(), b.to_string()));
    }
}

impl Image {
    /// An image of such a device in `medium`, without a look at it.
    fn around(medium: Box<dyn Medium>, path: &Path, geometry: &Geometry) -> Self {
        Self {
            store: Store::new(medium, path, geometry),
            session: Session::new(Durability::Process),
            buffer: Vec::new(),
            unsynced_pages: false,
            unsynced: false,
            unmarked: Vec::new(),
            freed: Vec::new(),
            unfinished: Unfinished::default(),
        }
    }

    fn outlives_host(&self) -> bool {
        self.session.durability == Durability::Host
    }

    /// What is wrong if it is not where it should be any more, or not as long.
    #[must_use]
    pub fn is_gone(&self) -> Option<String> {
        let end = self.store.layout.end();
        let how = if !self.store.medium.is_at(&self.store.path) {
            "was deleted or replaced"
        } else if self.store.medium.length().is_ok_and(|bytes| bytes < end) {
            "was truncated"
        } else {
            return None;
        };
        Some(format!("{} {how} while it was served: no writes are taken any more", self.store.path.display()))
    }

    // ---- beginning and end ------------------------------------------------------------------------

    fn write_header(&self, drive: &Drive, seed: u64) -> Result<(), Error> {
        let text = config::resolved(drive);
        let mut bytes = vec![0; FIXED];
        bytes[..16].copy_from_slice(MAGIC);
        let piece = self.unfinished.piece;
        let version = if piece.is_some() { IN_PIECES } else { VERSION };
        bytes[16..20].copy_from_slice(&version.to_le_bytes());
        bytes[28..32].copy_from_slice(&piece.map_or(0, u64::ilog2).to_le_bytes());
        bytes[20..24].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes[32..40].copy_from_slice(&seed.to_le_bytes());
        bytes[40..48].copy_from_slice(&drive.layout.logical_bytes.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        if bytes.len() as u64 > HEADER {
            return Err(Error::input(format!(
                "{}: the device's description takes {} bytes; expected at most {}",
                self.store.path.display(),
                bytes.len(),
                HEADER
            )));
        }
        let sum = checksum(&bytes, text.len());
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(HEADER as usize, 0);
        self.store.write(&bytes, 0)
    }

    /// Everything that a new drive holds before its first request. Only then it gets its name, so that an image that
    /// was not finished is none.
    pub(crate) fn filled(mut self, drive: &Drive, seed: u64, array: &Array) -> Result<Self, Error> {
        self.write_blocks(array)?;
        // A new drive has many blocks, and few that hold something.
        let written = |block: &Block| array.pages_programmed(*block) > 0;
        let blocks: Vec<Block> = self.store.layout.blocks().filter(written).collect();
        for block in blocks {
            for page in 0..self.store.layout.geometry().pages_per_block {
                let ppn = self.store.layout.geometry().ppn(block, page);
                if array.page_use(ppn) != PageUse::Erased {
                    self.write_page(array, ppn)?;
                }
            }
        }
        self.settle()?;
        self.write_header(drive, seed)?;
        self.begin_session()?;
        let named = self.unfinished.finish().map_err(|e| self.store.fail(e))?;
        if named && self.outlives_host() {
            let parent = self.store.path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
            directory.map_err(|e| self.store.fail(e))?;
        }
        Ok(self)
    }

    /// Writes what was found to be missing, or torn.
    fn repair(&mut self, array: &Array, repairs: &[Repair]) -> Result<(), Error> {
        for &repair in repairs {
            match repair {
                Repair::Page(ppn) => self.write_page(array, ppn)?,
                Repair::Copy(ppn) => {
                    self.lay_out_page(array, ppn);
                    self.store.write(&copy_of(&self.buffer), self.store.layout.copy(ppn))?;
                }
                Repair::Block(block) => self.write_block(array, block)?,
                Repair::Clear(ppn) => {
                    let bytes = vec![0; self.store.layout.slots().1 as usize];
                    self.store.write(&bytes, self.store.layout.slot(ppn))?;
                }
            }
        }
        self.settle()?;
        self.begin_session()
    }

    /// From now on it is known that it is open, and what its writes outlive.
    fn begin_session(&mut self) -> Result<(), Error> {
        self.store.write(&self.session.bytes(), self.store.layout.session())?;
        self.store.sync()
    }

    /// Everything is on the disk, copies included.
    fn settle(&mut self) -> Result<(), Error> {
        self.sync()?;
        self.store.sync()
    }

    /// Brings everything to the disk, and notes that nobody has it open.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn close(mut self) -> Result<(), Error> {
        self.settle()?;
        self.session.open = false;
        self.begin_session()
    }

    // ---- while it is served -----------------------------------------------------------------------

    /// Carries over what has changed on flash, which keeps stale sectors ([`Array::keep_stale`]): what superseded them is
    /// not in the file yet.
    ///
    /// # Errors
    /// If the file cannot be written: nothing can be promised any more.
    pub fn follow(&mut self, array: &Array, changes: &[Change]) -> Result<(), Error> {
        debug_assert!(array.keeps_stale() || changes.is_empty(), "what the file may need is forgotten");
        for &change in changes {
            let barrier = self.outlives_host() && self.needs_sync(array, change);
            if barrier {
                self.sync()?;
            }
            match change {
                Change::Program(ppn, _) | Change::Page(ppn) if array.page_use(ppn) == PageUse::Erased => {}
                Change::Program(ppn, _) | Change::Page(ppn) => self.write_page(array, ppn)?,
                Change::Block(block) => self.write_block(array, block)?,
                Change::Erased(block) => {
                    // The record first: from then on the old pages count as erased, whether the hole is there or not.
                    self.write_block(array, block)?;
                    self.freed.push(block);
                    if !self.outlives_host() {
                        self.free_erased()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether what was written before must be on the disk before this.
    fn needs_sync(&self, array: &Array, change: Change) -> bool {
        match change {
            Change::Program(ppn, _) | Change::Page(ppn) => {
                let last = matches!(array.page_use(ppn), PageUse::Checkpoint | PageUse::Torn);
                last && self.unsynced_pages
                    || self.freed.contains(&self.store.layout.geometry().block_of(ppn))
            }
            Change::Block(block) => {
                array.condition(block) == BlockCondition::Undefined && self.unsynced_pages
            }
            Change::Erased(_) => self.unsynced_pages,
        }
    }

    /// Before a flush or a FUA write is answered: what it covers outlives what it is to outlive.
    ///
    /// # Errors
    /// If the system cannot: nothing can be promised any more.
    pub fn make_durable(&mut self) -> Result<(), Error> {
        if self.outlives_host() && self.unsynced { self.sync() } else { Ok(()) }
    }

    /// Brings pages and block records to the disk; then copies of their heads may be written, and erased blocks freed.
    fn sync(&mut self) -> Result<(), Error> {
        self.store.sync()?;
        (self.unsynced_pages, self.unsynced) = (false, false);
        for (at, bytes) in std::mem::take(&mut self.unmarked) {
            self.store.write(&bytes, at)?;
        }
        self.free_erased()
    }

    fn free_erased(&mut self) -> Result<(), Error> {
        for block in std::mem::take(&mut self.freed) {
            for area in self.store.layout.areas(block) {
                self.store.punch(area)?;
            }
        }
        Ok(())
    }

    /// Lays a page's record out in the buffer.
    fn lay_out_page(&mut self, array: &Array, ppn: Ppn) {
        let oob: Oob<'_> = array.oob(ppn);
        let contents: Vec<&[u8]> = match oob.kind {
            PageUse::Data => array.sectors(ppn, 0, self.store.layout.geometry().sectors_per_page()).collect(),
            PageUse::Map | PageUse::Meta | PageUse::Checkpoint => {
                array.note(ppn).into_iter().flat_map(Note::lines).collect()
            }
            PageUse::Padding | PageUse::Torn | PageUse::Erased => vec![],
        };
        let numbers = (array.seq(ppn), array.version(ppn), array.lost(ppn));
        write_page(&mut self.buffer, ppn.0, numbers, &oob, &contents);
    }

    fn write_page(&mut self, array: &Array, ppn: Ppn) -> Result<(), Error> {
        self.lay_out_page(array, ppn);
        self.store.write(&self.buffer, self.store.layout.slot(ppn))?;
        (self.unsynced_pages, self.unsynced) = (true, true);
        let (at, copy) = (self.store.layout.copy(ppn), copy_of(&self.buffer));
        if self.outlives_host() {
            self.unmarked.push((at, copy));
            return Ok(());
        }
        self.store.write(&copy, at)
    }

    fn write_block(&mut self, array: &Array, block: Block) -> Result<(), Error> {
        let record = self.record_of(array, block).bytes();
        self.unsynced = true;
        for at in self.store.layout.records(block) {
            self.store.write(&record, at)?;
        }
        Ok(())
    }

    /// The records of all blocks, at once.
    fn write_blocks(&mut self, array: &Array) -> Result<(), Error> {
        let layout = &self.store.layout;
        let records: Vec<u8> =
            layout.blocks().flat_map(|block| self.record_of(array, block).bytes()).collect();
        if let Some(first) = layout.blocks().next() {
            for at in layout.records(first) {
                self.store.write(&records, at)?;
            }
        }
        self.unsynced = true;
        Ok(())
    }

    fn record_of(&self, array: &Array, block: Block) -> BlockRecord {
        // After an erase the next programs may be on order already.
        let on_order = array.pages_programmed(block) > 0;
        let since = if on_order { array.seq_of_block(block) } else { array.next_seq() };
        BlockRecord {
            block: self.store.layout.number(block) as u32,
            erases: array.erases(block),
            condition: array.condition(block),
            doomed: array.is_doomed(block),
            since,
        }
    }
}

#[cfg(test)]
mod tests;
