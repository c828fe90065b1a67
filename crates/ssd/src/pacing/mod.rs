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
    pub(crate) fn wants(self, free: u32, soft: u32) -> bool {
        match self {
            Self::Watermark => free < soft,
        }
    }
}
