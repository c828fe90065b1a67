//! The flash in a sparse file.
//!
//! ```text
//! 0        header: magic, version, checksum, the device's configuration
//! 64 KiB   block records, 32 bytes each: erases, condition
//!          page records, a slot each: out-of-band area (1 KiB), contents
//! ```
//!
//! Only what operations have finished is in it, in the order in which they finished, so whenever the
//! process is killed the file holds what a power cut at that moment would have left. A record that
//! was half written fails its checksum: a page reads as torn, a block as one whose erase was cut off.
//! This is about the process: against a crash of the whole machine the file is as safe as the file
//! system's cache, that is after [`Image::sync`].

pub mod check;
pub mod record;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nandle_lab::config::{self, Drive};
use nandle_ssd::DeviceConfig;
use nandle_ssd::nand::{Array, Block, BlockCondition, Change, Extents, Geometry, Oob, PageUse, Ppn};
use record::{BLOCK_BYTES, BlockRecord, PAGE_HEAD, PageRecord, write_page};
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};

use crate::Error;

const MAGIC: &[u8; 16] = b"nandle image\r\n\x1a\n";
/// Since version 2 every block has a record, also one that was never erased.
const VERSION: u32 = 2;
const HEADER: u64 = 64 << 10;
/// magic, version, length of the text, checksum of what follows, seed, logical bytes, text
const FIXED: usize = 48;
/// Page slots begin at multiples of this, so that a hole frees what it covers.
const ALIGN: u64 = 4096;

/// Settings that may differ from those with which an image was made: they change neither what the
/// flash holds nor how it is read.
const FREE: [&str; 7] = ["name", "description", "timing", "queue", "precondition", "gc", "faults"];

/// An image, locked, and where everything lies in it.
#[derive(Debug)]
pub struct Image {
    file: File,
    path: PathBuf,
    geometry: Geometry,
    pages_at: u64,
    slot_bytes: u64,
    /// Of the layout.
    version: u32,
    buffer: Vec<u8>,
}

/// An image that is ready to be served from.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub image: Image,
    /// What it holds; none if it is new.
    pub array: Option<Box<Array>>,
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
    /// Of the layout.
    pub version: u32,
}

/// Reads the header of the image at `path`; none if there is no file, or nothing in it yet.
///
/// # Errors
/// If the file is no image, of another version, damaged, or cannot be read.
pub fn header(path: &Path) -> Result<Option<Header>, Error> {
    let fail = |e| Error::io(path.display().to_string(), e);
    let file = match File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(fail)?,
    };
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_file() && metadata.len() == 0 {
        return Ok(None);
    }
    let no =
        |what: &str| Error::input(format!("{}: {what}; expected an image that nandle made", path.display()));
    let mut bytes = vec![0; HEADER as usize];
    let whole = metadata.is_file() && file.read_exact_at(&mut bytes, 0).is_ok();
    if whole && bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    if !whole || bytes[..16] != *MAGIC {
        return Err(no("not an image of a nandle device"));
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    if !(1..=VERSION).contains(&word(16)) {
        let known = format!("this program knows versions 1 to {VERSION}");
        return Err(no(&format!("image version {}, {known}", word(16))));
    }
    let text =
        bytes.get(FIXED..FIXED.saturating_add(word(20) as usize)).ok_or_else(|| no("damaged header"))?;
    if crc32fast::hash(&bytes[28..FIXED + text.len()]) != word(24) {
        return Err(no("damaged header: its checksum is wrong"));
    }
    let config = std::str::from_utf8(text).ok().and_then(|text| toml::from_str(text).ok());
    let config = config.ok_or_else(|| no("a device in the header that this program does not understand"))?;
    Ok(Some(Header { config, seed: long(32), logical_bytes: long(40), version: word(16) }))
}

