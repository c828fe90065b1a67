//! Which of a fixed number of alarms goes off first.

/// Simulated time in nanoseconds since the device was powered on.
pub type Time = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alarm {
    time: Time,
    who: u32,
}

impl Alarm {
    /// After all others.
    const NEVER: Self = Self { time: Time::MAX, who: u32::MAX };

    #[inline]
    fn is_before(self, other: Self) -> bool {
        self.time < other.time || self.time == other.time && self.who < other.who
    }
}

/// At most one alarm for each of `n`. Of alarms at the same time the lowest number's goes off first.
///
/// What takes long has a list of its own: in one list, most alarms of reads and transfers would have to get between those of
/// programs and erases, 4% of the instructions of a drive that collects.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    soon: List,
    late: List,
    /// When the first goes off.
    next: Time,
}

impl Timers {
    pub fn new(n: usize) -> Self {
        Self { soon: List::new(n), late: List::new(n), next: Time::MAX }
    }

    /// When the first alarm goes off; [`Time::MAX`] = none is set.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }

    /// The first alarm goes off: when, and whose it is.
    #[inline]
    pub fn ring(&mut self) -> Option<(Time, u32)> {
        if self.next == Time::MAX {
            return None;
        }
        let list = if self.late.head.is_before(self.soon.head) { &mut self.late } else { &mut self.soon };
        let alarm = list.head;
        list.pop();
        self.note_next();
        Some((alarm.time, alarm.who))
    }

    /// Sets the alarm of `who`, which is not set.
    #[inline(always)]
    pub fn set(&mut self, who: u32, time: Time) {
        self.set_in(false, who, time);
    }

    /// The same; `late`: of something that takes long.
    #[inline(always)]
    pub fn set_in(&mut self, late: bool, who: u32, time: Time) {
        debug_assert!(self.soon.place_of(who).or(self.late.place_of(who)).is_none(), "one alarm each");
        let list = if late { &mut self.late } else { &mut self.soon };
        list.insert(Alarm { time, who });
        self.next = self.next.min(time);
    }

    #[inline]
    fn note_next(&mut self) {
        self.next = self.soon.head.time.min(self.late.head.time);
    }

    /// Takes the alarm of `who` back, if it is set.
    pub fn clear(&mut self, who: u32) {
        self.soon.remove(who);
        self.late.remove(who);
        self.note_next();
    }
}

/// Alarms in order: few are set at a time, and most new ones go off after almost all others.
#[derive(Clone, Debug)]
struct List {
    /// Twice as many as there can be, so that they move to the front only now and then.
    alarms: Vec<Alarm>,
    /// The alarms that are set lie from here to `end`.
    first: usize,
    end: usize,
    /// The first of them.
    head: Alarm,
}

/// The place of an alarm that goes off before this many others is found by halving.
const NEAR: usize = 16;

impl List {
    fn new(n: usize) -> Self {
        Self { alarms: vec![Alarm::NEVER; 2 * n], first: 0, end: 0, head: Alarm::NEVER }
    }

    #[inline(always)]
    fn insert(&mut self, alarm: Alarm) {
        if self.end == self.alarms.len() {
            self.move_to_front();
        }
        let mut at = self.end;
        if at > self.first && alarm.is_before(self.alarms[at - 1]) {
            at = self.make_place(alarm);
        }
        self.alarms[at] = alarm;
        self.end += 1;
        if at == self.first {
            self.head = alarm;
        }
    }

    /// The first is gone.
    #[inline]
    fn pop(&mut self) {
        self.first += 1;
        self.note_head();
    }

    #[inline]
    fn note_head(&mut self) {
        self.head = if self.first == self.end { Alarm::NEVER } else { self.alarms[self.first] };
    }

    /// The place of `alarm`; those behind it make way.
    #[inline(never)]
    fn make_place(&mut self, alarm: Alarm) -> usize {
        let near = self.end.saturating_sub(NEAR).max(self.first);
        let last = &mut self.alarms[near..=self.end];
        for at in (1..last.len()).rev() {
            if !alarm.is_before(last[at - 1]) {
                return near + at;
            }
            last[at] = last[at - 1];
        }
        let before = self.alarms[self.first..near].partition_point(|&other| other.is_before(alarm));
        let place = self.first + before;
        self.alarms.copy_within(place..near, place + 1);
        place
    }

    #[cold]
    fn move_to_front(&mut self) {
        self.alarms.copy_within(self.first..self.end, 0);
        self.end -= self.first;
        self.first = 0;
    }

    fn place_of(&self, who: u32) -> Option<usize> {
        self.alarms[self.first..self.end].iter().position(|alarm| alarm.who == who)
    }

    fn remove(&mut self, who: u32) {
        if let Some(at) = self.place_of(who) {
            self.alarms[self.first..self.end].copy_within(at + 1.., at);
            self.end -= 1;
            self.note_head();
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
                    time => timers.set_in(draw.chance(0.5), who as u32, time),
                }
                let least = *plain.iter().min().expect("some");
                assert_eq!(timers.next(), least);
                if draw.chance(0.3) {
                    let first = plain.iter().position(|&t| t == least).expect("there");
                    assert_eq!(timers.ring(), (least != Time::MAX).then_some((least, first as u32)));
                    plain[first] = if draw.chance(0.5) { draw.below(50) } else { Time::MAX };
                    if plain[first] != Time::MAX {
                        timers.set_in(draw.chance(0.5), first as u32, plain[first]);
                    }
                }
            }
        }
    }
}
