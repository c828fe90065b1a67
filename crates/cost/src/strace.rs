//! What `strace -f -ttt -y` printed of a program, as what it did to its files.
//!
//! `-y` names the file behind each descriptor. A line holds no contents, so nothing is known of pages that are written twice.
//! Reads are left out: whether the page cache had them is not told.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufRead;
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nandle_observe::event::{Event, FileId, Kind, Place, ROOT, What};
use nandle_observe::tree::Tree;
use nandle_observe::{Means, Observation};

use crate::Error;

/// How strace is to be called, for those who called it in another way.
const EXPECTED: &str =
    "expected a file that `strace -f -ttt -y -o FILE -e trace=%file,%desc,msync,sync,syncfs CMD` wrote";
/// Folders that no drive holds.
const NO_FILES: [&str; 3] = ["/dev", "/proc", "/sys"];
const YEAR_2000_S: u64 = 946_684_800;

/// A call that has returned.
struct Call<'a> {
    line: usize,
    at_ns: u64,
    process: u32,
    name: &'a str,
    args: Vec<&'a str>,
    result: i64,
    /// The path of the descriptor that it returned.
    path: Option<PathBuf>,
}

/// Something to be told of what was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Files that were mapped to be written; what was written that way is not in the trace.
    pub mapped: usize,
}

/// Reads the file, and keeps what was done to files under `under`.
///
/// # Errors
/// If it is something else, or the program did what strace does not see.
pub fn read(file: &Path, under: Option<&Path>) -> Result<(Observation, Unseen), Error> {
    let wrong = |e: String| Error::Input(format!("{}: {e}; {EXPECTED}", file.display()));
    let opened = std::fs::File::open(file).map_err(|e| wrong(e.to_string()))?;
    let mut lines: Vec<String> = Vec::new();
    let mut unfinished: HashMap<u32, (usize, String)> = HashMap::new();
    // A call that others interrupted is put together where it returned.
    let mut whole: Vec<(usize, String)> = Vec::new();
    for (number, line) in std::io::BufReader::new(opened).split(b'\n').enumerate() {
        let line = line.map_err(|e| wrong(e.to_string()))?;
        lines.push(String::from_utf8_lossy(&line).into_owned());
        let line = &lines[number];
        let (process, _) = process_of(line);
        if let Some(head) = line.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, (number, head.to_owned()));
        } else if let Some((before, after)) = line.split_once(" resumed>")
            && let Some((stamp, _)) = before.split_once("<... ")
        {
            if let Some((_, head)) = unfinished.remove(&process) {
                // It returned now.
                let call = head.get(stamp.len()..).unwrap_or_default();
                whole.push((number, format!("{stamp}{call}{after}")));
            }
        } else {
            whole.push((number, line.clone()));
        }
    }
    let mut calls = Vec::new();
    for (number, line) in &whole {
        match parse(*number, line) {
            Ok(Some(call)) => calls.push(call),
            Ok(None) => {}
            Err(what) => return Err(wrong(format!("line {}: {what}", number + 1))),
        }
    }
    if calls.is_empty() {
        return Err(wrong("no system call in it".into()));
    }
    let under = match under {
        Some(under) => std::path::absolute(under).map_err(|e| wrong(e.to_string()))?,
        None => PathBuf::from("/"),
    };
    Reader::new(under).go(&calls).map_err(wrong)
}

/// The number of the process in front of a line, and what is behind it.
fn process_of(line: &str) -> (u32, &str) {
    let line = line.strip_prefix("[pid ").map_or(line, str::trim_start);
    let end = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    match line[..end].parse() {
        Ok(process) if line[end..].starts_with([' ', ']']) => {
            (process, line[end..].trim_start_matches([']', ' ']))
        }
        _ => (0, line),
    }
}

