//! When garbage is collected.

crate::catalog! {
    /// When garbage is collected.
    pub enum PacingKind {
        /// In the background below the soft watermark, in the foreground below the hard one.
        Watermark = "watermark",
    }
}

impl PacingKind {
    /// Whether a plane with `free` blocks should be collected.
    #[inline]
    pub(super) fn wants(self, free: u32, soft: u32) -> bool {
        match self {
            Self::Watermark => free < soft,
        }
    }
}

/// Why a plane is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Pages run out.
    Room,
    /// A host write waits for a page of its type; there are others.
    PageType,
    /// One will, soon.
    PageTypeSoon,
}
