//! PC-LRU, partial-page and congestion-aware LRU (WAFLASH, section III-A, Fig. 3; the poster
//! "Taming Unaligned Writes in Solid State Disk"): when the chips that the tail's flush needs are
//! busy, the full page nearest the tail leaves instead, and partial pages stay to be completed.
//!
//! Full pages hang on a list of their own in the same order, so the nearest one is at its end: no
//! scan. What the papers leave open is a setting (`[scheme.pc_lru]`):
//! - `insert`: partial pages that were passed over `stay` where they are (WAFLASH's text), or are
//!   moved to the `head` or to position n, `at(n)` (the poster, 60 there).
//! - `passes`: the poster's `whether_access` lets an entry be passed over once between accesses, or it
//!   would starve. With `stay` an entry counts as passed over when it is its turn, at the tail.
//! - `when`: WAFLASH passes over partial pages under congestion, the poster's code always.
//! - `search_window`: a full page further from the tail than this is left alone. No full page: the tail.
//!
//! The poster's code passes over partial pages until it finds one to write out: where none is full, all that it looks at,
//! until the first is the tail again. That leaves their order and marks them. With position n only those from there to the
//! tail come round. Where `passes` is more than 1, one search counts as one pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Facts, Interests, Name, Plan, Published, Scheme, Seam, Surroundings};
use crate::buffer::{Buffer, Entry, Victims};
use crate::error::ConfigError;

/// What happens to partial pages that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Insert {
    /// They keep their place (WAFLASH).
    #[default]
    Stay,
    /// They are moved to the head (poster).
    Head,
    /// They are moved to this position, counted from the head (poster: 60).
    At(u32),
}

impl From<Insert> for String {
    fn from(insert: Insert) -> Self {
        match insert {
            Insert::Stay => "stay".into(),
            Insert::Head => "head".into(),
            Insert::At(n) => format!("at({n})"),
        }
    }
}

impl TryFrom<String> for Insert {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let position = text.strip_prefix("at(").and_then(|rest| rest.strip_suffix(')'));
        match (text.as_str(), position.and_then(|n| n.parse().ok())) {
            ("stay", _) => Ok(Self::Stay),
            ("head", _) => Ok(Self::Head),
            (_, Some(n @ 1..=4096)) => Ok(Self::At(n)),
            _ => Err(format!("{text:?}: expected \"stay\", \"head\" or \"at(n)\" with n from 1 to 4096")),
        }
    }
}

crate::catalog! {
    /// When partial pages are passed over.
    pub enum When {
        /// When a chip that the tail's flush needs is busy (WAFLASH).
        Congested = "congested",
        /// Always (the poster's code).
        Always = "always",
    }
}

/// `[scheme.pc_lru]`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PcLruConfig {
    /// Where partial pages go that were passed over: "stay", "head" or "at(n)".
    #[schemars(with = "String")]
    pub insert: Insert,
    /// Entries from the tail among which a full page is looked for; 0 = all.
    pub search_window: u32,
    /// How often an entry is passed over between two accesses; 0 = without limit, for insert = "stay"
    /// or "head" only.
    pub passes: u32,
    /// When partial pages are passed over.
    pub when: When,
}

impl Default for PcLruConfig {
    fn default() -> Self {
        Self { insert: Insert::Stay, search_window: 0, passes: 1, when: When::Congested }
    }
}

/// The tail, or the full page nearest it.
#[derive(Clone, Debug)]
pub struct PcLru {
    settings: PcLruConfig,
}

impl Scheme for PcLru {
    fn interests(&self) -> Interests {
        Interests::DESTAGE
    }
    fn destage(&mut self, near: &dyn Surroundings, buffer: &mut Buffer) -> Option<Victims> {
        Some(victims(self.settings, buffer, |entry| near.flush_waits(entry)))
    }
    fn without_time(&self) -> Option<&'static str> {
        (self.settings.when == When::Congested).then_some("PC-LRU finds no chip busy, and is LRU")
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "pc-lru";

impl Published for PcLru {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Buffer,
        name: NAME,
        line: "The least recently written page, or the next full page while chips are busy (WAFLASH).",
    }];
    type Config<'a> = &'a PcLruConfig;

    fn plan(config: &PcLruConfig, _: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        if config.passes == 0 && matches!(config.insert, Insert::At(_)) {
            let expected = "at least 1 with insert = \"at(n)\"";
            return Err(ConfigError::new("scheme.pc_lru.passes", config.passes, expected));
        }
        plan.buffer.full_list = true;
        Ok(())
    }
    fn new(config: &PcLruConfig, _: &Facts<'_>, _: u32) -> Self {
        Self { settings: *config }
    }
}

