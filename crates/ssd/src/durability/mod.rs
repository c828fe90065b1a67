//! Durability: the metadata log, the rolling checkpoint, and power-on after a cut.

use nandle_nand::{Block, Note, PageUse, Ppn};

mod checkpoint;
mod config;
mod log;
mod recovery;
mod trims;

pub use config::RecoveryConfig;
pub(crate) use recovery::Recovery;
pub use recovery::{Look, RecoveryReport};

use crate::collect::Keeper;
use crate::flash::{Flash, Moved, Record};
use crate::schemes::Schemes;
use checkpoint::Checkpoint;
use log::Log;

/// Most pages of the drive's own that may be live at a time: of the log, and of checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemPages {
    /// Of the metadata log.
    pub log: u32,
    /// Of checkpoints.
    pub checkpoint: u32,
}

impl SystemPages {
    /// On a device of so many logical and translation pages; `scatters`: logical pages may lie in several
    /// places.
    pub(crate) fn most(
        config: &RecoveryConfig,
        (page_bytes, sectors_per_page): (u32, u32),
        logical_pages: u32,
        map_pages: u32,
        scatters: bool,
    ) -> Self {
        let sectors = u64::from(logical_pages) * u64::from(sectors_per_page);
        let log = log::most_pages(sectors, page_bytes);
        let checkpoint = if config.checkpoint_interval == 0 {
            0
        } else {
            checkpoint::most_pages(page_bytes, logical_pages, map_pages, log, scatters)
        };
        Self { log, checkpoint }
    }
}

/// What keeps a drive's word over power cuts.
#[derive(Clone, Debug)]
pub struct Durability {
    log: Log,
    checkpoint: Checkpoint,
}

impl Durability {
    pub(crate) fn new(config: &RecoveryConfig, most: SystemPages) -> Self {
        Self { log: Log::default(), checkpoint: Checkpoint::new(config.checkpoint_interval, most.checkpoint) }
    }

    /// Live pages of the log: number and place.
    pub(crate) fn log_pages(&self) -> &[(u32, Ppn)] {
        self.log.pages()
    }
    /// Live pages of the checkpoint.
    pub(crate) fn checkpoint_pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.checkpoint.pages()
    }
    /// Whether a checkpoint page is whole.
    pub(crate) fn is_whole(note: &Note) -> bool {
        checkpoint::Slice::read(note).is_some()
    }
    /// What a log page says.
    pub(crate) fn read_log_page(bytes: &[u8], found: impl FnMut(Record)) {
        log::read_page(bytes, found);
    }
}

impl Keeper for Durability {
    fn write_records(&mut self, flash: &mut Flash, schemes: &mut Schemes, plane: Option<u32>) {
        self.write_log(flash, schemes, plane);
    }
    fn hold(&self, flash: &mut Flash, block: Block) {
        self.hold_for_log(flash, block);
    }
    fn moved(&mut self, moved: Moved) {
        match moved.kind {
            PageUse::Checkpoint => self.checkpoint.moved(moved.number, moved.to),
            PageUse::Meta => self.log.moved(moved.number, moved.to),
            _ => {}
        }
    }
    fn doubt(&mut self, flash: &mut Flash, seq: u64) {
        self.void_checkpoint(flash, seq);
    }
}
