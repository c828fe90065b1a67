//! Whether a served drive keeps time.

/// When answers are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// At the modelled time.
    #[default]
    Real,
    /// As soon as the model is done.
    Off,
    /// At once, by a drive without clocks (`timing.untimed`).
    None,
}

impl Timing {
    /// As `--timing` and every view call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Off => "off",
            Self::None => "none",
        }
    }
}
