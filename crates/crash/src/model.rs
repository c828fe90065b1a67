//! What may be on flash at a moment of a program's run.
//!
//! At a moment some of what was done is durable: the *floor*. The rest is *pending*, in items that reach flash
//! independently of each other. An item is a page of a file, a file's size, or the names in a folder; it has a
//! step for each time it changed, and reaches flash as it was after one of them, for the kernel writes the
//! page that it has in its cache. How far each item got is a [`Choice`], and each choice is a state.
//! `docs/crash-test.md` has the assumptions in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use nandle_observe::event::{Event, FileId, Place, What};
use nandle_observe::tree::{PAGE, Page, Tree, names};

/// Bytes that a drive writes as one, whatever happens.
pub const SECTOR: usize = 512;
/// Sectors of a page.
pub const SECTORS: usize = PAGE as usize / SECTOR;
/// A page that changed more often than this keeps so many of its steps, the first and the last among them.
const MOST_STEPS: usize = 64;

/// How a drive lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// A flush is answered and does nothing.
    IgnoreFlush,
    /// A write that is to be durable when it returns (FUA) is in RAM only: `O_DSYNC`, and the record by
    /// which a file system commits sizes and names.
    IgnoreFua,
    /// A page that is being written is torn anywhere, within a sector too, and its other sectors with it.
    Tear,
    /// What a flush covers is on flash only with the next one: later writes may be there before.
    ReorderAcrossFlush,
}

/// What a file system promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileSystem {
    /// What the manual pages do, and no more: each file and each folder is durable when it was flushed.
    #[default]
    Posix,
    /// As ext4 with its default options: names are journalled in order and committed by any flush, a file
    /// grows when its data is written, and a file that replaces another by rename is written before the
    /// name changes.
    Ext4,
}

/// What of a file system reaches flash by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A page of a file.
    Page(FileId, u64),
    /// A file's size.
    Size(FileId),
    /// The names in a folder.
    Names(FileId),
}

/// What an item became.
#[derive(Clone, Debug)]
pub enum Change {
    /// A page's contents; none for zeros.
    Page(Option<Arc<Page>>),
    /// A size, and whether something was cut off.
    Size(u64, bool),
    /// Names, and what each stands for from then on.
    Names(Vec<(Place, Option<FileId>)>),
}

/// A change of an item.
#[derive(Clone, Debug)]
pub struct Step {
    /// The event that made it.
    pub event: usize,
    /// What it made.
    pub change: Change,
}

/// Something that is pending.
#[derive(Clone, Debug)]
pub struct Item {
    /// What it is.
    pub key: Key,
    /// Its changes, in order.
    pub steps: Vec<Step>,
}

/// How far each item got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// By item: how many of its steps reached flash.
    pub levels: Vec<u32>,
    /// Pages that were being written when the power went.
    pub tears: Vec<Tear>,
}

/// A page that was being written when the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tear {
    /// Which item.
    pub item: usize,
    /// The sectors that are new, a bit each.
    pub sectors: u8,
    /// A drive that lies: the byte up to which the page is new; the rest of its sector is worthless.
    pub byte: Option<u16>,
}

/// All states that a power cut may leave at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The power goes before this event.
    pub event: usize,
    /// What is durable.
    pub floor: Tree,
    /// What is not.
    pub items: Vec<Item>,
    /// How much the program had printed, bytes.
    pub said: usize,
    /// What the file system promises.
    pub fs: FileSystem,
    /// Renames that replaced a file: the event, and the file that has the name since.
    pub replacing: Vec<(usize, FileId)>,
    /// Writes that the drive keeps whole.
    pub whole: Vec<Whole>,
    /// The drive's sectors are pages.
    pub large_sectors: bool,
}

/// A write that reaches flash whole or not at all.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The event.
    pub event: usize,
    /// The pages that it wrote, of those that are pending.
    pub items: Vec<usize>,
    /// Some of its pages are durable already, so it is there.
    pub is_there: bool,
}

impl Moment {
    /// How many choices there are, without torn pages.
    #[must_use]
    pub fn choices(&self) -> u64 {
        self.items.iter().fold(1u64, |product, item| product.saturating_mul(item.steps.len() as u64 + 1))
    }

