//! The commands of a drive.

/// What the host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Return sectors.
    Read,
    /// Store sectors.
    Write,
    /// Forget sectors.
    Trim,
    /// Make everything that was acknowledged durable.
    Flush,
    /// FlashAlloc: the sectors, or the ranges that the command's data lists, belong to one object.
    FlashAlloc,
    /// The objects that have some of the sectors are complete: their instances end.
    FlashFree,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::FlashAlloc, Self::FlashFree];

    /// The name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::FlashAlloc => "flashalloc",
            Self::FlashFree => "flashfree",
        }
    }

    /// Whether contents of sectors go from or to the host.
    #[must_use]
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Whether it tells of objects, and leaves what is stored as it is.
    #[must_use]
    pub const fn concerns_objects(self) -> bool {
        matches!(self, Self::FlashAlloc | Self::FlashFree)
    }

    /// The operation of that name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name().as_bytes() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own_and_a_number() {
        for (number, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, number);
            assert_eq!(Op::parse(op.name().as_bytes()), Some(op));
        }
        for wrong in ["", "Read", "reads", "rea"] {
            assert_eq!(Op::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }
}