/// The tail, or the full page nearest it if the tail is partial and `congested`.
fn victims(settings: PcLruConfig, buffer: &mut Buffer, congested: impl FnOnce(&Entry) -> bool) -> Victims {
    choose(settings, buffer, congested).into_iter().collect()
}

fn choose(settings: PcLruConfig, buffer: &mut Buffer, congested: impl FnOnce(&Entry) -> bool) -> Option<u32> {
    let spent = |entry: &Entry| settings.passes > 0 && entry.passed >= settings.passes;
    let tail = buffer.oldest()?;
    let entry = buffer.entry(tail);
    if buffer.is_full(tail) || spent(entry) || (settings.when == When::Congested && !congested(entry)) {
        return Some(tail);
    }
    let window = if settings.search_window == 0 { u32::MAX } else { settings.search_window };
    let position = match settings.insert {
        Insert::Stay => {
            let within =
                |full: &u32| window == u32::MAX || looked_at(buffer, window).any(|slot| slot == *full);
            let Some(full) = buffer.oldest_full().filter(within) else { return Some(tail) };
            buffer.pass(tail);
            return Some(full);
        }
        Insert::Head => 1,
        Insert::At(n) => n,
    };
    if settings.passes == 0 && buffer.oldest_full().is_none() {
        return Some(tail);
    }
    // Each entry below the one that leaves is moved once; one that has had its turn leaves before a full page above it.
    let count = window.min((buffer.len() + 1).saturating_sub(position));
    let leaves = |slot| buffer.is_full(slot) || spent(buffer.entry(slot));
    let found = looked_at(buffer, count).position(leaves);
    let mut next = Some(tail);
    for _ in 0..found.unwrap_or(count as usize) {
        let Some(slot) = next else { break };
        next = buffer.newer(slot);
        buffer.pass(slot);
        if found.is_some() {
            buffer.move_to(slot, position);
        }
    }
    buffer.oldest()
}

/// The `count` entries nearest the tail, from there.
fn looked_at(buffer: &Buffer, count: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot)).take(count as usize)
}

#[cfg(test)]
mod tests {
    use nandle_random::Stream;

    use super::*;
    use crate::buffer::{BufferPlan, Incoming};

    const WITH_FULL: BufferPlan = BufferPlan { full_list: true, ..BufferPlan::LRU };

    /// PC-LRU by brute force: one plain list, oldest first, searched from its end each time.
    struct Model {
        list: Vec<(u32, u64, u32)>,
        settings: PcLruConfig,
        full: u64,
    }

    impl Model {
        fn write(&mut self, lpn: u32, mask: u64) {
            let old = self.list.iter().position(|e| e.0 == lpn).map(|at| self.list.remove(at));
            self.list.push((lpn, old.map_or(0, |e| e.1) | mask, 0));
        }
        fn trim(&mut self, lpn: u32, mask: u64) {
            self.list.iter_mut().filter(|e| e.0 == lpn).for_each(|e| e.1 &= !mask);
            self.list.retain(|e| e.1 != 0);
        }
        fn victim(&mut self, busy: &dyn Fn(u32) -> bool) -> Option<u32> {
            let s = self.settings;
            let &(lpn, mask, passed) = self.list.first()?;
            let spent = |passed: u32| s.passes > 0 && passed >= s.passes;
            if mask == self.full || spent(passed) || (s.when == When::Congested && !busy(lpn)) {
                return Some(lpn);
            }
            let window = if s.search_window == 0 { usize::MAX } else { s.search_window as usize };
            let from_head = match s.insert {
                Insert::Stay => {
                    let chosen =
                        self.list.iter().take(window).find(|e| e.1 == self.full).map_or(lpn, |e| e.0);
                    self.list[0].2 += u32::from(chosen != lpn);
                    return Some(chosen);
                }
                Insert::Head => 0,
                Insert::At(n) => n as usize - 1,
            };
            // The poster's loop, and its bounds.
            let (before, mut seen) = (self.list.clone(), vec![]);
            loop {
                let (lpn, mask, passed) = self.list[0];
                if seen.contains(&lpn) {
                    break;
                }
                if seen.len() == window {
                    self.list = before;
                    self.list.iter_mut().take(window).for_each(|e| e.2 += 1);
                    break;
                }
                if mask == self.full || spent(passed) {
                    break;
                }
                let mut entry = self.list.remove(0);
                entry.2 += 1;
                seen.push(lpn);
                let at = self.list.len().saturating_sub(from_head);
                self.list.insert(at, entry);
            }
            Some(self.list[0].0)
        }
    }

