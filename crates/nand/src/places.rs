//! Where bytes are kept: places that are taken, shared and given back.
//!
//! Places are taken in runs that lie side by side, so that what is written together is read together: a processor
//! copies 128 KiB that lie in one piece up to twice as fast as 32 pieces of 4 KiB from anywhere. Where places come free
//! one by one, a run is therefore left alone until much of it is free: as in a log of which a third is live.

use std::collections::VecDeque;

/// Places side by side: the bits of a word.
pub(crate) const RUN: usize = u64::BITS as usize;
const ALL: u64 = u64::MAX;
/// There may be so many places for each that is used before the holes of a run are filled: of a run that is the next to
/// be filled, nine in ten are free then if any may be given back next.
const ROOM: usize = 3;

/// How many use each place, and which ones nobody does. They are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    users: Vec<u32>,
    /// The free places of each run, as bits.
    free: Vec<u64>,
    /// The run from which places are taken.
    current: usize,
    /// Places that somebody uses.
    used: usize,
    /// For holes alone there are no more places than this.
    enough: usize,
    /// Runs of which all is free, and runs of which some was when they were listed, the one listed first first.
    whole: Vec<u32>,
    some: VecDeque<u32>,
    /// Runs that are in `some`.
    listed: Vec<bool>,
}

impl Places {
    /// Places that somebody uses.
    pub fn used(&self) -> usize {
        self.used
    }

    /// None so far, and `enough` of them if all may be used.
    pub fn new(enough: usize) -> Self {
        Self { enough, ..Self::default() }
    }

    /// Places that there are, free or not.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// A free place, which has one user from now on. There are more of them if none was free, or if only some of a run were
    /// and there are few.
    pub fn take(&mut self) -> usize {
        if self.free.get(self.current).is_none_or(|&free| free == 0) {
            self.current = self.next_run();
        }
        let free = &mut self.free[self.current];
        let place = self.current * RUN + free.trailing_zeros() as usize;
        *free &= *free - 1;
        self.users[place] = 1;
        self.used += 1;
        place
    }

    /// A run with free places: one that is free as a whole if there is one.
    fn next_run(&mut self) -> usize {
        if let Some(run) = self.whole.pop() {
            return run as usize;
        }
        if self.len() >= self.enough.min(ROOM * self.used) {
            while let Some(run) = self.some.pop_front() {
                self.listed[run as usize] = false;
                if self.free[run as usize] != 0 {
                    return run as usize;
                }
            }
        }
        self.users.resize(self.users.len() + RUN, 0);
        self.free.push(ALL);
        self.listed.push(false);
        self.free.len() - 1
    }

    /// One more uses the place.
    pub fn share(&mut self, place: usize) {
        self.users[place] += 1;
    }

    /// Whether nobody else uses the place of a user.
    pub fn is_sole(&self, place: usize) -> bool {
        self.users[place] == 1
    }

    /// One less uses the place.
    #[inline]
    pub fn release(&mut self, place: usize) {
        let users = &mut self.users[place];
        *users -= 1;
        if *users == 0 {
            self.give_back(place);
        }
    }

    fn give_back(&mut self, place: usize) {
        self.used -= 1;
        let run = place / RUN;
        let free = &mut self.free[run];
        *free |= 1 << (place % RUN);
        if run == self.current {
            return;
        }
        if *free == ALL {
            self.whole.push(run as u32);
        } else if !std::mem::replace(&mut self.listed[run], true) {
            self.some.push_back(run as u32);
        }
    }

    /// Places that nobody uses.
    #[cfg(test)]
    pub fn unused(&self) -> usize {
        self.free.iter().map(|free| free.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_together_lies_side_by_side_also_where_others_were() {
        let mut places = Places::new(4 * RUN);
        for place in 0..4 * RUN {
            assert_eq!(places.take(), place);
        }
        // All of the third run, in an order of its own, and then every other place of the first.
        (2 * RUN..3 * RUN).rev().for_each(|place| places.release(place));
        (0..RUN).step_by(2).for_each(|place| places.release(place));
        let taken: Vec<usize> = (0..RUN + 2).map(|_| places.take()).collect();
        let expected: Vec<usize> = (2 * RUN..3 * RUN).chain([0, 2]).collect();
        assert_eq!(taken, expected);
        assert_eq!(places.len(), 4 * RUN);
    }

    proptest! {
        #[test]
        fn a_place_is_given_to_one_at_a_time_and_there_are_no_more_than_were_needed(
            steps in prop::collection::vec((0..3_u8, 0..400_usize), 0..2000),
            enough in 0..300_usize,
        ) {
            let mut places = Places::new(enough);
            let (mut held, mut most) = (Vec::new(), 0);
            for (what, n) in steps {
                match what {
                    0 if !held.is_empty() => places.release(held.swap_remove(n % held.len())),
                    1 if !held.is_empty() => {
                        let place = held[n % held.len()];
                        places.share(place);
                        held.push(place);
                    }
                    _ => {
                        let place = places.take();
                        prop_assert!(!held.contains(&place));
                        held.push(place);
                    }
                }
                let mut used = held.clone();
                used.sort_unstable();
                used.dedup();
                most = most.max(used.len());
                prop_assert_eq!(used.len(), places.used());
                prop_assert_eq!(used.len() + places.unused(), places.len());
                let room = enough.min(ROOM * most);
                prop_assert!(places.len() <= most.max(room).next_multiple_of(RUN));
                prop_assert!(places.whole.len() + places.some.len() <= 2 * places.free.len());
            }
        }
    }
}