/// Opens the image at `path` for `drive`, or makes a new one if there is none.
///
/// # Errors
/// If it is in use, cannot be read or written, is damaged, or is that of another device: the message
/// names the first setting that differs.
pub fn open(path: &Path, drive: &Drive) -> Result<Opened, Error> {
    let fail = |e| Error::io(path.display().to_string(), e);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| Error::input(format!("{}: {e}; expected a file that can be written", path.display())))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| {
        if e == rustix::io::Errno::WOULDBLOCK {
            Error::input(format!(
                "{}: in use by another process; expected an image that is free",
                path.display()
            ))
        } else {
            fail(e.into())
        }
    })?;
    let mut image = Image::around(file, path, &drive.config.unit_geometry());
    let Some(header) = header(path)? else {
        // Nothing, or what is left of one that was not finished.
        image.file.set_len(0).and_then(|()| image.file.set_len(image.end())).map_err(fail)?;
        return Ok(Opened { image, array: None });
    };
    image.version = header.version;
    fits(path, &header, drive)?;
    let bytes = image.file.metadata().map_err(fail)?.len();
    if bytes < image.end() {
        return Err(Error::input(format!(
            "{}: truncated: {bytes} bytes, {} expected (nandle fsck says what is left)",
            path.display(),
            image.end()
        )));
    }
    let array = Box::new(image.load(&drive.config)?);
    Ok(Opened { image, array: Some(array) })
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
    /// An image of such a device in `file`, without a look at it.
    fn around(file: File, path: &Path, geometry: &Geometry) -> Self {
        let table = geometry.blocks() * BLOCK_BYTES as u64;
        Self {
            file,
            path: path.to_owned(),
            pages_at: (HEADER + table).next_multiple_of(ALIGN),
            slot_bytes: (PAGE_HEAD as u64 + u64::from(geometry.page_bytes)).next_multiple_of(ALIGN),
            version: VERSION,
            geometry: geometry.clone(),
            buffer: Vec::new(),
        }
    }

    /// Where the last page record ends.
    fn end(&self) -> u64 {
        self.pages_at + self.geometry.pages() * self.slot_bytes
    }

    /// Reads what is at `at`; zeros behind the end of a file that is too short.
    fn read(&self, mut into: &mut [u8], mut at: u64) -> Result<(), Error> {
        while !into.is_empty() {
            match self.file.read_at(into, at) {
                Ok(0) => {
                    into.fill(0);
                    break;
                }
                Ok(n) => {
                    into = &mut into[n..];
                    at += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    /// Whether nothing was ever written to the pages of a block, or a hole was punched there: such blocks
    /// are many, and are not looked at page by page.
    fn is_hole(&self, block: Block) -> bool {
        let first = self.slot(self.geometry.ppn(block, 0));
        let end = first + u64::from(self.geometry.pages_per_block) * self.slot_bytes;
        match rustix::fs::seek(&self.file, SeekFrom::Data(first)) {
            Ok(data) => data >= end,
            Err(e) => e == rustix::io::Errno::NXIO,
        }
    }

    fn fail(&self, e: impl Into<std::io::Error>) -> Error {
        Error::io(self.path.display().to_string(), e)
    }

    fn write_header(&self, drive: &Drive, seed: u64) -> Result<(), Error> {
        let text = config::resolved(drive);
        let mut bytes = vec![0; FIXED];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&VERSION.to_le_bytes());
        bytes[20..24].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes[32..40].copy_from_slice(&seed.to_le_bytes());
        bytes[40..48].copy_from_slice(&drive.layout.logical_bytes.to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        if bytes.len() as u64 > HEADER {
            return Err(Error::input(format!(
                "{}: the device's description takes {} bytes; expected at most {}",
                self.path.display(),
                bytes.len(),
                HEADER
            )));
        }
        let sum = crc32fast::hash(&bytes[28..]);
        bytes[24..28].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(HEADER as usize, 0);
        self.file.write_all_at(&bytes, 0).map_err(|e| self.fail(e))
    }

    /// Everything that a new drive holds before its first request; the header comes last, so that
    /// an image that was not finished is none.
    pub(crate) fn filled(mut self, drive: &Drive, seed: u64, array: &Array) -> Result<Self, Error> {
        for plane in 0..self.geometry.planes() {
            for block in self.geometry.blocks_of(plane) {
                self.write_block(array, block, false)?;
                for page in 0..self.geometry.pages_per_block {
                    let ppn = self.geometry.ppn(block, page);
                    if array.page_use(ppn) != PageUse::Erased {
                        self.write_page(array, ppn)?;
                    }
                }
            }
        }
        self.write_header(drive, seed)?;
        Ok(self)
    }

    /// Carries over what has changed on flash.
    ///
    /// # Errors
    /// If the file cannot be written: nothing can be promised any more.
    pub fn follow(&mut self, array: &Array, changes: &[Change]) -> Result<(), Error> {
        for &change in changes {
            match change {
                Change::Page(ppn) => self.write_page(array, ppn)?,
                Change::Block(block) => self.write_block(array, block, false)?,
                Change::Erased(block) => self.write_block(array, block, true)?,
            }
        }
        Ok(())
    }

    /// Brings the file to the disk.
    ///
    /// # Errors
    /// If the system cannot.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.file.sync_data().map_err(|e| self.fail(e))
    }

    /// Blocks and pages without the gaps that addresses have.
    fn number(&self, block: Block) -> u64 {
        let g = &self.geometry;
        let index = block.0 & ((1 << g.block_bits()) - 1);
        u64::from(g.plane_of(block)) * u64::from(g.blocks_per_plane) + u64::from(index)
    }

    fn slot(&self, ppn: Ppn) -> u64 {
        let g = &self.geometry;
        let page = self.number(g.block_of(ppn)) * u64::from(g.pages_per_block) + u64::from(g.page_of(ppn));
        self.pages_at + page * self.slot_bytes
    }

    fn write_page(&mut self, array: &Array, ppn: Ppn) -> Result<(), Error> {
        let oob = array.oob(ppn);
        let contents: Vec<&[u8]> = match oob.kind {
            PageUse::Erased => return Ok(()),
            PageUse::Data => array.sectors(ppn, 0, self.geometry.sectors_per_page()).collect(),
            PageUse::Map | PageUse::Meta | PageUse::Checkpoint => {
                array.note(ppn).map(|note| &note[..]).into_iter().collect()
            }
            PageUse::Padding | PageUse::Torn => vec![],
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let numbers = (array.seq(ppn), array.version(ppn), array.lost(ppn));
        write_page(&mut buffer, ppn.0, numbers, &oob, &contents);
        let result = self.file.write_all_at(&buffer, self.slot(ppn));
        self.buffer = buffer;
        result.map_err(|e| self.fail(e))
    }

    /// The record first: from then on the old pages count as erased, whether the hole is there or not.
    fn write_block(&mut self, array: &Array, block: Block, erased: bool) -> Result<(), Error> {
        let number = self.number(block);
        let condition = array.condition(block);
        // After an erase the next programs may be on order already.
        let on_order = array.pages_programmed(block) > 0;
        let since = if on_order { array.seq_of_block(block) } else { array.next_seq() };
        let record = BlockRecord {
            block: number as u32,
            erases: array.erases(block),
            condition,
            doomed: array.is_doomed(block),
            since,
        };
        let at = HEADER + number * BLOCK_BYTES as u64;
        self.file.write_all_at(&record.bytes(), at).map_err(|e| self.fail(e))?;
        if erased {
            let from = self.slot(self.geometry.ppn(block, 0));
            let bytes = u64::from(self.geometry.pages_per_block) * self.slot_bytes;
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match rustix::fs::fallocate(&self.file, flags, from, bytes) {
                // A file system without holes: the old pages stay, and do not count.
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    // ---- reading it back --------------------------------------------------------------------------

    fn load(&self, config: &DeviceConfig) -> Result<Array, Error> {
        let g = &self.geometry;
        let mut array = config.nand().erased(g.sector_bytes as usize);
        array.keep_changes();
        let mut table = vec![0; (g.blocks() as usize) * BLOCK_BYTES];
        self.read(&mut table, HEADER)?;
        let mut slot = vec![0; self.slot_bytes as usize];
        let blocks = (0..g.planes()).flat_map(|plane| g.blocks_of(plane));
        for (block, record) in blocks.zip(table.chunks_exact(BLOCK_BYTES)) {
            let number = self.number(block) as u32;
            let record = BlockRecord::read(number, record.try_into().expect("chunks of that size"));
            array.restore_block(block, record.erases, record.condition, record.doomed);
            if record.since > 0 {
                array.restore_seq(record.since - 1);
            }
            if record.condition == BlockCondition::Good {
                self.load_block(&mut array, block, &record, &mut slot)?;
            }
        }
        Ok(array)
    }

    fn load_block(
        &self,
        array: &mut Array,
        block: Block,
        record: &BlockRecord,
        slot: &mut [u8],
    ) -> Result<(), Error> {
        let g = &self.geometry;
        if self.is_hole(block) {
            return Ok(());
        }
        let mut found: Vec<(u64, Ppn, PageRecord, Vec<u8>)> = Vec::new();
        for page in 0..g.pages_per_block {
            let ppn = g.ppn(block, page);
            let at = self.slot(ppn);
            let head = &mut slot[..PAGE_HEAD];
            self.read(head, at)?;
            let Some(mut read) = PageRecord::read(ppn.0, head) else { continue };
            if read.seq < record.since {
                continue;
            }
            let head = slot[..PAGE_HEAD].to_vec();
            let contents = slot.get_mut(PAGE_HEAD..PAGE_HEAD + read.length);
            let mut sound = false;
            let mut bytes = vec![];
            if let Some(contents) = contents {
                self.read(contents, at + PAGE_HEAD as u64)?;
                sound = read.is_sound(&head, contents) && self.makes_sense(&read);
                bytes = contents.to_vec();
            }
            if !sound {
                read.kind = PageUse::Torn;
            }
            found.push((read.seq, ppn, read, bytes));
        }
        found.sort_by_key(|(seq, ppn, ..)| (*seq, ppn.0));
        for (seq, ppn, read, contents) in found {
            let extents = match read.home {
                Some((lpn, start, len)) => Extents::Home { lpn, start, len },
                None => Extents::List(&read.extents),
            };
            let oob = Oob { kind: read.kind, owner: read.owner, stream: read.stream, extents };
            let torn = read.kind == PageUse::Torn;
            array.restore_page(ppn, (seq, read.version), (!torn).then_some(&oob)).map_err(|e| {
                let plane = g.plane_of(block);
                Error::input(format!("{}: plane {plane}: {e}: the image is damaged", self.path.display()))
            })?;
            match read.kind {
                PageUse::Data => {
                    array.fill(ppn, 0, &contents);
                    array.lose(ppn, read.lost);
                }
                PageUse::Map | PageUse::Meta | PageUse::Checkpoint => array.set_note(ppn, contents.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a page with a right checksum is one of this device.
    fn makes_sense(&self, page: &PageRecord) -> bool {
        let spp = self.geometry.sectors_per_page() as usize;
        let fits = |at: u8, len: u8| len > 0 && usize::from(at) + usize::from(len) <= spp;
        let whole = page.length == self.geometry.page_bytes as usize || !page.kind.is_data();
        let runs = page.extents.iter().all(|e| fits(e.at, e.sectors));
        whole && runs && page.home.is_none_or(|(_, start, len)| fits(start, len))
    }
}

#[cfg(test)]
mod tests;
