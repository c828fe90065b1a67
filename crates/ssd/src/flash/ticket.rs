//! Tickets: what a reservation grants, and placing one write spends.

use super::Flash;
use crate::space::{GroupId, PageClass, Place};

/// Leave to write so many pages for the host, for one write, at once: room for them was found where they go. What
/// placing the write does not need is given back with the ticket; none outlives its step.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket {
    pages: u32,
}

impl Ticket {
    /// For `pages` pages, for which there is room.
    pub(crate) fn new(pages: u32) -> Self {
        Self { pages }
    }
}

impl Flash {
    /// A write is about to be placed with this ticket.
    #[inline(always)]
    pub(crate) fn spend(&mut self, ticket: Ticket) {
        self.granted = ticket.pages;
    }

    /// A page of the ticket's is written.
    #[inline(always)]
    pub(super) fn spend_page(&mut self) {
        debug_assert!(self.granted > 0, "a scheme writes more pages than its reach says");
        self.granted = self.granted.saturating_sub(1);
    }

    /// The plane of the next page of `lpn` that a ticket was given for.
    #[inline(always)]
    pub fn granted_plane(&mut self, lpn: u32, group: GroupId, class: PageClass) -> u32 {
        self.granted_plane_of::<false>(lpn, group, class)
    }
    #[inline(always)]
    pub(crate) fn granted_plane_of<const PLAIN: bool>(
        &mut self,
        lpn: u32,
        group: GroupId,
        class: PageClass,
    ) -> u32 {
        match self.space.granted_plane::<PLAIN>(lpn, group, class, &self.media) {
            Some(plane) => plane,
            None => self.fullest_pool(),
        }
    }

    /// Whoever took more than was granted lives on what collection keeps for itself.
    #[cold]
    fn fullest_pool(&self) -> u32 {
        let planes = 0..self.geometry().planes();
        planes.max_by_key(|&plane| self.blocks().free(plane)).unwrap_or(0)
    }

    /// A page in any plane, for one that the chosen plane has none for.
    ///
    /// # Panics
    /// If no plane has an erased page: flash cannot be written twice.
    #[cold]
    pub(super) fn take_anywhere(&mut self, lpn: u32, group: GroupId, class: PageClass) -> Place {
        let mut planes = 0..self.geometry().planes();
        match planes.find_map(|plane| self.space.take::<false>(lpn, plane, group, class, &self.media)) {
            Some(place) => place,
            None => panic!("no plane has an erased page left"),
        }
    }
}
