//! What collection works on: a job a plane, and what it has beside its own state.

use nandle_nand::Block;
use smallvec::SmallVec;

use crate::flash::{Flash, Moved};
use crate::schemes::Schemes;
use crate::space::GroupId;

/// Who keeps records, and pages of the drive's own, that collection must not lose.
pub trait Keeper {
    /// Puts the records that wait on flash, if there is room; with `plane` a block of that plane is about to
    /// be erased, and its collection blocks serve if there is no other room.
    fn write_records(&mut self, flash: &mut Flash, schemes: &mut Schemes, plane: Option<u32>);
    /// `block` is not erased before the records that were written are on flash.
    fn hold(&self, flash: &mut Flash, block: Block);
    /// One of the drive's own pages is somewhere else now.
    fn moved(&mut self, moved: Moved);
    /// What was decided at sequence number `seq` goes to another place than what was written since may say.
    fn doubt(&mut self, flash: &mut Flash, seq: u64);
}

/// What collection works with beside its own state.
pub(crate) struct Work<'a> {
    pub flash: &'a mut Flash,
    pub schemes: &'a mut Schemes,
    pub keeper: &'a mut dyn Keeper,
}

/// What collection is doing in one plane.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub victim: Option<Block>,
    /// Pages before this one need no more looking at.
    pub cursor: u32,
    pub erasing: bool,
    /// Former victims whose last copies share a page that is not full yet, and those being erased.
    pub emptied: SmallVec<[Block; 2]>,
    pub leaving: SmallVec<[Block; 2]>,
    /// Moves cold data instead of collecting garbage.
    pub wear: bool,
    /// The pace of host writes sets that of the copies: host pages when it was last looked at, and copies that they
    /// paid for, in 1024ths; `u64::MAX`: nothing holds it back.
    pub paced: Option<u64>,
    pub paid: u64,
    /// Valid pages that the victim had at first.
    pub valid: u32,
    /// Where the copies go if there is room.
    pub group: Option<GroupId>,
    /// Next closed block that static wear levelling looks at.
    pub wear_cursor: usize,
    pub most_erases: u32,
}
