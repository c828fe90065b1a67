//! Lists through the entries of an array: each entry has its neighbours' places, the list its ends.

/// No entry.
const NONE: u32 = u32::MAX;

/// The neighbours of an entry in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    newer: u32,
    older: u32,
}

impl Links {
    /// In no list.
    pub const NONE: Self = Self { newer: NONE, older: NONE };

    /// The neighbour towards the newest end.
    #[inline]
    pub fn newer(self) -> Option<u32> {
        (self.newer != NONE).then_some(self.newer)
    }
    /// The neighbour towards the oldest end.
    #[inline]
    pub fn older(self) -> Option<u32> {
        (self.older != NONE).then_some(self.older)
    }
}

/// The ends of a list. Every method takes the array, and where an entry has its links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    newest: u32,
    oldest: u32,
}

impl List {
    /// A list without entries.
    pub const EMPTY: Self = Self { newest: NONE, oldest: NONE };

    /// The entry at the newest end.
    #[inline]
    pub fn newest(self) -> Option<u32> {
        (self.newest != NONE).then_some(self.newest)
    }
    /// The entry at the oldest end.
    #[inline]
    pub fn oldest(self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// An entry that is in no list becomes the newest.
    #[inline]
    pub fn push<T>(&mut self, entries: &mut [T], slot: u32, links: impl Fn(&mut T) -> &mut Links) {
        let before = self.newest;
        *links(&mut entries[slot as usize]) = Links { newer: NONE, older: before };
        match before {
            NONE => self.oldest = slot,
            before => links(&mut entries[before as usize]).newer = slot,
        }
        self.newest = slot;
    }

    /// An entry that is in no list goes next to `older`, on its newer side; none: it becomes the oldest.
    #[inline]
    pub fn insert<T>(
        &mut self,
        entries: &mut [T],
        slot: u32,
        older: Option<u32>,
        links: impl Fn(&mut T) -> &mut Links,
    ) {
        let newer = match older {
            Some(older) => std::mem::replace(&mut links(&mut entries[older as usize]).newer, slot),
            None => std::mem::replace(&mut self.oldest, slot),
        };
        *links(&mut entries[slot as usize]) = Links { newer, older: older.unwrap_or(NONE) };
        match newer {
            NONE => self.newest = slot,
            newer => links(&mut entries[newer as usize]).older = slot,
        }
    }

    /// An entry leaves.
    #[inline]
    pub fn remove<T>(&mut self, entries: &mut [T], slot: u32, links: impl Fn(&mut T) -> &mut Links) {
        let Links { newer, older } = *links(&mut entries[slot as usize]);
        match newer {
            NONE => self.newest = older,
            newer => links(&mut entries[newer as usize]).older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links(&mut entries[older as usize]).newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandle_random::Stream;

    #[test]
    fn a_list_keeps_the_order_of_a_plain_one() {
        const MOST: u64 = 12;
        let (mut list, mut links) = (List::EMPTY, [Links::NONE; MOST as usize]);
        // Oldest first.
        let mut plain: Vec<u32> = Vec::new();
        let mut draw = Stream::new(5, "linked");
        for _ in 0..20_000 {
            let slot = draw.below(MOST) as u32;
            match plain.iter().position(|&other| other == slot) {
                Some(at) => {
                    list.remove(&mut links, slot, |entry| entry);
                    plain.remove(at);
                }
                None if draw.chance(0.5) => {
                    list.push(&mut links, slot, |entry| entry);
                    plain.push(slot);
                }
                None => {
                    let at = draw.below(plain.len() as u64 + 1) as usize;
                    let older = at.checked_sub(1).map(|at| plain[at]);
                    list.insert(&mut links, slot, older, |entry| entry);
                    plain.insert(at, slot);
                }
            }
            let up = std::iter::successors(list.oldest(), |&slot| links[slot as usize].newer());
            assert_eq!(up.collect::<Vec<_>>(), plain);
            let down = std::iter::successors(list.newest(), |&slot| links[slot as usize].older());
            assert_eq!(down.collect::<Vec<_>>(), plain.iter().rev().copied().collect::<Vec<_>>());
        }
    }
}
