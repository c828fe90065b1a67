//! When garbage is collected.

crate::catalog! {
    /// When garbage is collected.
    pub enum PacingKind {
        /// In the background below the soft watermark, in the foreground below the hard one.
        Watermark = "watermark",
        /// As watermark, and in the background no faster than host writes use up room: slower just below the soft
        /// watermark, faster the nearer the hard one is.
        Rate = "rate",
        /// In the background below the soft watermark, but only blocks with next to nothing valid (`gc.lazy`); any
        /// block in the foreground, where host writes may find no room otherwise (WARP).
        Lazy = "lazy",
    }
}

impl PacingKind {
    /// Why a plane with `free` blocks should be collected, if it should.
    #[inline]
    pub(super) fn wants(self, free: u32, soft: u32, kept: u32) -> Option<Need> {
        match self {
            Self::Lazy if free >= kept => (free < soft).then_some(Need::CheapRoom),
            Self::Watermark | Self::Rate | Self::Lazy => (free < soft).then_some(Need::Room),
        }
    }
}

/// Why a plane is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Pages run out.
    Room,
    /// They will, and what costs next to nothing is done now.
    CheapRoom,
    /// A host write waits for a page of its type; there are others.
    PageType,
    /// One will, soon.
    PageTypeSoon,
}
