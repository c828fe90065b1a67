//! Which sectors have ever been named as an object's.

/// A bit for every sector, if the drive knows objects at all.
#[derive(Clone, Debug)]
pub(super) struct Named(Vec<u64>);

impl Named {
    pub fn new(sectors: u64) -> Self {
        Self(vec![0; sectors.div_ceil(64) as usize])
    }

    /// Whether one of the sectors has been. Ranges reach no further than the drive.
    pub fn any(&self, (lsn, sectors): (u64, u64)) -> bool {
        (lsn..lsn + sectors)
            .any(|lsn| self.0.get(lsn as usize / 64).is_some_and(|w| w >> (lsn % 64) & 1 == 1))
    }

    pub fn mark(&mut self, (lsn, sectors): (u64, u64)) {
        for lsn in lsn..lsn + sectors {
            if let Some(word) = self.0.get_mut(lsn as usize / 64) {
                *word |= 1 << (lsn % 64);
            }
        }
    }
}
