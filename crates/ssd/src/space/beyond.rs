//! Pages beyond one per logical page, and what is left of a plane beside them.

use super::Space;

impl Space {
    /// Whether surplus pages have to be looked after when a logical page loses others.
    #[inline]
    pub(crate) fn surplus_settles(&self) -> bool {
        self.surplus_settles && self.blocks.surplus_total() > 0
    }

    /// Pages of `plane` that are more than one per logical page and not marked as surplus.
    #[inline]
    pub fn apart(&self, plane: u32) -> u32 {
        self.apart[plane as usize]
    }
    #[inline]
    pub(crate) fn add_apart(&mut self, plane: u32) {
        self.apart[plane as usize] += 1;
    }
    #[inline]
    pub(crate) fn drop_apart(&mut self, plane: u32) {
        self.apart[plane as usize] -= 1;
    }
    /// Pages of `plane` beyond what all logical pages and the reserve need.
    #[inline]
    pub fn beyond_need(&self, plane: u32) -> u32 {
        self.blocks.good(plane).saturating_sub(self.limits.least) * self.pages_per_block
    }
    /// Pages beyond what all logical pages and the reserve need, less those that are taken: by surplus pages, and by
    /// what dedicated blocks may keep from other data.
    pub fn spare_beside_claims(&self) -> u64 {
        let pages = |of: &dyn Fn(u32) -> u32| (0..self.planes).map(|plane| u64::from(of(plane))).sum::<u64>();
        let claimed = self.dedicated().map_or(0, |dedicated| dedicated.cost());
        let surplus = u64::from(self.blocks.surplus_total()) + pages(&|plane| self.apart(plane));
        pages(&|plane| self.beyond_need(plane)).saturating_sub(claimed + surplus)
    }
    /// Whether another surplus page leaves claims what they have.
    #[inline]
    pub fn leaves_claims_theirs(&self) -> bool {
        !self.may_be_claimed() || self.spare_beside_claims() > 0
    }
    /// Pages of `plane` that collection can fill and that hold no logical page of their own: those that
    /// are spare, and those that the host has not written.
    pub fn unused_pages(&self, plane: u32) -> u32 {
        let reserves = self.limits.least - self.limits.data - self.limits.surplus;
        let room = self.blocks.good(plane).saturating_sub(reserves) * self.pages_per_block;
        room.saturating_sub(self.own_pages(plane))
    }
    /// Logical pages of `plane` that the host has not written.
    pub fn unwritten_pages(&self, plane: u32) -> u32 {
        let data = self.limits.data * self.pages_per_block;
        data.saturating_sub(self.own_pages(plane))
    }
    /// Live pages of `plane` that are not more than one per logical page (one about to be counted as such
    /// is left out already). Where blocks may be claimed all logical pages count.
    pub(super) fn own_pages(&self, plane: u32) -> u32 {
        if self.may_be_claimed() {
            return self.limits.data * self.pages_per_block;
        }
        self.blocks.live(plane).saturating_sub(self.blocks.surplus(plane) + self.apart(plane))
    }
}
