//! A failure told: what reached flash, what did not, and that no flush was between.

use std::collections::HashMap;
use std::fmt::Write;

use nandle_observe::event::{Event, FileId, Place, ROOT, What};
use nandle_observe::tree::Tree;
use serde::Serialize;

use crate::check::Verdict;
use crate::model::{Change, FileSystem, Lie, Moment};
use crate::sample::Sort;
use crate::shrink::Smallest;

/// Lines of a story that are shown; the JSON has them all.
const MOST_LINES: usize = 24;
/// Writes that the JSON has of one failure.
const MOST_WRITES: usize = 10_000;

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is on flash.
    Reached,
    /// It is not.
    Lost,
    /// A part of it is.
    Torn,
    /// The file's size is as after it; its data is not there, and reads as zeros.
    Size,
    /// Its data is there, and lies behind the end of the file.
    Data,
}

/// Something that was done and not flushed when the power went.
#[derive(Clone, Debug, Serialize)]
pub struct Written {
    /// Its number among all that the program did to its files.
    pub number: usize,
    /// What it was: `write`, `resize`, `zero`, `create`, `link`, `unlink`, `rename`.
    pub event: &'static str,
    /// Of which file.
    pub path: String,
    /// From which byte on.
    pub offset: Option<u64>,
    /// How many bytes, or the new size.
    pub bytes: Option<u64>,
    /// What became of it.
    pub fate: Fate,
    /// With another fate of this one, or of these together, the check would have passed.
    pub decisive: bool,
}

/// A flush that came before the power went and after the first write that was pending.
#[derive(Clone, Debug, Serialize)]
pub struct Flushed {
    /// Its number.
    pub number: usize,
    /// Of which file; empty for all.
    pub path: String,
}

/// A failure.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The number of the state that was found first.
    pub state: u64,
    /// Of which kind that was.
    pub kind: Sort,
    /// The power went after so many things were done.
    pub after: usize,
    /// What was pending, in order.
    pub writes: Vec<Written>,
    /// What was flushed meanwhile.
    pub flushes: Vec<Flushed>,
    /// What the check said.
    pub check: Verdict,
    /// Asked again, it passed.
    pub wavers: bool,
    /// It is told by what was lost: all else reached flash.
    pub by_loss: bool,
    /// What the program had printed, the last line of it.
    pub printed: Option<String>,
    /// The file that checks this state again.
    pub again: Option<String>,
    /// All of it in words.
    pub story: String,
}

/// Names of files and numbers of events.
pub struct Names<'a> {
    events: &'a [Event],
    numbers: Vec<usize>,
    paths: HashMap<FileId, String>,
}

impl<'a> Names<'a> {
    /// The names that files had first.
    #[must_use]
    pub fn new(before: &Tree, events: &'a [Event]) -> Self {
        let mut paths: HashMap<FileId, String> =
            before.walk().into_iter().map(|(path, file)| (file, path.display().to_string())).collect();
        paths.insert(ROOT, String::new());
        let mut numbers = Vec::with_capacity(events.len());
        let mut number = 0;
        for Event { what, .. } in events {
            if what.is_change() || what.is_flush() {
                number += 1;
            }
            numbers.push(number);
            if let What::Create { place, file, .. } = what {
                let path = join(&paths, place);
                paths.entry(*file).or_insert(path);
            }
        }
        Self { events, numbers, paths }
    }

    fn path(&self, file: FileId) -> String {
        match self.paths.get(&file) {
            Some(path) if path.is_empty() => "$NANDLE_DIR".into(),
            Some(path) => path.clone(),
            None => format!("file {file}"),
        }
    }

    /// The number of what was done last before an event.
    fn before(&self, event: usize) -> usize {
        event.checked_sub(1).and_then(|at| self.numbers.get(at)).copied().unwrap_or(0)
    }

