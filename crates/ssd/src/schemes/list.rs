//! The schemes of a drive, asked in their order.

use std::any::Any;

use nandle_nand::{Block, OpId, Ppn, Time};

use super::scheme::{Facts, Interests, Name, Objects, Pages, Plan, Reach, Rest, Scheme, Seam, Surroundings};
use super::{SchemeConfig, Settings, Slot, StreamsConfig, build, choices, counters, names, plan, settings};
use crate::buffer::{Buffer, Victims};
use crate::error::ConfigError;
use crate::flash::{Flash, Part, SchemeRecord, Ticket, Write, page};
use crate::map::Fragment;
use crate::space::{Candidates, GroupId, PageClass};

impl SchemeConfig {
    /// Every policy that can be named, seam by seam, the baseline's first.
    pub fn policies() -> Vec<Name> {
        names()
    }

    /// What the policy of this name takes in brackets.
    pub fn settings(name: &str) -> Settings {
        settings(name)
    }

    /// Every counter that a scheme keeps, as (`section.key` in `summary.json`, what it counts).
    pub fn counters() -> impl Iterator<Item = (&'static str, &'static str)> {
        counters().into_iter()
    }

    /// The names of the mapping schemes; none for page mapping.
    pub fn mappings(&self) -> impl Iterator<Item = &str> {
        self.mapping.split('+').filter(|name| *name != "page")
    }

    /// Whether a policy is chosen by this name.
    pub fn has(&self, name: &str) -> bool {
        self.chosen().contains(&name)
    }

    /// The names that are chosen, baseline included.
    fn chosen(&self) -> Vec<&str> {
        let mut names = vec![self.buffer.as_str(), self.allocation.as_str(), self.streams.as_str()];
        names.extend(self.mapping.split('+'));
        names.extend(self.compaction.then_some("compaction"));
        names
    }

    /// What the schemes ask of the layers of a drive.
    ///
    /// # Errors
    /// If a name is unknown, or a scheme cannot run on the device.
    pub(crate) fn plan(&self, streams: &StreamsConfig, facts: &Facts<'_>) -> Result<Plan, ConfigError> {
        for (seam, value) in [
            (Seam::Buffer, &self.buffer),
            (Seam::Mapping, &self.mapping),
            (Seam::Allocation, &self.allocation),
            (Seam::Streams, &self.streams),
        ] {
            let choices = choices(seam);
            let mut terms: Vec<&str> = value.split('+').collect();
            let known = terms.iter().all(|term| choices.contains(term));
            terms.sort_unstable();
            let single = seam != Seam::Mapping || terms.contains(&"page");
            let twice = terms.windows(2).any(|two| two[0] == two[1]);
            if !known || twice || single && terms.len() > 1 {
                let sum = if seam == Seam::Mapping { ", or a sum of them such as \"a+b\"" } else { "" };
                let expected = format!("one of {}{sum}", choices.join(", "));
                return Err(ConfigError::new(seam.key(), format!("{value:?}"), expected));
            }
        }
        let names = self.chosen();
        let mut made = plan(self, streams, &Facts { names: &names, ..facts.clone() })?;
        made.buffer.by_request = self.buffer == "fifo";
        Ok(made)
    }
}

/// The schemes of a drive.
#[derive(Clone, Debug)]
pub struct Schemes {
    slots: Vec<Slot>,
    interests: Interests,
    reach: Reach,
    /// [`Reach::is_least`], asked with every write.
    reach_is_least: bool,
}

/// Those that follow a scheme.
struct Following<'a> {
    slots: &'a mut [Slot],
}

impl Rest for Following<'_> {
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        place(self.slots, flash, write)
    }
    fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>) {
        match next_placer(self.slots) {
            None => page::place_part(flash, write, part),
            Some((scheme, slots)) => {
                scheme.as_dyn_mut().place_part(flash, write, part, &mut Following { slots });
            }
        }
    }
}

/// The first slot that places writes, and those behind it.
fn next_placer(slots: &mut [Slot]) -> Option<(&mut Slot, &mut [Slot])> {
    let at = slots.iter().position(|slot| slot.as_dyn().interests().has(Interests::PLACE))?;
    slots[at..].split_first_mut()
}

