//! Which group a write belongs to, and what is counted of it.

use super::{Dedicated, GroupId, Space};

impl Space {
    /// The group of host data of `lpn`, written with the host's stream id `hint`.
    #[inline]
    pub fn host_group(&self, lpn: u32, hint: u16) -> GroupId {
        match &self.dedicated {
            None if self.streams == 1 => GroupId::Host(0),
            None => GroupId::Host(hint % self.streams),
            Some(dedicated) => dedicated.group_of(lpn),
        }
    }
    /// Host streams.
    #[inline]
    pub fn streams(&self) -> u16 {
        self.streams
    }
    /// Whether the group is that of a stream's survivors.
    #[inline]
    pub(super) fn is_of_survivors(&self, group: GroupId) -> bool {
        self.survivors_apart && matches!(group, GroupId::Host(n) if n >= self.streams)
    }
    /// Whether `group` may take the blocks that host writes leave.
    #[inline]
    pub fn may_use_reserve(&self, group: GroupId) -> bool {
        group.is_collected_into() || self.is_of_survivors(group)
    }
    /// Where garbage collection puts what survives of a block that was written for `from`.
    #[inline]
    pub fn survivors_of(&self, from: GroupId) -> GroupId {
        match from {
            GroupId::Host(stream) if self.survivors_apart => {
                GroupId::Host(self.streams + stream % self.streams)
            }
            _ => GroupId::Survivors,
        }
    }
    /// A survivor that belonged to `own` went to `group`.
    #[inline]
    pub(crate) fn survivor_went(&mut self, own: GroupId, group: GroupId) {
        self.mixed_pages += u64::from(self.is_of_survivors(own) && own != group);
    }
    /// Survivors of streams that are kept apart that had to be mixed with others.
    pub fn mixed_pages(&self) -> u64 {
        self.mixed_pages
    }
    /// A page with host data was written for `group`.
    #[inline]
    pub(crate) fn count_host_page(&mut self, group: GroupId) {
        if let GroupId::Host(stream) = group
            && let Some(count) = self.host_pages.get_mut(usize::from(stream))
        {
            *count += 1;
        }
    }
    /// Host pages written to a stream since power-on.
    pub fn host_pages(&self, stream: u16) -> u64 {
        self.host_pages.get(usize::from(stream)).copied().unwrap_or(0)
    }
    /// The dedicated groups, if the drive may have any.
    #[inline]
    pub fn dedicated(&self) -> Option<&Dedicated> {
        self.dedicated.as_deref()
    }
    #[inline]
    pub(crate) fn dedicated_mut(&mut self) -> Option<&mut Dedicated> {
        self.dedicated.as_deref_mut()
    }
    /// Whether blocks may be claimed before they are written.
    #[inline]
    pub fn may_be_claimed(&self) -> bool {
        self.dedicated.as_ref().is_some_and(|d| d.may_claim())
    }
    /// Whether pages may lie off their home planes.
    #[inline]
    pub fn is_off_home(&self) -> bool {
        self.dedicated.as_ref().is_some_and(|d| d.off_home())
    }
}