    /// Everything pending reached flash.
    #[must_use]
    pub fn all(&self) -> Choice {
        Choice { levels: self.items.iter().map(|item| item.steps.len() as u32).collect(), tears: vec![] }
    }

    /// Nothing pending did.
    #[must_use]
    pub fn none(&self) -> Choice {
        Choice { levels: vec![0; self.items.len()], tears: vec![] }
    }

    /// Everything before an event reached flash, in the order in which it was done.
    #[must_use]
    pub fn prefix(&self, event: usize) -> Choice {
        let level = |item: &Item| item.steps.partition_point(|step| step.event < event) as u32;
        Choice { levels: self.items.iter().map(level).collect(), tears: vec![] }
    }

    /// The events of what is pending, in order.
    #[must_use]
    pub fn events(&self) -> Vec<usize> {
        let mut events: Vec<usize> =
            self.items.iter().flat_map(|item| item.steps.iter().map(|step| step.event)).collect();
        events.sort_unstable();
        events.dedup();
        events
    }

    /// Makes a choice one that a file system allows: what a truncation cut off is gone if and only if the
    /// size is, and a rename between two folders is there in both or in none.
    pub fn allow(&self, choice: &mut Choice) {
        self.keep_whole(choice);
        let cuts: BTreeMap<FileId, (usize, &Item)> = (self.items.iter().enumerate())
            .filter_map(|(index, item)| match item.key {
                Key::Size(file) if item.steps.iter().any(is_cut) => Some((file, (index, item))),
                _ => None,
            })
            .collect();
        if !cuts.is_empty() {
            for (index, item) in self.items.iter().enumerate() {
                let Key::Page(file, _) = item.key else { continue };
                let Some(&(size, sizes)) = cuts.get(&file) else { continue };
                let level = choice.levels[size] as usize;
                for (number, cut) in sizes.steps.iter().enumerate().filter(|(_, step)| is_cut(step)) {
                    let Some(at) = item.steps.iter().position(|step| step.event == cut.event) else {
                        continue;
                    };
                    let page = &mut choice.levels[index];
                    *page = if number < level { (*page).max(at as u32 + 1) } else { (*page).min(at as u32) };
                }
            }
        }
        let folders: Vec<(usize, &Item)> =
            self.items.iter().enumerate().filter(|(_, item)| matches!(item.key, Key::Names(_))).collect();
        loop {
            let mut changed = false;
            for &(index, item) in &folders {
                for &(other, partner) in &folders {
                    if index == other {
                        continue;
                    }
                    let level = choice.levels[index] as usize;
                    let missing = item.steps[..level].iter().position(|step| {
                        let at = partner.steps.iter().position(|s| s.event == step.event);
                        at.is_some_and(|at| at >= choice.levels[other] as usize)
                    });
                    if let Some(at) = missing {
                        choice.levels[index] = at as u32;
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        if self.fs == FileSystem::Ext4 {
            self.allow_ext4(choice);
        }
        choice.tears.retain(|tear| {
            let last = (choice.levels[tear.item] as usize).checked_sub(1);
            let last = last.map(|at| self.items[tear.item].steps[at].event);
            let is_whole = |event| self.whole.iter().any(|whole| whole.event == event);
            last.is_some_and(|event| tear.byte.is_some() || !(self.large_sectors || is_whole(event)))
        });
    }

    /// Of an atomic write all pages reached flash, or none did.
    fn keep_whole(&self, choice: &mut Choice) {
        let below =
            |item: usize, event: usize| self.items[item].steps.partition_point(|s| s.event < event) as u32;
        for Whole { event, items, .. } in self.whole.iter().filter(|whole| whole.is_there) {
            for &item in items {
                choice.levels[item] = choice.levels[item].max(below(item, event + 1));
            }
        }
        loop {
            let before = choice.levels.clone();
            for Whole { event, items, .. } in self.whole.iter().filter(|whole| !whole.is_there) {
                if items.iter().any(|&item| choice.levels[item] <= below(item, *event)) {
                    for &item in items {
                        choice.levels[item] = choice.levels[item].min(below(item, *event));
                    }
                }
            }
            if choice.levels == before {
                break;
            }
        }
    }

    fn allow_ext4(&self, choice: &mut Choice) {
        let is_names = |item: &Item| matches!(item.key, Key::Names(_));
        // The journal ends somewhere: what is behind is lost in all folders.
        let first_lost = (self.items.iter().zip(&choice.levels))
            .filter(|(item, _)| is_names(item))
            .filter_map(|(item, &level)| Some(item.steps.get(level as usize)?.event))
            .min();
        let first_lost = first_lost.unwrap_or(usize::MAX);
        for (item, level) in self.items.iter().zip(&mut choice.levels).filter(|(item, _)| is_names(item)) {
            *level = (*level).min(item.steps.partition_point(|step| step.event < first_lost) as u32);
        }
        for (item, level) in self.items.iter().zip(&mut choice.levels) {
            let (Key::Page(file, _) | Key::Size(file)) = item.key else { continue };
            for &(event, _) in self.replacing.iter().filter(|&&(event, by)| by == file && event < first_lost)
            {
                *level = (*level).max(item.steps.partition_point(|step| step.event < event) as u32);
            }
        }
        // A file has grown if the last page of what made it grow is there.
        for index in 0..self.items.len() {
            let Item { key: Key::Size(file), steps } = &self.items[index] else { continue };
            let mut level = choice.levels[index] as usize;
            while let Some(step) = level.checked_sub(1).map(|at| &steps[at]) {
                let Change::Size(size, false) = step.change else { break };
                let last = Key::Page(*file, size.saturating_sub(1) / PAGE);
                let page = self.items.iter().position(|item| item.key == last);
                let wrote = page.filter(|&page| self.items[page].steps.iter().any(|s| s.event == step.event));
                let is_there = |page: usize| {
                    let reached = choice.levels[page] as usize;
                    reached.checked_sub(1).is_some_and(|at| self.items[page].steps[at].event >= step.event)
                };
                if wrote.is_none_or(is_there) {
                    break;
                }
                level -= 1;
            }
            choice.levels[index] = level as u32;
        }
    }

    /// The files that a choice leaves.
    #[must_use]
    pub fn build(&self, choice: &Choice) -> Tree {
        let mut tree = self.floor.clone();
        for (index, item) in self.items.iter().enumerate() {
            let level = choice.levels[index] as usize;
            if level == 0 {
                continue;
            }
            match (&item.key, &item.steps[level - 1].change) {
                (&Key::Page(file, page), Change::Page(new)) => {
                    let tear = choice.tears.iter().find(|tear| tear.item == index);
                    let contents = match tear {
                        None => new.clone(),
                        Some(tear) => Some(Arc::new(torn(tear, &self.before(index, level), new.as_deref()))),
                    };
                    if let Some(file) = tree.contents_mut(file) {
                        file.set_page(page, contents);
                    }
                }
                (&Key::Size(file), &Change::Size(size, _)) => {
                    if let Some(file) = tree.contents_mut(file) {
                        file.set_size(size);
                    }
                }
                (Key::Names(_), _) => {
                    for step in &item.steps[..level] {
                        let Change::Names(changes) = &step.change else { continue };
                        for (place, file) in changes {
                            match file {
                                Some(file) => tree.enter(place, *file),
                                None => tree.leave(place),
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        tree
    }

    /// A page before the step that is its last.
    fn before(&self, index: usize, level: usize) -> Page {
        let Item { key: Key::Page(file, page), steps } = &self.items[index] else {
            return [0; PAGE as usize];
        };
        let before = match level.checked_sub(2).map(|at| &steps[at].change) {
            Some(Change::Page(page)) => page.clone(),
            _ => self.floor.contents(*file).and_then(|contents| contents.page(*page).cloned()),
        };
        before.map_or([0; PAGE as usize], |page| *page)
    }

    /// The sectors in which a page differs from what it was before its last step.
    #[must_use]
    pub fn changed_sectors(&self, index: usize, level: usize) -> u8 {
        let (old, zeros) = (self.before(index, level), [0; PAGE as usize]);
        let Some(Change::Page(new)) = level.checked_sub(1).map(|at| &self.items[index].steps[at].change)
        else {
            return 0;
        };
        let new = new.as_deref().unwrap_or(&zeros);
        (0..SECTORS)
            .filter(|s| old[s * SECTOR..(s + 1) * SECTOR] != new[s * SECTOR..(s + 1) * SECTOR])
            .fold(0, |mask, sector| mask | 1 << sector)
    }
}

fn is_cut(step: &Step) -> bool {
    matches!(step.change, Change::Size(_, true))
}

fn torn(tear: &Tear, old: &Page, new: Option<&Page>) -> Page {
    let mut page = *old;
    let zeros = [0; PAGE as usize];
    let new = new.unwrap_or(&zeros);
    if let Some(byte) = tear.byte {
        let byte = usize::from(byte);
        page[..byte].copy_from_slice(&new[..byte]);
        let end = (byte + 1).next_multiple_of(SECTOR);
        page[byte..end].fill(0xff);
        return page;
    }
    for sector in (0..SECTORS).filter(|sector| tear.sectors >> sector & 1 == 1) {
        page[sector * SECTOR..][..SECTOR].copy_from_slice(&new[sector * SECTOR..][..SECTOR]);
    }
    page
}

/// What a flush covers.
#[derive(Clone, Copy, Debug)]
enum Scope {
    File(FileId),
    Folder(FileId),
    All,
}

/// Goes through the events and keeps what is durable apart from what is not.
#[derive(Clone)]
pub struct Sweep<'a> {
    events: &'a [Event],
    lie: Option<Lie>,
    fs: FileSystem,
    replacing: Vec<(usize, FileId)>,
    next: usize,
    now: Tree,
    floor: Tree,
    pending: BTreeMap<Key, Vec<Step>>,
    /// Flushes whose effect comes with the next one.
    late: Vec<(Scope, usize)>,
    said: usize,
    /// Bytes that the drive writes as one; 0 for a sector.
    atomic: u64,
    large_sectors: bool,
}

impl<'a> Sweep<'a> {
    /// Begins before the first event, with the files of that time.
    #[must_use]
    pub fn new(before: &Tree, events: &'a [Event], fs: FileSystem, lie: Option<Lie>) -> Self {
        Self {
            events,
            lie,
            fs,
            replacing: Vec::new(),
            next: 0,
            now: before.clone(),
            floor: before.clone(),
            pending: BTreeMap::new(),
            late: Vec::new(),
            said: 0,
            atomic: 0,
            large_sectors: false,
        }
    }

    /// The same on a drive that keeps a write whole that crosses no multiple of so many bytes of its file.
    #[must_use]
    pub fn atomic(self, bytes: u64) -> Self {
        Self { atomic: bytes, ..self }
    }

    /// The same on a drive whose sectors are pages, which it does not tear.
    #[must_use]
    pub fn large_sectors(self, large_sectors: bool) -> Self {
        Self { large_sectors, ..self }
    }

    /// The atomic writes of which pages are pending.
    fn whole(&self, items: &[Item]) -> Vec<Whole> {
        let mut pending: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, item) in items.iter().enumerate().filter(|(_, item)| matches!(item.key, Key::Page(..))) {
            for step in &item.steps {
                pending.entry(step.event).or_default().push(index);
            }
        }
        let whole = |(event, items): (usize, Vec<usize>)| match &self.events[event].what {
            What::Write { offset, data, .. } if !data.is_empty() => {
                let end = offset + data.len() as u64;
                let pages = end.div_ceil(PAGE) - offset / PAGE;
                let is_one = offset / self.atomic == (end - 1) / self.atomic;
                is_one.then_some(Whole { event, is_there: (items.len() as u64) < pages, items })
            }
            _ => None,
        };
        pending.into_iter().filter_map(whole).collect()
    }

    /// What may be on flash if the power goes before this event, which must not be before the last one asked for.
    pub fn moment(&mut self, event: usize) -> Moment {
        while self.next < event.min(self.events.len()) {
            self.step();
        }
        let items = self.pending.iter().filter(|(_, steps)| !steps.is_empty());
        let mut items: Vec<Item> = items.map(|(&key, steps)| Item { key, steps: steps.clone() }).collect();
        items.sort_by_key(|item| (item.steps[0].event, item.key));
        let replacing = self.replacing.clone();
        let whole = if self.atomic > 0 { self.whole(&items) } else { Vec::new() };
        let (event, floor) = (self.next, self.floor.clone());
        let (said, fs, large_sectors) = (self.said, self.fs, self.large_sectors);
        Moment { event, floor, items, said, fs, replacing, whole, large_sectors }
    }

    fn step(&mut self) {
        let at = self.next;
        self.next += 1;
        let what = &self.events[at].what;
        match what {
            What::Write { file, offset, data, durable } => {
                let end = offset + data.len() as u64;
                self.change(at, what, *file, *offset, end);
                if *durable && self.lie != Some(Lie::IgnoreFua) {
                    self.settle_write(at, *file, *offset, end);
                }
            }
            What::Zero { file, offset, bytes } => {
                self.change(at, what, *file, *offset, offset.saturating_add(*bytes));
            }
            What::Resize { file, size } => {
                let old = self.now.contents(*file).map_or(0, |contents| contents.size());
                self.change(at, what, *file, (*size).min(old), old.next_multiple_of(PAGE));
            }
            What::Create { file, kind, mode, .. } => {
                self.floor.make(*file, kind, *mode);
                self.rename(at, what);
            }
            What::Link { .. } | What::Unlink { .. } | What::Rename { .. } => self.rename(at, what),
            What::Flush { file, .. } => self.flush(Scope::File(*file), at),
            What::FlushFolder { folder } => self.flush(Scope::Folder(*folder), at),
            What::FlushAll => self.flush(Scope::All, at),
            What::Output(said) => self.said += said.len(),
            What::Read { .. } | What::Allocate { .. } | What::Placed { .. } => {}
        }
    }

    /// Enters what an event does to the pages from `from` to `to` of a file, and to its size.
    fn change(&mut self, event: usize, what: &What, file: FileId, from: u64, to: u64) {
        let Some(contents) = self.now.contents(file) else { return };
        let old = contents.size();
        let is_write = matches!(what, What::Write { .. });
        let pages = from / PAGE..to.div_ceil(PAGE);
        let touched: Vec<u64> = if is_write {
            pages.collect()
        } else {
            contents.pages().map(|(index, _)| index).filter(|index| pages.contains(index)).collect()
        };
        self.now.apply(what);
        let Some(contents) = self.now.contents(file) else { return };
        let size = contents.size();
        for index in touched {
            let change = Change::Page(contents.page(index).cloned());
            let steps = self.pending.entry(Key::Page(file, index)).or_default();
            steps.push(Step { event, change });
            if steps.len() > MOST_STEPS {
                thin(steps);
            }
        }
        if size != old {
            let change = Change::Size(size, size < old);
            self.pending.entry(Key::Size(file)).or_default().push(Step { event, change });
        }
    }

    fn rename(&mut self, event: usize, what: &What) {
        if let What::Rename { file, over: Some(_), .. } = what {
            self.replacing.push((event, *file));
        }
        self.now.apply(what);
        let mut by_folder: BTreeMap<FileId, Vec<(Place, Option<FileId>)>> = BTreeMap::new();
        for (place, file) in names(what) {
            by_folder.entry(place.folder).or_default().push((place, file));
        }
        for (folder, changes) in by_folder {
            let steps = self.pending.entry(Key::Names(folder)).or_default();
            steps.push(Step { event, change: Change::Names(changes) });
        }
    }

    fn flush(&mut self, scope: Scope, at: usize) {
        for (scope, at) in std::mem::take(&mut self.late) {
            self.settle(scope, at, true);
        }
        match self.lie {
            None | Some(Lie::Tear) => self.settle(scope, at, true),
            Some(Lie::IgnoreFlush) => {}
            Some(Lie::IgnoreFua) => {
                self.settle(scope, at, false);
                self.late.push((scope, at));
            }
            Some(Lie::ReorderAcrossFlush) => self.late.push((scope, at)),
        }
    }

    /// What is pending of a scope from before an event is durable; `commits` tells whether sizes and names are.
    fn settle(&mut self, scope: Scope, event: usize, commits: bool) {
        let keys: Vec<Key> = match scope {
            Scope::File(file) => {
                let pages = self.pending.range(Key::Page(file, 0)..=Key::Page(file, u64::MAX));
                pages.map(|(&key, _)| key).chain([Key::Size(file)]).collect()
            }
            Scope::Folder(folder) => vec![Key::Names(folder)],
            Scope::All => self.pending.keys().copied().collect(),
        };
        if commits && self.fs == FileSystem::Ext4 {
            self.commit(event);
        }
        for key in keys {
            // Without its truncation committed, a file has all that it had before.
            let waits = match key {
                _ if commits => false,
                Key::Page(file, _) => {
                    self.pending.get(&Key::Size(file)).is_some_and(|sizes| sizes.iter().any(is_cut))
                }
                Key::Size(_) | Key::Names(_) => true,
            };
            if !waits {
                self.settle_item(key, event);
            }
        }
    }

    /// The journal's names up to an event are durable, and the files that replaced others by then.
    fn commit(&mut self, event: usize) {
        let names: Vec<Key> =
            self.pending.keys().copied().filter(|key| matches!(key, Key::Names(_))).collect();
        for key in names {
            self.settle_item(key, event);
        }
        let done: Vec<(usize, FileId)> =
            self.replacing.extract_if(.., |(rename, _)| *rename < event).collect();
        for (rename, file) in done {
            let pages = self.pending.range(Key::Page(file, 0)..=Key::Page(file, u64::MAX));
            let keys: Vec<Key> = pages.map(|(&key, _)| key).chain([Key::Size(file)]).collect();
            for key in keys {
                self.settle_item(key, rename);
            }
        }
    }

    fn settle_item(&mut self, key: Key, event: usize) {
        let Some(steps) = self.pending.get_mut(&key) else { return };
        let count = steps.partition_point(|step| step.event < event);
        let done: Vec<Step> = steps.drain(..count).collect();
        if steps.is_empty() {
            self.pending.remove(&key);
        }
        let mut partners = Vec::new();
        for step in done {
            match (key, step.change) {
                (Key::Page(file, index), Change::Page(page)) => {
                    if let Some(contents) = self.floor.contents_mut(file) {
                        contents.set_page(index, page);
                    }
                }
                (Key::Size(file), Change::Size(size, _)) => {
                    if let Some(contents) = self.floor.contents_mut(file) {
                        contents.set_size(size);
                    }
                }
                (_, Change::Names(changes)) => {
                    for (place, file) in changes {
                        match file {
                            Some(file) => self.floor.enter(&place, file),
                            None => self.floor.leave(&place),
                        }
                    }
                    // A rename between two folders is one entry of the journal.
                    if let What::Rename { from, to, .. } = &self.events[step.event].what
                        && from.folder != to.folder
                    {
                        partners.push((from.folder, step.event + 1));
                        partners.push((to.folder, step.event + 1));
                    }
                }
                _ => {}
            }
        }
        for (folder, event) in partners {
            self.settle_item(Key::Names(folder), event);
        }
    }

    /// A write that returned only when it was durable: its pages are, and the size that it needs.
    fn settle_write(&mut self, event: usize, file: FileId, from: u64, to: u64) {
        let cut =
            self.pending.get(&Key::Size(file)).and_then(|sizes| sizes.iter().rfind(|step| is_cut(step)));
        if let Some(cut) = cut.map(|step| step.event) {
            self.settle(Scope::File(file), cut + 1, true);
        }
        for page in from / PAGE..to.div_ceil(PAGE) {
            self.settle_item(Key::Page(file, page), event + 1);
        }
        self.settle_item(Key::Size(file), event + 1);
    }
}

/// Leaves out every other step but the first and the last.
fn thin(steps: &mut Vec<Step>) {
    let last = steps.len() - 1;
    let mut index = 0;
    steps.retain(|step| {
        let kept = index % 2 == 0 || index == last || is_cut(step);
        index += 1;
        kept
    });
}