fn place(slots: &mut [Slot], flash: &mut Flash, write: &Write<'_>) -> u32 {
    match next_placer(slots) {
        None => page::place(flash, write),
        Some((scheme, slots)) => scheme.as_dyn_mut().place(flash, write, &mut Following { slots }),
    }
}

/// What schemes see of each other when they choose what leaves the buffer.
struct Near<'a> {
    flash: &'a Flash,
    slots: &'a [Slot],
    interests: Interests,
}

impl Surroundings for Near<'_> {
    fn flash(&self) -> &Flash {
        self.flash
    }
    fn reads_before(&self, lpn: u32, mask: u64) -> Pages {
        let Self { flash, .. } = *self;
        if mask == flash.full_mask() {
            return Pages::new();
        }
        let rewrite = self.rewrites(lpn, mask);
        let mut answers = self.slots.iter().map(|slot| slot.as_dyn().reads_before(flash, lpn, mask, rewrite));
        answers.find_map(|pages| pages).unwrap_or_else(|| {
            let list = flash.fragments().get(lpn, flash.array());
            list.iter().filter(|f| f.mask & !mask != 0).map(|f| f.ppn).collect()
        })
    }
    fn rewrites(&self, lpn: u32, mask: u64) -> Option<u64> {
        if !self.interests.has(Interests::REWRITES) {
            return None;
        }
        rewrites(self.slots, self.flash, lpn, mask)
    }
}

/// What a scheme wants read and programmed together with a partial update.
fn rewrites(slots: &[Slot], flash: &Flash, lpn: u32, mask: u64) -> Option<u64> {
    let stored = flash.plain(lpn).iter().fold(0, |all, f| all | f.mask) & !mask;
    if stored == 0 {
        return None;
    }
    let mut answers = slots.iter().map(|slot| slot.as_dyn().rewrites(flash, lpn, mask, stored));
    answers.find_map(|rest| rest).map(|rest| rest & stored)
}

impl Schemes {
    /// The schemes that a configuration names, on a device that they can run on.
    pub(crate) fn new(
        config: &SchemeConfig,
        streams: &StreamsConfig,
        facts: &Facts<'_>,
        plan: &Plan,
        logical_pages: u32,
    ) -> Self {
        let names = config.chosen();
        let slots = build(config, streams, &Facts { names: &names, ..facts.clone() }, logical_pages);
        let mut schemes = Self {
            slots,
            interests: Interests::NONE,
            reach: plan.reach,
            reach_is_least: plan.reach.is_least(),
        };
        schemes.learn_interests();
        schemes
    }

    fn learn_interests(&mut self) {
        let all = self.slots.iter().map(|slot| slot.as_dyn().interests());
        self.interests = all.fold(Interests::NONE, Interests::and);
    }

