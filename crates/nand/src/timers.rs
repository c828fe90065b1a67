//! Which of a fixed number of alarms goes off first.

use crate::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alarm {
    time: Time,
    who: u32,
}

/// One alarm for each of `n`: a tournament tree, so that the first of all is at hand and a change costs
/// a walk to the root, or less. Of alarms at the same time the lowest number's goes off first.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// At `i` the first alarms of the two halves below node `i`; node 1 is the root, and the last half of
    /// the list are the alarms themselves.
    nodes: Vec<[Alarm; 2]>,
    /// Whose alarm went off last: it is still in the tree until it is set again or [`Timers::tidy`].
    rang: u32,
}

const NOBODY: u32 = u32::MAX;

#[inline]
fn first([left, right]: [Alarm; 2]) -> Alarm {
    if right.time < left.time { right } else { left }
}

impl Timers {
    pub fn new(n: usize) -> Self {
        let pairs = n.next_power_of_two().max(2) / 2;
        let none = |who| Alarm { time: Time::MAX, who };
        let leaves = (0..pairs as u32).map(|i| [none(2 * i), none(2 * i + 1)]);
        let mut nodes: Vec<_> = std::iter::repeat_n([none(0); 2], pairs).chain(leaves).collect();
        (1..pairs).rev().for_each(|i| nodes[i] = [first(nodes[2 * i]), first(nodes[2 * i + 1])]);
        Self { nodes, rang: NOBODY }
    }

    /// When the first alarm goes off; [`Time::MAX`] = none is set.
    #[inline]
    pub fn next(&self) -> Time {
        debug_assert!(self.rang == NOBODY, "the last alarm is still in the tree");
        first(self.nodes[1]).time
    }

    /// The first alarm goes off: when, and whose it is. There must be one. [`Timers::tidy`] afterwards.
    #[inline]
    pub fn ring(&mut self) -> (Time, u32) {
        let Alarm { time, who } = first(self.nodes[1]);
        debug_assert!(time != Time::MAX && self.rang == NOBODY);
        self.rang = who;
        (time, who)
    }

    /// Sets the alarm of `who`, which is not set, or went off just now.
    #[inline]
    pub fn set(&mut self, who: u32, time: Time) {
        if who == self.rang {
            self.rang = NOBODY;
            return self.replay(who, time);
        }
        let alarm = Alarm { time, who };
        let leaves = self.nodes.len() / 2;
        let mut i = 2 * leaves + who as usize;
        while i > 1 {
            let side = i & 1;
            i /= 2;
            let node = &mut self.nodes[i];
            debug_assert!(i < leaves || node[side].time == Time::MAX, "one alarm each");
            node[side] = alarm;
            // What was first of the two stays so, here and above.
            if node[1 - side].time < time + side as u64 {
                return;
            }
        }
    }

    /// Takes the alarm of `who` back.
    #[inline]
    pub fn clear(&mut self, who: u32) {
        self.replay(who, Time::MAX);
    }

    /// Changes the alarm of `who`, and works out all the way to the root what follows.
    #[inline]
    fn replay(&mut self, who: u32, time: Time) {
        let mut alarm = Alarm { time, who };
        let mut i = self.nodes.len() + who as usize;
        while i > 1 {
            let side = i & 1;
            i /= 2;
            let node = &mut self.nodes[i];
            node[side] = alarm;
            alarm = first(*node);
        }
    }

    /// Takes the alarm that went off out of the tree, unless it was set again.
    #[inline]
    pub fn tidy(&mut self) {
        if self.rang != NOBODY {
            let who = std::mem::replace(&mut self.rang, NOBODY);
            self.replay(who, Time::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandle_random::Stream;

    #[test]
    fn the_first_alarm_is_the_least() {
        let mut draw = Stream::new(1, "timers");
        for n in [1, 2, 3, 20, 64, 100] {
            let (mut timers, mut plain) = (Timers::new(n), vec![Time::MAX; n]);
            for _ in 0..2000 {
                let who = draw.below(n as u64) as usize;
                plain[who] = if plain[who] == Time::MAX { draw.below(50) } else { Time::MAX };
                match plain[who] {
                    Time::MAX => timers.clear(who as u32),
                    time => timers.set(who as u32, time),
                }
                let least = *plain.iter().min().expect("some");
                assert_eq!(timers.next(), least);
                if least != Time::MAX && draw.chance(0.3) {
                    let first = plain.iter().position(|&t| t == least).expect("there");
                    assert_eq!(timers.ring(), (least, first as u32));
                    plain[first] = if draw.chance(0.5) { draw.below(50) } else { Time::MAX };
                    if plain[first] != Time::MAX {
                        timers.set(first as u32, plain[first]);
                    }
                    timers.tidy();
                }
            }
        }
    }
}
