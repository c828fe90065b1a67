//! Dynamic striping: the first idle plane in turn, else the one whose die has the least to do, or that holds
//! the least.

/// Remembers whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct LeastBusy {
    turn: u32,
}

impl LeastBusy {
    /// The plane to use out of `planes`; `load` gives the operations at a plane's die, or none if
    /// the plane has no room. None if no plane has room.
    pub fn choose(&mut self, planes: u32, load: impl Fn(u32) -> Option<u64>) -> Option<u32> {
        let mut best: Option<(u64, u32)> = None;
        for step in 0..planes {
            let mut plane = self.turn + step;
            if plane >= planes {
                plane -= planes;
            }
            if let Some(load) = load(plane)
                && best.is_none_or(|(least, _)| load < least)
            {
                best = Some((load, plane));
                if load == 0 {
                    break;
                }
            }
        }
        let (_, plane) = best?;
        self.turn = (plane + 1) % planes;
        Some(plane)
    }
}