    #[test]
    fn chooses_what_a_search_of_the_whole_list_chooses() {
        let full = 0xff;
        let mut passed_over = 0;
        for insert in [Insert::Stay, Insert::Head, Insert::At(1), Insert::At(5), Insert::At(60)] {
            for (search_window, passes, when) in [
                (0, 1, When::Congested),
                (4, 1, When::Congested),
                (0, 3, When::Congested),
                (0, 1, When::Always),
                (7, 2, When::Always),
            ] {
                let settings = PcLruConfig { insert, search_window, passes, when };
                let mut buffer = Buffer::for_tests(WITH_FULL, 400, full);
                let mut model = Model { list: vec![], settings, full };
                let mut draw = Stream::new(9, "pc-lru");
                for step in 0..6_000 {
                    let lpn = draw.below(90) as u32;
                    match draw.below(10) {
                        0..=5 => {
                            let mask = if draw.chance(0.3) { full } else { 1 + draw.below(254) };
                            buffer.insert(lpn, mask, Incoming::for_tests(step));
                            model.write(lpn, mask);
                        }
                        6 => {
                            let mask = 1 + draw.below(255);
                            buffer.trim(lpn, mask);
                            model.trim(lpn, mask);
                        }
                        _ => {
                            let salt = draw.word();
                            let busy = |lpn: u32| nandle_random::mix(u64::from(lpn) ^ salt) & 3 > 0;
                            let tail = model.list.first().map(|e| e.0);
                            let expected = model.victim(&busy);
                            let chosen = victims(settings, &mut buffer, |e| busy(e.lpn)).first().copied();
                            assert_eq!(chosen.map(|slot| buffer.entry(slot).lpn), expected, "{settings:?}");
                            passed_over += u32::from(expected != tail);
                            if let Some(slot) = chosen {
                                buffer.take(slot);
                                model.list.retain(|e| Some(e.0) != expected);
                            }
                        }
                    }
                    let order: Vec<(u32, u64)> = buffer.oldest_first().map(|e| (e.lpn, e.mask)).collect();
                    let expected: Vec<(u32, u64)> = model.list.iter().map(|e| (e.0, e.1)).collect();
                    assert_eq!(order, expected, "{settings:?}");
                }
            }
        }
        assert!(passed_over > 5_000, "only {passed_over} choices passed a page over");
    }

    #[test]
    fn nothing_starves() {
        // Always congested and always a full page at hand: a partial page leaves all the same.
        let mut buffer = Buffer::for_tests(WITH_FULL, 100, 0xff);
        buffer.insert(0, 1, Incoming::for_tests(0));
        for lpn in 1..4 {
            buffer.insert(lpn, 0xff, Incoming::for_tests(0));
        }
        let mut left = vec![];
        while let Some(&slot) = victims(PcLruConfig::default(), &mut buffer, |_| true).first() {
            left.push(buffer.take(slot).lpn);
        }
        assert_eq!(left, [1, 0, 2, 3]);
    }

    #[test]
    fn a_search_without_a_full_page_counts() {
        for (insert, expected) in
            [(Insert::Head, [0, 1, 2, 3]), (Insert::At(1), [0, 1, 2, 3]), (Insert::Stay, [0, 3, 1, 2])]
        {
            let settings = PcLruConfig { insert, when: When::Always, ..PcLruConfig::default() };
            let mut buffer = Buffer::for_tests(WITH_FULL, 100, 0xff);
            for lpn in 0..3 {
                buffer.insert(lpn, 1, Incoming::for_tests(0));
            }
            let mut left = vec![];
            while let Some(&slot) = victims(settings, &mut buffer, |_| true).first() {
                left.push(buffer.take(slot).lpn);
                if left.len() == 1 {
                    buffer.insert(3, 0xff, Incoming::for_tests(1));
                }
            }
            assert_eq!(left, expected, "{insert:?}");
        }
    }

    #[test]
    fn inserts_are_written_as_they_are_read() {
        for text in ["stay", "head", "at(60)"] {
            assert_eq!(String::from(Insert::try_from(text.to_string()).expect("legal")), text);
        }
        for text in ["", "at", "at()", "at(0)", "at(-1)", "tail"] {
            assert!(Insert::try_from(text.to_string()).is_err());
        }
    }
}
