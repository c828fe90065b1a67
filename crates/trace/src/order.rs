//! Rows in the order of their times, within a bounded window.
use crate::row::Row;

/// Rows of one second kept together while they are spread over it.
const SPREAD_LIMIT: usize = 1 << 21;
/// Rows that may be asked to be kept back.
const MAX_WINDOW: usize = 1 << 22;
const SECOND: u64 = 1_000_000_000;

/// Sorts rows that are displaced by no more than a window, and clamps the rest.
pub(crate) struct Order {
    window: usize,
    /// Spread the rows of each whole second over it.
    spread: bool,
    rows: Vec<Row>,
    /// Some of the rows are not in order yet.
    unsorted: bool,
    /// Rows before `upto` are final, those before `at` handed out.
    at: usize,
    upto: usize,
    /// Time of the row that was appended last, and the latest of all.
    newest: u64,
    latest: u64,
    last_out: u64,
    /// Rows earlier than the row before them.
    pub out_of_order: u64,
    /// Rows that came too late to be sorted and were moved to the time of their predecessor.
    pub clamped: u64,
}

impl Order {
    pub fn new(window: usize, spread: bool) -> Self {
        Order {
            window: window.clamp(1, MAX_WINDOW),
            spread,
            rows: Vec::new(),
            unsorted: false,
            at: 0,
            upto: 0,
            newest: 0,
            latest: 0,
            last_out: 0,
            out_of_order: 0,
            clamped: 0,
        }
    }

    /// The vector to append new rows to, and how many it should hold before [`settle`](Self::settle).
    pub fn refill(&mut self) -> (&mut Vec<Row>, usize) {
        self.rows.drain(..self.at);
        self.upto = 0;
        self.at = 0;
        let mut goal = 2 * self.window;
        if self.spread {
            goal = goal.max((self.rows.len() * 2).min(SPREAD_LIMIT));
        }
        (&mut self.rows, goal)
    }

    /// The rows held.
    pub fn rows(&mut self) -> &mut Vec<Row> {
        &mut self.rows
    }

    /// Takes note of rows appended from index `from` on.
    pub fn appended(&mut self, from: usize) {
        for row in &self.rows[from..] {
            if row.time < self.newest {
                self.out_of_order += 1;
            }
            self.newest = row.time;
            self.unsorted |= row.time < self.latest;
            self.latest = self.latest.max(row.time);
        }
    }

    /// Makes rows final: all at the end, otherwise those that no later row can precede.
    pub fn settle(&mut self, end: bool) {
        if std::mem::take(&mut self.unsorted) {
            self.rows.sort_by_key(|r| r.time);
        }
        self.upto = if end { self.rows.len() } else { self.rows.len().saturating_sub(self.window) };
        if self.spread {
            self.spread(end);
        }
        // They are in order: none behind the first that is late enough is too late.
        let final_rows = &mut self.rows[..self.upto];
        for row in final_rows.iter_mut().take_while(|row| row.time < self.last_out) {
            row.time = self.last_out;
            self.clamped += 1;
        }
        self.last_out = final_rows.last().map_or(self.last_out, |row| row.time);
    }

    /// The k-th of the n rows of a second gets k/n of it; a second not yet complete has to wait.
    fn spread(&mut self, end: bool) {
        if !end && self.rows.len() < SPREAD_LIMIT {
            let open = self.rows.get(self.upto).map(|r| r.time);
            while self.upto > 0 && Some(self.rows[self.upto - 1].time) == open {
                self.upto -= 1;
            }
        }
        let mut from = 0;
        while from < self.upto {
            let second = self.rows[from].time;
            let n = self.rows[from..self.upto].iter().take_while(|r| r.time == second).count();
            for k in 0..n {
                self.rows[from + k].time = second.saturating_add((k as u64 * SECOND) / n as u64);
            }
            from += n;
        }
    }

    /// Up to `max` final rows.
    pub fn take(&mut self, max: usize) -> &[Row] {
        let from = self.at;
        self.at = self.upto.min(from + max);
        &self.rows[from..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn run(times: &[u64], window: usize, spread: bool) -> (Vec<u64>, Order) {
        let mut order = Order::new(window, spread);
        let mut input = times.iter();
        let mut out = Vec::new();
        loop {
            let (rows, goal) = order.refill();
            let from = rows.len();
            let n = goal - from;
            rows.extend(input.by_ref().take(n).map(|&t| Row::new(t, Op::Read, 0, 512)));
            let end = rows.len() < goal;
            order.appended(from);
            order.settle(end);
            loop {
                let some = order.take(3);
                if some.is_empty() {
                    break;
                }
                out.extend(some.iter().map(|r| r.time));
            }
            if end {
                return (out, order);
            }
        }
    }

    #[test]
    fn displaced_rows_are_put_in_order() {
        let (out, order) = run(&[1, 3, 2, 5, 4, 6, 9, 7, 8, 10], 2, false);
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!((order.out_of_order, order.clamped), (3, 0));
    }

    #[test]
    fn rows_far_too_late_are_clamped() {
        let (out, order) = run(&[10, 11, 12, 13, 14, 15, 1], 1, false);
        assert_eq!(out.len(), 7);
        assert!(out.is_sorted());
        assert_eq!(order.clamped, 1);
    }

    #[test]
    fn seconds_are_spread() {
        let s = SECOND;
        let (out, order) = run(&[s, s, s, s, 2 * s, 2 * s, s], 1, true);
        assert_eq!(out.len(), 7);
        assert!(out.is_sorted());
        assert_eq!(out[0], s);
        assert!(out[1] > s && out[3] < 2 * s, "{out:?}");
        assert!(order.clamped <= 1);
    }
}