    fn written(&self, event: usize, fate: Fate, decisive: bool) -> Written {
        let (kind, path, offset, bytes) = match &self.events[event].what {
            What::Write { file, offset, data, .. } => {
                ("write", self.path(*file), Some(*offset), Some(data.len() as u64))
            }
            What::Resize { file, size } => ("resize", self.path(*file), None, Some(*size)),
            What::Zero { file, offset, bytes } => ("zero", self.path(*file), Some(*offset), Some(*bytes)),
            What::Create { place, .. } => ("create", join(&self.paths, place), None, None),
            What::Link { place, .. } => ("link", join(&self.paths, place), None, None),
            What::Unlink { place, .. } => ("unlink", join(&self.paths, place), None, None),
            What::Rename { from, to, .. } => {
                ("rename", format!("{} -> {}", join(&self.paths, from), join(&self.paths, to)), None, None)
            }
            _ => ("", String::new(), None, None),
        };
        Written { number: self.numbers[event], event: kind, path, offset, bytes, fate, decisive }
    }
}

fn join(paths: &HashMap<FileId, String>, place: &Place) -> String {
    let name = place.name.to_string_lossy();
    match paths.get(&place.folder) {
        Some(folder) if !folder.is_empty() => format!("{folder}/{name}"),
        _ => name.into_owned(),
    }
}

/// What became of each event that was pending.
fn fates(events: &[Event], moment: &Moment, smallest: &Smallest) -> HashMap<usize, Fate> {
    let is_write = |event: usize| matches!(events[event].what, What::Write { .. });
    // Of each event: its data, or whatever it changed, and the size of the file that it writes.
    let mut fates: HashMap<usize, (Option<Fate>, Option<Fate>)> = HashMap::new();
    for (index, item) in moment.items.iter().enumerate() {
        let level = smallest.choice.levels[index] as usize;
        let is_torn = smallest.choice.tears.iter().any(|tear| tear.item == index);
        for (at, step) in item.steps.iter().enumerate() {
            let fate = match at + 1 {
                n if n == level && is_torn => Fate::Torn,
                n if n <= level => Fate::Reached,
                _ => Fate::Lost,
            };
            let is_size = matches!(step.change, Change::Size(..));
            let (data, size) = fates.entry(step.event).or_default();
            match *data {
                _ if is_size && is_write(step.event) => *size = Some(fate),
                None => *data = Some(fate),
                Some(known) if is_size || known == fate => {}
                Some(_) => *data = Some(Fate::Torn),
            }
        }
    }
    let both = |(event, fates)| {
        let fate = match fates {
            (None | Some(Fate::Lost), Some(Fate::Reached)) => Fate::Size,
            (Some(Fate::Reached), Some(Fate::Lost)) => Fate::Data,
            (Some(data), _) => data,
            (None, size) => size.unwrap_or(Fate::Lost),
        };
        (event, fate)
    };
    fates.into_iter().map(both).collect()
}

/// Tells it.
#[must_use]
pub fn tell(
    names: &Names<'_>,
    smallest: &Smallest,
    found: (u64, Sort),
    lie: Option<Lie>,
    output: &[u8],
) -> Failure {
    let moment = &smallest.moment;
    let fates = fates(names.events, moment, smallest);
    let events = moment.events();
    let writes: Vec<Written> = (events.iter())
        .map(|event| {
            let decisive = smallest.decisive.binary_search(event).is_ok();
            names.written(*event, fates.get(event).copied().unwrap_or(Fate::Lost), decisive)
        })
        .take(MOST_WRITES)
        .collect();
    let first = events.first().copied().unwrap_or(moment.event);
    let flushes: Vec<Flushed> = (names.events[..moment.event].iter().enumerate().skip(first))
        .filter_map(|(event, Event { what, .. })| {
            let path = match what {
                What::Flush { file, .. } => names.path(*file),
                What::FlushFolder { folder } => names.path(*folder),
                What::FlushAll => String::new(),
                _ => return None,
            };
            Some(Flushed { number: names.numbers[event], path })
        })
        .collect();
    let printed = String::from_utf8_lossy(&output[..moment.said]);
    let printed = printed.lines().last().map(str::to_owned);
    let mut failure = Failure {
        state: found.0,
        kind: found.1,
        after: names.before(moment.event),
        writes,
        flushes,
        check: smallest.verdict.clone(),
        wavers: smallest.wavers,
        by_loss: smallest.by_loss,
        printed,
        again: None,
        story: String::new(),
    };
    failure.story = story(&failure, moment, lie);
    failure
}

