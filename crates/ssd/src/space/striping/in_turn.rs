//! Strict turns: each page goes to the plane after that of the last one, whatever the dies are doing, and waits for
//! room there.
//!
//! So the firmware of the Cosmos+ board stripes (`FindDieForFreeSliceAllocation` of GreedyFTL).

use super::order::Order;

/// Remembers whose turn it is.
#[derive(Clone, Debug)]
pub struct InTurn {
    order: Order,
    turn: u32,
}

impl InTurn {
    /// Turns in `order`.
    pub fn new(order: Order) -> Self {
        Self { order, turn: 0 }
    }

    /// The planes out of `planes`, in turn.
    fn in_order(&self, planes: u32) -> impl Iterator<Item = u32> {
        (self.turn..planes).chain(0..self.turn).map(|turn| self.order.plane(turn))
    }

    /// Whether the next `pages` pages find room, each where it is its turn; a plane that `is_passed` over has none,
    /// and will have none.
    pub fn has_room(
        &self,
        planes: u32,
        pages: u32,
        room: impl Fn(u32) -> u32,
        is_passed: impl Fn(u32) -> bool,
    ) -> bool {
        let each = pages.div_ceil(planes);
        let mut left = pages;
        for plane in self.in_order(planes) {
            let found = room(plane);
            if found >= each {
                left = left.saturating_sub(each);
                if left == 0 {
                    return true;
                }
            } else if !is_passed(plane) {
                return false;
            }
        }
        // Planes that are passed over leave more for the others.
        left < pages && self.in_order(planes).any(|plane| room(plane) >= pages)
    }

    /// The first plane from the one on turn on that has room.
    pub fn choose(&mut self, planes: u32, has_room: impl Fn(u32) -> bool) -> Option<u32> {
        let passed = self.in_order(planes).position(&has_room)? as u32;
        let turn = (self.turn + passed) % planes;
        self.turn = (turn + 1) % planes;
        Some(self.order.plane(turn))
    }
}

#[cfg(test)]
mod tests {
    use nandle_nand::Geometry;

    use super::*;

    #[test]
    fn a_page_waits_for_the_plane_on_turn_unless_that_is_passed_over() {
        let g = Geometry {
            channels: 3,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 4096,
            sector_bytes: 512,
            oob_bytes: 0,
        };
        let mut turns = InTurn::new(Order::by_channel(&g));
        assert_eq!([0; 4].map(|_| turns.choose(3, |_| true)), [0, 1, 2, 0].map(Some));
        let room = |plane| [5, 0, 5][plane as usize];
        assert!(!turns.has_room(3, 1, room, |_| false), "plane 1 is on turn and has none");
        assert!(
            turns.has_room(3, 1, room, |plane| plane == 1) && turns.has_room(3, 4, room, |plane| plane == 1)
        );
        assert!(!turns.has_room(3, 6, room, |plane| plane == 1));
        assert_eq!(turns.choose(3, |plane| room(plane) > 0), Some(2));
        assert!(turns.has_room(3, 1, room, |_| false) && !turns.has_room(3, 2, room, |_| false));
        assert_eq!(turns.choose(3, |_| false), None);
    }
}