    /// Adds a scheme from outside of the crate: it is asked before those of the drive, and after others
    /// that were added before it.
    pub(crate) fn add(&mut self, scheme: Box<dyn Scheme>) {
        let at = self.slots.iter().take_while(|slot| matches!(slot, Slot::Outside(_))).count();
        self.slots.insert(at, Slot::Outside(scheme));
        self.learn_interests();
    }
    /// The first opinion on page types: see [`Scheme::page_types`].
    pub(crate) fn page_types(&self, class: PageClass, types: usize) -> Option<Vec<usize>> {
        let opinions = self.slots.iter().map(|slot| slot.as_dyn().page_types(class, types));
        opinions.into_iter().find(|order| !order.is_empty())
    }
    /// The drive was powered on again: counters go on, and schemes from outside are asked as before.
    pub(crate) fn take_over(&mut self, before: &Self) {
        for slot in &mut self.slots {
            before.slots.iter().for_each(|other| slot.inherit(other));
        }
        for slot in &before.slots {
            if let Slot::Outside(scheme) = slot {
                self.add(scheme.boxed());
            }
        }
    }
    /// A scheme of the drive by its type.
    pub fn get<S: Scheme>(&self) -> Option<&S> {
        self.slots.iter().find_map(|slot| (slot.as_dyn() as &dyn Any).downcast_ref())
    }
    /// What placing a part of a write may take.
    #[inline]
    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }
    /// Whether placing a part programs that page and no other, and a whole page as one.
    #[inline]
    pub(crate) fn reach_is_least(&self) -> bool {
        self.reach_is_least
    }

    // ---- what leaves the buffer ---------------------------------------------------------------------

    /// Which slots of `buffer` leave next, together.
    #[inline]
    pub(crate) fn destage(&mut self, flash: &Flash, buffer: &mut Buffer) -> Victims {
        if !self.interests.has(Interests::DESTAGE) {
            return buffer.next_victims();
        }
        self.own_destage(flash, buffer)
    }

    #[inline(never)]
    fn own_destage(&mut self, flash: &Flash, buffer: &mut Buffer) -> Victims {
        let victims = self.chosen_victims(flash, buffer);
        let near = Near { flash, slots: &self.slots, interests: self.interests };
        match victims.as_slice() {
            &[slot] => {
                let mut with = self.slots.iter().map(|s| s.as_dyn().accompany(&near, buffer, slot));
                with.find_map(|more| more).unwrap_or(victims)
            }
            _ => victims,
        }
    }

    fn chosen_victims(&mut self, flash: &Flash, buffer: &mut Buffer) -> Victims {
        if buffer.is_empty() {
            return Victims::new();
        }
        for n in 0..self.slots.len() {
            if !self.slots[n].as_dyn().interests().has(Interests::DESTAGE) {
                continue;
            }
            // The one that is asked is taken out while it looks at the others.
            let mut asked = std::mem::replace(&mut self.slots[n], Slot::idle());
            let near = Near { flash, slots: &self.slots, interests: self.interests };
            let answer = asked.as_dyn_mut().destage(&near, buffer);
            self.slots[n] = asked;
            let Some(mut victims) = answer else { continue };
            // What is named twice counts once, what is not there not at all.
            let mut known = Victims::new();
            victims.retain(|&mut slot| {
                let counts = buffer.holds(slot) && !known.contains(&slot);
                known.extend(counts.then_some(slot));
                counts
            });
            if !victims.is_empty() {
                return victims;
            }
        }
        buffer.next_victims()
    }

    // ---- where it goes ------------------------------------------------------------------------------

    /// Places a write with the ticket that was given for it; how many programs its request waits for.
    #[inline(always)]
    pub(crate) fn place(&mut self, flash: &mut Flash, ticket: Ticket, write: &Write<'_>) -> u32 {
        flash.spend(ticket);
        if !self.interests.has(Interests::PLACE) {
            return page::place(flash, write);
        }
        self.place_by_scheme(flash, write)
    }

    /// Whether no scheme has a say in how a write of one part is placed.
    #[inline]
    pub(crate) fn leave_writes_alone(&self) -> bool {
        const WRITES: Interests = Interests::PLACE.and(Interests::LOOK_UP).and(Interests::OBJECTS);
        self.reach_is_least && !self.interests.has_any(WRITES)
    }

    fn place_by_scheme(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        let programs = if self.interests.has(Interests::REWRITES) {
            let mut parts: smallvec::SmallVec<[Part<'_>; 4]> = write.parts.iter().copied().collect();
            for part in parts.iter_mut().filter(|part| part.mask != flash.full_mask()) {
                part.rewrite = rewrites(&self.slots, flash, part.lpn, part.mask);
            }
            place(&mut self.slots, flash, &Write { parts: &parts, ..*write })
        } else {
            place(&mut self.slots, flash, write)
        };
        for slot in &mut self.slots {
            slot.as_dyn_mut().placed(flash, write);
        }
        programs
    }

    /// The stream of a write of `sectors` sectors from `lsn`, for which the host gave the id `hint`.
    #[inline]
    pub(crate) fn stream(&self, flash: &Flash, lsn: u64, sectors: u64, hint: u16) -> u16 {
        if !self.interests.has(Interests::STREAM) || flash.space().streams() == 1 {
            return hint;
        }
        let mut answers = self.slots.iter().map(|slot| slot.as_dyn().stream(flash, lsn, sectors, hint));
        answers.find_map(|stream| stream).unwrap_or(hint)
    }

    /// The host has a stream go on to its next unit.
    pub(crate) fn next_unit(&mut self, flash: &Flash, stream: u16) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().next_unit(flash, stream));
    }
    /// Objects that the host names, if a scheme knows any.
    #[inline]
    pub(crate) fn objects(&mut self) -> Option<&mut dyn Objects> {
        if !self.interests.has(Interests::OBJECTS) {
            return None;
        }
        self.slots.iter_mut().find_map(|slot| slot.as_dyn_mut().objects())
    }
    /// The same, to look at.
    pub fn objects_ref(&self) -> Option<&dyn Objects> {
        if !self.interests.has(Interests::OBJECTS) {
            return None;
        }
        self.slots.iter().find_map(|slot| slot.as_dyn().objects_ref())
    }

    // ---- the map ------------------------------------------------------------------------------------

    /// The host needs the entry for the sectors `mask` of `lpn`: the load that it has to wait for, if any.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<OpId> {
        if self.interests.has(Interests::LOOK_UP)
            && let Some(load) = self.own_look_up(flash, lpn, mask)
        {
            return load;
        }
        flash.look_up(lpn)
    }
    #[inline(never)]
    fn own_look_up(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<Option<OpId>> {
        self.slots.iter_mut().find_map(|slot| slot.as_dyn_mut().look_up(flash, lpn, mask))
    }
    /// A host read of `sectors` sectors from `lsn` goes to flash.
    #[inline]
    pub(crate) fn host_read(&mut self, flash: &Flash, lsn: u64, sectors: u64) {
        if self.interests.has(Interests::HOST_READ) {
            self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().host_read(flash, lsn, sectors));
        }
    }
    /// Sectors of `lpn` were trimmed.
    #[inline]
    pub(crate) fn trimmed_page(&mut self, flash: &mut Flash, lpn: u32) {
        if self.interests.has(Interests::TRIM) {
            self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().trimmed_page(flash, lpn));
        }
    }
    /// The sectors from `lsn` were trimmed.
    pub(crate) fn trimmed(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        if self.interests.has(Interests::TRIM) {
            self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().trimmed(flash, lsn, sectors));
        }
    }

    // ---- collection ---------------------------------------------------------------------------------

    /// The victim that a scheme names for `plane`, if it can be collected.
    pub(crate) fn victim(
        &self,
        flash: &Flash,
        plane: u32,
        from: &Candidates<'_>,
        now: Time,
    ) -> Option<Block> {
        if !self.interests.has(Interests::VICTIM) {
            return None;
        }
        from.buckets().next()?;
        let sound =
            |block: &Block| from.closed().contains(block) && from.valid(*block) < from.pages_per_block();
        let mut answers = self.slots.iter().map(|slot| slot.as_dyn().victim(flash, plane, from, now));
        answers.find_map(|block| block.filter(sound))
    }

    /// Moves a live page of a victim into `plane`; how many programs with `Cause::Gc` that took.
    #[inline]
    pub(crate) fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, group: GroupId) -> u32 {
        if self.interests.has(Interests::RELOCATE) {
            for slot in &mut self.slots {
                if let Some(programs) = slot.as_dyn_mut().relocate(flash, ppn, plane, group) {
                    return programs;
                }
            }
        }
        flash.relocate(ppn, plane, group);
        1
    }
    /// An owned page is now somewhere else: `fragment` of `lpn` is in it.
    pub(crate) fn page_went(&mut self, flash: &mut Flash, lpn: u32, fragment: Fragment) {
        for slot in &mut self.slots {
            slot.as_dyn_mut().page_went(flash, lpn, fragment);
        }
    }
    /// After how long without any work the drive calls [`Schemes::idle`], if ever.
    #[inline]
    pub(crate) fn idle_after(&self) -> Option<Time> {
        if !self.interests.has(Interests::IDLE) {
            return None;
        }
        self.slots.iter().filter_map(|slot| slot.as_dyn().idle_after()).min()
    }
    /// The drive has been idle: a little background work. False if there is none left.
    pub(crate) fn idle(&mut self, flash: &mut Flash) -> bool {
        self.slots.iter_mut().fold(false, |more, slot| more | slot.as_dyn_mut().idle(flash))
    }
    /// What those that look at time take for granted on a drive without clocks.
    pub(crate) fn without_time(&self) -> Vec<&'static str> {
        self.slots.iter().filter_map(|slot| slot.as_dyn().without_time()).collect()
    }
    /// Objects are about to claim blocks. False if that takes time.
    pub(crate) fn make_way(&mut self, flash: &mut Flash) -> bool {
        self.slots.iter_mut().fold(true, |way, slot| way & slot.as_dyn_mut().make_way(flash))
    }

    // ---- power cuts -----------------------------------------------------------------------------------

    /// How many records describe what the schemes know.
    pub(crate) fn record_count(&self) -> usize {
        self.slots.iter().map(|slot| slot.as_dyn().record_count()).sum()
    }
    /// These records, under new sequence numbers.
    pub(crate) fn renew_records(&mut self, flash: &mut Flash) -> Vec<SchemeRecord> {
        self.slots.iter_mut().flat_map(|slot| slot.as_dyn_mut().renew_records(flash)).collect()
    }
    /// At power-on: all records that were found, in no order.
    pub(crate) fn expect_records(&mut self, records: &[SchemeRecord]) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().expect_records(records));
    }
    /// At power-on: a record, in the order of sequence numbers.
    pub(crate) fn learn(&mut self, flash: &mut Flash, record: &SchemeRecord) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().learn(flash, record));
    }
    /// At power-on: a range was trimmed.
    pub(crate) fn forget(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().forget(flash, lsn, sectors));
    }
    /// At power-on: the map and the blocks are known.
    pub(crate) fn restore(&mut self, flash: &mut Flash) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().restore(flash));
    }

    // ---- accounts -------------------------------------------------------------------------------------

    /// Checks the invariants of all schemes; for tests.
    pub(crate) fn check(&self, flash: &Flash) {
        self.slots.iter().for_each(|slot| slot.as_dyn().check(flash));
    }
    /// Bytes of RAM that their parts of the map take beyond the table.
    pub(crate) fn footprint(&self, flash: &Flash) -> u64 {
        self.slots.iter().map(|slot| slot.as_dyn().footprint(flash)).sum()
    }
    /// All counters of schemes, as `section.key` and value; 0 for those that the drive does not have.
    pub fn counters(&self, flash: &Flash) -> Vec<(&'static str, u64)> {
        let mut all: Vec<(&str, u64)> = SchemeConfig::counters().map(|(name, _)| (name, 0)).collect();
        for slot in &self.slots {
            slot.visit(flash, &mut |name, value| match all.iter_mut().find(|(known, _)| *known == name) {
                Some(counter) => counter.1 = value,
                None => all.push((name, value)),
            });
        }
        all
    }
    pub(crate) fn reset_counters(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.as_dyn_mut().reset_counters());
    }
}

/// Stands in for a scheme that is being asked.
#[derive(Clone, Debug)]
struct Idle;

impl Scheme for Idle {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(Self)
    }
}

impl Slot {
    fn idle() -> Self {
        Self::Outside(Box::new(Idle))
    }
}

#[cfg(test)]
mod tests {
    use super::super::TAGS;
    use super::*;

    #[test]
    fn what_schemes_write_to_flash_is_theirs_alone() {
        let owners: Vec<u8> = TAGS.iter().map(|tag| tag.0).filter(|&owner| owner != 0).collect();
        let kinds: Vec<u8> = TAGS.iter().flat_map(|tag| tag.1.iter().copied()).collect();
        for mut tags in [owners, kinds] {
            let all = tags.len();
            tags.sort_unstable();
            tags.dedup();
            assert_eq!(tags.len(), all, "two schemes with the same tag");
            assert!(!tags.contains(&0));
        }
    }

    #[test]
    fn names_are_unique_and_counters_have_sections() {
        let mut names: Vec<&str> = names().iter().map(|name| name.name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "two policies of one name");
        assert!(SchemeConfig::counters().all(|(name, what)| name.contains('.') && !what.is_empty()));
    }
}
