//! What is placed: the parts of a write, on their way to flash.

use nandle_nand::OpId;

use crate::media::Contents;

/// Some sectors of one logical page, on their way to flash.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Logical page.
    pub lpn: u32,
    /// Its sectors.
    pub mask: u64,
    /// Further sectors of the page that stay where they are: somebody else looks after them.
    pub held: u64,
    /// The host request that wrote them last falls in one logical page.
    pub alone: bool,
    /// Their contents.
    pub contents: Contents<'a>,
    /// Buffered sectors that its program gives back.
    pub release: u32,
    /// The load of its mapping entry, if that is under way.
    pub load: Option<OpId>,
    /// Stored sectors of the page that are to be read and programmed with it, if a policy has an opinion.
    pub rewrite: Option<u64>,
}

/// What is placed together: one part as a rule; the two parts of a run that straddles a page border
/// (a host request no larger than a page); or what a buffer destages in one batch.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// In ascending order.
    pub parts: &'a [Part<'a>],
    /// The request that waits for all of its programs, if one does.
    pub request: Option<u32>,
    /// The host's stream id.
    pub stream: u16,
    /// The host request's first sector and end; nothing for what a buffer destages.
    pub range: (u64, u64),
}
