//! Static striping: consecutive logical pages go round the device in a fixed order of its levels,
//! the first letter changing fastest (Hu et al. 2011; Tavakkol et al. 2016).

use nandle_nand::Geometry;

use crate::error::ConfigError;

/// A permutation of the planes.
#[derive(Clone, Debug)]
pub struct Order {
    planes: Box<[u32]>,
    /// What a remainder is taken with, if there are as many planes as a power of two.
    mask: Option<u32>,
}

impl Order {
    /// `name` is a permutation of C(hannel), W(ay = chip), D(ie), P(lane).
    ///
    /// # Errors
    /// If it is not.
    pub fn new(name: &str, g: &Geometry) -> Result<Self, ConfigError> {
        let mut letters: Vec<char> = name.chars().collect();
        letters.sort_unstable();
        if letters != ['C', 'D', 'P', 'W'] {
            return Err(ConfigError::new(
                "scheme.striping",
                format!("{name:?}"),
                "\"dynamic\", \"round-robin\", \"block-by-block\", \"superblock\", or an order of the letters C, W, D and P such as \"CWDP\"",
            ));
        }
        Ok(Self::from_letters(name, g))
    }

    fn from_letters(name: &str, g: &Geometry) -> Self {
        let planes: Box<[u32]> = (0..g.planes())
            .map(|n| {
                let (mut rest, mut at) = (n, [0; 4]);
                for letter in name.chars() {
                    let (level, size) = match letter {
                        'C' => (0, g.channels),
                        'W' => (1, g.chips_per_channel),
                        'D' => (2, g.dies_per_chip),
                        _ => (3, g.planes_per_die),
                    };
                    at[level] = rest % size;
                    rest /= size;
                }
                g.plane_at(at[0], at[1], at[2], at[3])
            })
            .collect();
        Self { mask: g.planes().is_power_of_two().then(|| g.planes() - 1), planes }
    }

    /// Channels first, then ways, dies and planes.
    pub fn by_channel(g: &Geometry) -> Self {
        Self::from_letters("CWDP", g)
    }

    /// The plane of logical page `lpn`.
    #[inline(always)]
    pub fn plane(&self, lpn: u32) -> u32 {
        let number = match self.mask {
            Some(mask) => lpn & mask,
            None => lpn % self.planes.len() as u32,
        };
        self.planes[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_visits_every_plane_once() {
        let g = Geometry {
            channels: 2,
            chips_per_channel: 3,
            dies_per_chip: 2,
            planes_per_die: 2,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 4096,
            sector_bytes: 512,
            oob_bytes: 0,
        };
        for name in ["CWDP", "PDWC", "WDPC"] {
            let order = Order::new(name, &g).expect("legal");
            let mut seen: Vec<u32> = (0..24).map(|lpn| order.plane(lpn)).collect();
            assert_eq!(order.plane(24), seen[0]);
            seen.sort_unstable();
            assert_eq!(seen, (0..24).collect::<Vec<_>>());
        }
        let order = Order::new("CWDP", &g).expect("legal");
        assert_eq!(order.plane(1), g.plane_at(1, 0, 0, 0));
        assert_eq!(order.plane(2), g.plane_at(0, 1, 0, 0));
        assert!(Order::new("CWD", &g).is_err());
    }
}
