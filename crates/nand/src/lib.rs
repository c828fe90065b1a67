//! A NAND flash array and its time.
//!
//! [`Nand`] takes orders (read, program, erase), works out when each is carried out on its die
//! and channel, and says so when it is done. It keeps what was programmed, with its out-of-band
//! area, and never interprets it. It refuses what flash cannot do: a program out of order or over
//! a written page, an erase under work, two operations on one die.
//!
//! There is no clock, thread, file or callback here: [`Nand::next_event`] says when something
//! happens, [`Nand::step`] makes it happen. All times are nanoseconds.
#![warn(missing_docs)]

mod array;
mod cell;
mod changes;
mod contents;
mod fault;
mod geometry;
pub mod memory;
mod note;
mod oob;
mod op;
mod places;
mod power;
mod reading;
mod schedule;
mod shape;
mod slc;
mod slots;
mod stages;
mod stale;
mod superblock;
mod timers;
mod timing;
mod weave;
mod zeros;

pub use array::{Array, BlockCondition, Change, Silicon};
pub use cell::{Cell, CellKind, PageType, ProgramOrder};
pub use changes::NotFlash;
pub use fault::FaultConfig;
pub use geometry::{Block, Geometry, GeometryError, Ppn};
pub use note::Note;
pub use oob::{Extent, Extents, Oob, PageUse};
pub use op::{Cause, Done, Kind, OpId};
pub use schedule::{Counters, Nand, NandConfig, Ready};
pub use shape::Shape;
pub use slc::SlcMode;
pub use timers::Time;
pub use timing::{ReadRetry, Scheduler, Suspend, Timing, TimingError};
pub use weave::Superblocks;
pub use zeros::{Word, Zeros};
