//! Places of an image that may be damaged.

use nandle_ssd::nand::{Block, Ppn};

/// A place of an image that may be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The header.
    Header,
    /// The record of who has it open.
    Session,
    /// The records of a block.
    Block(Block),
    /// The record of a page, and the copy of its head.
    Page(Ppn),
}

/// What was found on the way through the image.
#[derive(Debug)]
pub(crate) struct Found {
    /// What may be damaged.
    pub places: Vec<Place>,
    /// That was the end of it.
    pub whole: bool,
}