fn story(failure: &Failure, moment: &Moment, lie: Option<Lie>) -> String {
    let mut text = format!("The power goes after step {}", failure.after);
    if let Some(printed) = &failure.printed {
        let _ = write!(text, "; the program had printed {printed:?}");
    }
    text += ".\n";
    let told: Vec<&Written> = failure.writes.iter().filter(|written| written.decisive).collect();
    let told = if told.is_empty() { failure.writes.iter().collect() } else { told };
    for (index, run) in told.chunk_by(|a, b| is_alike(a, b)).enumerate() {
        if index == MOST_LINES {
            text += "  ...\n";
            break;
        }
        match run {
            [first, .., last] if run.len() > 2 => {
                let _ = writeln!(
                    text,
                    "  {} (and {} more writes of it, up to step {})",
                    line(first),
                    run.len() - 1,
                    last.number
                );
            }
            run => {
                for written in run {
                    let _ = writeln!(text, "  {}", line(written));
                }
            }
        }
    }
    let others = failure.writes.len() - told.len();
    if failure.by_loss {
        if others > 0 {
            let _ = writeln!(text, "All else that was not flushed ({}) reached flash.", steps(others));
        }
    } else if others > 0 {
        let _ = writeln!(
            text,
            "Of what else was not flushed ({}) nothing reached flash, which does not matter.",
            steps(others)
        );
    }
    let (Some(low), Some(high)) = (told.iter().map(|w| w.number).min(), told.iter().map(|w| w.number).max())
    else {
        text += "Nothing was pending: what fails here was flushed.\n";
        return text;
    };
    let between: Vec<&Flushed> = failure
        .flushes
        .iter()
        .filter(|flush| flush.number > low && flush.number <= high.max(failure.after))
        .collect();
    if between.is_empty() {
        let _ = writeln!(text, "Between step {low} and the power cut nothing was flushed.");
    } else {
        let mut paths: Vec<&str> =
            between.iter().map(|flush| if flush.path.is_empty() { "all" } else { &flush.path }).collect();
        paths.dedup();
        let count = paths.len();
        paths.truncate(4);
        let more = if count > 4 { ", ..." } else { "" };
        let paths = paths.join(", ");
        let verdict = match lie {
            None | Some(Lie::Tear) => "none of it covers what is lost",
            Some(_) => "the drive lied, so that it did not count",
        };
        let _ = writeln!(text, "Flushed meanwhile: {paths}{more}; {verdict}.");
    }
    if told.iter().any(|w| w.fate == Fate::Lost && matches!(w.event, "create" | "rename" | "unlink" | "link"))
    {
        text += match moment.fs {
            FileSystem::Posix => "A name is durable when its folder was flushed (fsync of the folder).\n",
            FileSystem::Ext4 => "A name is durable with the next flush of any file.\n",
        };
    }
    let _ = write!(text, "The check: {}", failure.check.how);
    if let Some(last) = failure.check.said.lines().last() {
        let _ = write!(text, ": {last}");
    }
    text += "\n";
    if failure.wavers {
        text += "Asked again, it passed: the check does not always say the same. If it is slow, raise --patience.\n";
    }
    text
}

fn steps(count: usize) -> String {
    if count == 1 { "1 step".into() } else { format!("{count} steps") }
}

/// Whether two are told in one line.
fn is_alike(a: &Written, b: &Written) -> bool {
    a.event == "write" && b.event == "write" && a.path == b.path && a.fate == b.fate
}

fn line(written: &Written) -> String {
    let fate = match written.fate {
        Fate::Reached => "REACHED FLASH",
        Fate::Lost => "did not reach flash",
        Fate::Torn => "reached flash in part",
        Fate::Size => "the file's size reached flash, the data did not",
        Fate::Data => "the data reached flash, the file's size did not",
    };
    let range = match (written.event, written.offset, written.bytes) {
        ("resize", _, Some(size)) => format!(" to {size} bytes"),
        (_, Some(offset), Some(bytes)) => format!(" {bytes} bytes at {offset}"),
        _ => String::new(),
    };
    let Written { number, event, path, .. } = written;
    format!("step {number:<6} {event:<7}{path}{range}: {fate}")
}