fn parse(line: usize, text: &str) -> Result<Option<Call<'_>>, String> {
    let (process, rest) = process_of(text.trim_end());
    let Some((stamp, rest)) = rest.split_once(' ') else { return Ok(None) };
    if rest.starts_with("---") || rest.starts_with("+++") {
        return Ok(None);
    }
    let Some(at_ns) = time(stamp) else { return Err("no time in seconds since 1970 (-ttt)".into()) };
    let Some((name, rest)) = rest.split_once('(') else { return Ok(None) };
    let (args, rest) = arguments(rest);
    let Some((_, result)) = rest.split_once("= ") else { return Ok(None) };
    let end = result.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(result.len());
    let Ok(number) = result[..end].parse::<i64>() else { return Ok(None) };
    if number < 0 {
        return Ok(None);
    }
    let path = path_of(&result[end..]);
    Ok(Some(Call { line, at_ns, process, name, args, result: number, path }))
}

/// Nanoseconds since 1970, of seconds with a fraction; none if that was before there was strace.
fn time(stamp: &str) -> Option<u64> {
    let (seconds, fraction) = stamp.split_once('.').unwrap_or((stamp, "0"));
    let seconds: u64 = seconds.parse().ok().filter(|seconds| *seconds > YEAR_2000_S)?;
    let nanoseconds: u64 = format!("{fraction:0<9.9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// What is in the brackets of a call, by commas, and what is behind them.
fn arguments(text: &str) -> (Vec<&str>, &str) {
    let (mut args, mut from, mut depth) = (Vec::new(), 0, 0usize);
    let (mut quoted, mut escaped, mut path) = (false, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' if !path => quoted = !quoted,
            _ if quoted => {}
            '<' if at > 0 && !text[..at].ends_with([' ', '<']) => path = true,
            '>' => path = false,
            _ if path => {}
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                if at > from {
                    args.push(text[from..at].trim());
                }
                return (args, &text[at + 1..]);
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                args.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    (args, "")
}

/// The path that `-y` prints behind a descriptor.
fn path_of(descriptor: &str) -> Option<PathBuf> {
    let from = descriptor.find('<')? + 1;
    let text = &descriptor[from..descriptor.rfind('>')?];
    // Sockets, pipes and the like are no paths.
    let text = text.trim_end_matches(" (deleted)");
    text.starts_with('/').then(|| PathBuf::from(unescaped(text)))
}

/// A string as strace quotes it.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(next) = rest.next_if(|next| (b'0'..=b'7').contains(next)) else { break };
                    value = value * 8 + u32::from(next - b'0');
                }
                bytes.push(value as u8);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn quoted(argument: &str) -> Option<String> {
    let text = argument.strip_prefix('"')?;
    Some(unescaped(&text[..text.rfind('"')?]))
}

fn number(argument: Option<&&str>) -> Option<u64> {
    argument?.parse().ok()
}

/// An open file.
#[derive(Clone, Copy, Default)]
struct Open {
    position: u64,
    append: bool,
    durable: bool,
}

struct Reader {
    under: PathBuf,
    before: Tree,
    /// The files now; what they hold is left out.
    files: HashMap<PathBuf, FileId>,
    folders: HashMap<PathBuf, FileId>,
    sizes: HashMap<FileId, u64>,
    next: FileId,
    events: Vec<Event>,
    /// By descriptor and path: two processes that open the same file with the same number are one.
    open: HashMap<(String, PathBuf), Open>,
    /// Where a process is.
    at: HashMap<u32, PathBuf>,
    /// Zeros of a length, shared.
    zeros: HashMap<u64, Arc<[u8]>>,
    mapped: HashSet<PathBuf>,
}

impl Reader {
    fn new(under: PathBuf) -> Self {
        Self {
            under,
            before: Tree::default(),
            files: HashMap::new(),
            folders: HashMap::from([(PathBuf::new(), ROOT)]),
            sizes: HashMap::new(),
            next: ROOT + 1,
            events: Vec::new(),
            open: HashMap::new(),
            at: HashMap::new(),
            zeros: HashMap::new(),
            mapped: HashSet::new(),
        }
    }

    fn go(mut self, calls: &[Call<'_>]) -> Result<(Observation, Unseen), String> {
        let start = calls.iter().map(|call| call.at_ns).min().unwrap_or(0);
        for (path, size) in self.there(calls) {
            let file = self.enter(&path, false);
            if let Some(contents) = self.before.contents_mut(file) {
                contents.set_size(size);
            }
            self.sizes.insert(file, size);
        }
        for call in calls {
            let before = self.events.len();
            if call.name == "io_uring_setup" {
                let what = "the program uses io_uring, whose writes strace does not see";
                return Err(format!("line {}: {what}", call.line + 1));
            }
            self.call(call);
            for event in &mut self.events[before..] {
                event.at_ns = call.at_ns - start;
                event.process = call.process;
            }
        }
        let unseen = Unseen { mapped: self.mapped.len() };
        let (before, events) = (self.before, self.events);
        let mut after = before.clone();
        events.iter().for_each(|event| after.apply(&event.what));
        let status = std::process::ExitStatus::from_raw(0);
        Ok((Observation { before, events, after, status, means: Means::Calls }, unseen))
    }

    /// Files that were there before, and their sizes: opened without `O_CREAT`, or found by a `stat`, before anything
    /// was done to them.
    fn there(&mut self, calls: &[Call<'_>]) -> BTreeMap<PathBuf, u64> {
        let mut found: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let mut new: HashSet<PathBuf> = HashSet::new();
        for call in calls {
            let paths = match call.name {
                "open" | "openat" | "creat" | "openat2" => {
                    let Some(path) = call.path.as_deref().and_then(|path| self.ours(path)) else { continue };
                    let flags = call.args.iter().find(|arg| arg.contains("O_")).copied().unwrap_or_default();
                    let is_made = flags.contains("O_CREAT") || call.name == "creat";
                    if !flags.contains("O_DIRECTORY") && !is_made && !new.contains(&path) {
                        found.entry(path).or_insert(0);
                    }
                    continue;
                }
                "rename" | "renameat" | "renameat2" | "link" | "linkat" => self.paths(call),
                "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "ftruncate" | "fallocate" => {
                    let path = call.args.first().and_then(|arg| path_of(arg));
                    path.and_then(|path| self.ours(&path)).into_iter().collect()
                }
                _ => {
                    let size = call.args.iter().find_map(|arg| arg.split_once("st_size="));
                    let is_file = call.args.iter().any(|arg| arg.contains("S_IFREG"));
                    let path = call.args.first().and_then(|arg| path_of(arg)).filter(|_| {
                        !call.args.iter().any(|arg| quoted(arg).is_some_and(|text| !text.is_empty()))
                    });
                    let path = path
                        .and_then(|path| self.ours(&path))
                        .or_else(|| self.paths(call).into_iter().next());
                    if let (Some((_, size)), true, Some(path)) = (size, is_file, path)
                        && !new.contains(&path)
                    {
                        let size =
                            size.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok());
                        let size = size.unwrap_or(0);
                        if size > 0 || found.contains_key(&path) {
                            found.entry(path).and_modify(|known| *known = size.max(*known)).or_insert(size);
                        }
                    }
                    continue;
                }
            };
            new.extend(paths);
        }
        // What was never written or renamed is of no interest: programs open many files.
        found.retain(|path, _| new.contains(path));
        found
    }

    /// A path as it is under the folder that counts.
    fn ours(&self, path: &Path) -> Option<PathBuf> {
        let mut plain = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => {
                    plain.pop();
                }
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        if NO_FILES.iter().any(|folder| plain.starts_with(folder)) {
            return None;
        }
        let inside = plain.strip_prefix(&self.under).ok()?;
        (!inside.as_os_str().is_empty()).then(|| inside.to_owned())
    }

    /// The paths that a call names, in order.
    fn paths(&self, call: &Call<'_>) -> Vec<PathBuf> {
        let here = self.at.get(&call.process).cloned();
        let mut folder: Option<PathBuf> = None;
        let mut found = Vec::new();
        for arg in &call.args {
            if let Some(text) = quoted(arg) {
                let path = Path::new(&text);
                let above = folder.take().or_else(|| here.clone()).unwrap_or_else(|| "/".into());
                found.extend(self.ours(&above.join(path)));
            } else {
                folder = path_of(arg);
            }
        }
        found
    }

    /// The folder of this path, which is there from the start if nothing is known of it.
    fn folder(&mut self, path: &Path) -> FileId {
        if let Some(&folder) = self.folders.get(path) {
            return folder;
        }
        let above = self.folder(path.parent().unwrap_or(Path::new("")));
        let folder = self.fresh();
        let name = path.file_name().unwrap_or_default().to_owned();
        let place = Place { folder: above, name };
        self.before.apply(&What::Create { place, file: folder, kind: Kind::Folder, mode: 0o755 });
        self.folders.insert(path.to_owned(), folder);
        folder
    }

    fn fresh(&mut self) -> FileId {
        self.next += 1;
        self.next - 1
    }

    fn place(&mut self, path: &Path) -> Place {
        let folder = self.folder(path.parent().unwrap_or(Path::new("")));
        Place { folder, name: path.file_name().unwrap_or_default().to_owned() }
    }

    /// A file that gets its first name, now or before.
    fn enter(&mut self, path: &Path, now: bool) -> FileId {
        let place = self.place(path);
        let file = self.fresh();
        let what = What::Create { place, file, kind: Kind::File, mode: 0o644 };
        if now {
            self.push(what);
        } else {
            self.before.apply(&what);
        }
        self.files.insert(path.to_owned(), file);
        self.sizes.insert(file, 0);
        file
    }

    fn push(&mut self, what: What) {
        self.events.push(Event { what, at_ns: 0, process: 0 });
    }

    /// The file behind a descriptor.
    fn file(&mut self, argument: Option<&&str>) -> Option<(FileId, (String, PathBuf))> {
        let argument = argument?;
        let path = path_of(argument)?;
        let inside = self.ours(&path)?;
        let file = *self.files.get(&inside)?;
        Some((file, (argument.split('<').next().unwrap_or_default().to_owned(), inside)))
    }

    fn written(&mut self, call: &Call<'_>, at: Option<u64>) {
        let bytes = call.result as u64;
        let Some((file, key)) = self.file(call.args.first()) else { return };
        let size = self.sizes.get(&file).copied().unwrap_or(0);
        let open = self.open.entry(key).or_default();
        let offset = match at {
            Some(at) => at,
            None if open.append => size,
            None => open.position,
        };
        if at.is_none() {
            open.position = offset + bytes;
        }
        let durable =
            open.durable || call.args.iter().any(|arg| arg.contains("RWF_DSYNC") || arg.contains("RWF_SYNC"));
        self.write(file, offset, bytes, durable);
    }

    fn write(&mut self, file: FileId, offset: u64, bytes: u64, durable: bool) {
        if bytes == 0 {
            return;
        }
        let data = self.zeros.entry(bytes).or_insert_with(|| vec![0; bytes as usize].into()).clone();
        let size = self.sizes.entry(file).or_default();
        *size = (*size).max(offset + bytes);
        self.push(What::Write { file, offset, data, durable });
    }

    fn call(&mut self, call: &Call<'_>) {
        if let Some(at) =
            call.args.iter().find(|arg| arg.starts_with("AT_FDCWD<")).and_then(|arg| path_of(arg))
        {
            self.at.insert(call.process, at);
        }
        let args = &call.args;
        match call.name {
            "open" | "openat" | "creat" | "openat2" => self.opened(call),
            "write" | "writev" => self.written(call, None),
            "pwrite64" | "pwritev" | "pwritev2" => {
                let at = number(args.get(3));
                self.written(call, Some(at.unwrap_or(0)));
            }
            "read" | "readv" => {
                if let Some((_, key)) = self.file(args.first()) {
                    self.open.entry(key).or_default().position += call.result as u64;
                }
            }
            "lseek" => {
                if let Some((_, key)) = self.file(args.first()) {
                    self.open.entry(key).or_default().position = call.result as u64;
                }
            }
            "copy_file_range" | "sendfile" => {
                let to = if call.name == "sendfile" { args.first() } else { args.get(2) };
                if let Some((file, key)) = self.file(to) {
                    let open = self.open.entry(key).or_default();
                    let offset = open.position;
                    open.position += call.result as u64;
                    self.write(file, offset, call.result as u64, false);
                }
            }
            "ftruncate" => {
                if let (Some((file, _)), Some(size)) = (self.file(args.first()), number(args.get(1))) {
                    self.resize(file, size);
                }
            }
            "truncate" => {
                let file = self.paths(call).first().and_then(|path| self.files.get(path).copied());
                if let (Some(file), Some(size)) = (file, number(args.get(1))) {
                    self.resize(file, size);
                }
            }
            "fallocate" => {
                let (Some((file, _)), Some(offset), Some(bytes)) =
                    (self.file(args.first()), number(args.get(2)), number(args.get(3)))
                else {
                    return;
                };
                let mode = args.get(1).copied().unwrap_or_default();
                let gone = mode.contains("PUNCH_HOLE") || mode.contains("ZERO_RANGE");
                self.push(if gone {
                    What::Zero { file, offset, bytes }
                } else {
                    What::Allocate { file, offset, bytes }
                });
                if !mode.contains("KEEP_SIZE") && offset + bytes > self.sizes.get(&file).copied().unwrap_or(0)
                {
                    self.resize(file, offset + bytes);
                }
            }
            "fsync" | "fdatasync" => {
                if let Some((file, _)) = self.file(args.first()) {
                    self.push(What::Flush { file, data_only: call.name == "fdatasync" });
                } else if let Some(folder) = (args.first().and_then(|arg| path_of(arg)))
                    .and_then(|path| path.strip_prefix(&self.under).ok().map(Path::to_owned))
                    .and_then(|path| self.folders.get(&path).copied())
                {
                    self.push(What::FlushFolder { folder });
                }
            }
            "sync" | "syncfs" => self.push(What::FlushAll),
            "mmap" => {
                let is_written = args.iter().any(|arg| arg.contains("PROT_WRITE"));
                if is_written
                    && args.iter().any(|arg| arg.contains("MAP_SHARED"))
                    && let Some((_, (_, path))) = self.file(args.get(4))
                {
                    self.mapped.insert(path);
                }
            }
            "rename" | "renameat" | "renameat2" => self.renamed(call),
            "link" | "linkat" => {
                if let [from, to] = &self.paths(call)[..]
                    && let Some(&file) = self.files.get(from)
                {
                    let place = self.place(to);
                    self.files.insert(to.clone(), file);
                    self.push(What::Link { place, file });
                }
            }
            "unlink" | "unlinkat" | "rmdir" => {
                for path in self.paths(call) {
                    let file = self.files.remove(&path).or_else(|| self.folders.remove(&path));
                    if let Some(file) = file {
                        let place = self.place(&path);
                        self.push(What::Unlink { place, file });
                    }
                }
            }
            "mkdir" | "mkdirat" => {
                for path in self.paths(call) {
                    if !self.folders.contains_key(&path) {
                        let place = self.place(&path);
                        let file = self.fresh();
                        self.push(What::Create { place, file, kind: Kind::Folder, mode: 0o755 });
                        self.folders.insert(path, file);
                    }
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, call: &Call<'_>) {
        let Some(path) = call.path.as_deref().and_then(|path| self.ours(path)) else { return };
        let flags = call.args.iter().find(|arg| arg.contains("O_")).copied().unwrap_or_default();
        let is_made = flags.contains("O_CREAT") || call.name == "creat";
        let file = match self.files.get(&path) {
            Some(&file) => file,
            None if is_made && !self.folders.contains_key(&path) => self.enter(&path, true),
            None => return,
        };
        if (flags.contains("O_TRUNC") || call.name == "creat")
            && self.sizes.get(&file).is_some_and(|&size| size > 0)
        {
            self.resize(file, 0);
        }
        let durable = flags.contains("O_SYNC") || flags.contains("O_DSYNC");
        let open = Open { position: 0, append: flags.contains("O_APPEND"), durable };
        self.open.insert((call.result.to_string(), path), open);
    }

    fn resize(&mut self, file: FileId, size: u64) {
        self.sizes.insert(file, size);
        self.push(What::Resize { file, size });
    }

    fn renamed(&mut self, call: &Call<'_>) {
        let [from, to] = &self.paths(call)[..] else { return };
        if let Some(folder) = self.folders.get(from).copied() {
            // All that is in it has another path.
            let moved = |path: &Path| path.strip_prefix(from).ok().map(|rest| to.join(rest));
            let of = |known: &mut HashMap<PathBuf, FileId>| {
                let all = std::mem::take(known).into_iter();
                *known = all.map(|(path, id)| (moved(&path).unwrap_or(path), id)).collect();
            };
            let old = self.place(from);
            of(&mut self.files);
            of(&mut self.folders);
            let new = self.place(to);
            self.push(What::Rename { from: old, to: new, file: folder, over: None, exchange: false });
            return;
        }
        let Some(file) = self.files.remove(from) else { return };
        let over = self.files.insert(to.clone(), file);
        let (from_place, to_place) = (self.place(from), self.place(to));
        self.push(What::Rename { from: from_place, to: to_place, file, over, exchange: false });
        // Descriptors are printed with the new name.
        let moved: Vec<_> = self.open.extract_if(|(_, path), _| path == from).collect();
        for ((descriptor, _), open) in moved {
            self.open.insert((descriptor, to.clone()), open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, under: &str) -> Result<(Observation, Unseen), Error> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        read(file.path(), Some(Path::new(under)))
    }

    #[test]
    fn calls_are_what_was_done() {
        let text = r#"7 1795557994.000000 newfstatat(AT_FDCWD</d>, "old.db", {st_mode=S_IFREG|0644, st_size=8192, ...}, 0) = 0
7 1795557994.000100 openat(AT_FDCWD</d>, "old.db", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 3</d/old.db>
7 1795557994.000200 openat(AT_FDCWD</d>, "new, (x).wal", O_RDWR|O_CREAT|O_APPEND, 0644) = 4</d/new, (x).wal>
7 1795557994.000300 pwrite64(3</d/old.db>, "a\"b"..., 4096, 4096) = 4096
8 1795557994.000350 write(4</d/new, (x).wal>, "x", 100 <unfinished ...>
7 1795557994.000360 fdatasync(3</d/old.db>) = 0
8 1795557994.000400 <... write resumed>) = 100
8 1795557994.000500 write(4</d/new, (x).wal>, "x", 50) = 50
8 1795557994.000600 fsync(5</d>) = 0
7 1795557994.000700 write(9</elsewhere>, "x", 50) = 50
7 1795557994.000800 ftruncate(4</d/new, (x).wal>, 0) = -1 EINVAL (Invalid argument)
7 1795557994.000900 rename("new, (x).wal", "/d/old.db") = 0
7 1795557994.001000 +++ exited with 0 +++
"#;
        let (found, unseen) = seen(text, "/d").expect("understood");
        assert_eq!(unseen.mapped, 0);
        let told: Vec<String> = (found.events.iter())
            .map(|event| match &event.what {
                What::Write { file, offset, data, .. } => format!("write {file} {offset} {}", data.len()),
                What::Create { place, .. } => format!("create {}", place.name.to_string_lossy()),
                What::Flush { file, data_only } => format!("flush {file} {data_only}"),
                What::FlushFolder { folder } => format!("folder {folder}"),
                What::Rename { file, over, .. } => format!("rename {file} over {over:?}"),
                what => format!("{what:?}"),
            })
            .collect();
        let expected = [
            "create new, (x).wal",
            "write 2 4096 4096",
            "flush 2 true",
            "write 3 0 100",
            "write 3 100 50",
            "folder 1",
            "rename 3 over Some(2)",
        ];
        assert_eq!(told, expected);
        assert_eq!(found.events[1].at_ns / 1000, 300);
        assert_eq!(found.before.contents(2).map(|contents| contents.size()), Some(8192));
    }

    #[test]
    fn what_is_something_else_is_refused() {
        for (text, part) in [
            ("", "no system call"),
            ("hello world\n", "no time in seconds"),
            ("7 12:30:01 write(3</d/a>, \"x\", 1) = 1\n", "-ttt"),
            ("7 1795557994.0 io_uring_setup(8, {...}) = 3\n", "io_uring"),
        ] {
            let error = seen(text, "/d").expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("strace -f -ttt -y"), "{error}");
        }
    }
}
