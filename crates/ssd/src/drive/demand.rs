//! Reservation: pages that a write may take are made sure of before anything of it is placed.

use smallvec::SmallVec;

use crate::flash::{Flash, Ticket};
use crate::schemes::Reach;
use crate::space::{GroupId, PageClass};

/// Pages of one class that writes of a logical page by a group may take, in the plane that they go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need {
    lpn: u32,
    group: GroupId,
    class: PageClass,
    pages: u32,
}

/// What placing some parts together may take, at worst.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    needs: SmallVec<[Need; 4]>,
}

/// A part of a write, as a demand is made of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// Logical page.
    pub lpn: u32,
    /// The host's stream id.
    pub stream: u16,
    /// It covers its page.
    pub full: bool,
    /// Its request falls in one logical page.
    pub alone: bool,
}

/// Why a demand is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait;

impl Demand {
    /// Adds a part that is placed together with others, `parts` in all.
    pub fn add(&mut self, part: Asking, parts: u32, reach: &Reach, flash: &Flash) {
        let Asking { lpn, stream, full, alone } = part;
        let pages = parts * reach.pages;
        let last = (lpn + reach.distance).min(flash.logical_pages() - 1);
        for near in lpn.saturating_sub(reach.distance)..=last {
            let group = flash.host_group(near, stream);
            self.needs.push(Need { lpn: near, group, class: PageClass { full, alone }, pages });
            if full && reach.mixes_classes {
                // A whole page may be written as parts of pages.
                let class = PageClass { full: false, alone };
                self.needs.push(Need { lpn: near, group, class, pages });
            }
        }
    }

    /// Whether all of it is to be had now.
    pub fn is_met(&self, flash: &Flash) -> bool {
        self.needs.iter().all(|need| flash.has_room(need.lpn, need.group, need.class, need.pages))
    }

    /// A ticket for all of it; if it is not to be had, whoever can make room is told.
    ///
    /// # Errors
    /// If it has to wait.
    pub fn reserve(&self, flash: &mut Flash) -> Result<Ticket, Wait> {
        if self.is_met(flash) {
            return Ok(Ticket::new(self.needs.iter().map(|need| need.pages).sum()));
        }
        for need in &self.needs {
            let (space, media) = flash.space_and_media();
            space.call_for(need.lpn, need.group, need.class, need.pages, media);
        }
        Err(Wait)
    }
}

/// As a demand of one part that is placed alone and stays in its page: the common case.
#[inline(always)]
pub(super) fn reserve_one(flash: &Flash, part: Asking) -> Option<Ticket> {
    let group = flash.host_group(part.lpn, part.stream);
    let class = PageClass { full: part.full, alone: part.alone };
    flash.has_room(part.lpn, group, class, 1).then(|| Ticket::new(1))
}
