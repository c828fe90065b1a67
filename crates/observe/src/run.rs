//! A program run with its files watched.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;

use crate::Error;
use crate::disk::DISK;
use crate::disk::Disk;
use crate::event::Event;
use crate::places::{self, Locate};
use crate::recorder::Recorder;
use crate::tree::Tree;
use crate::uml::Guest;

/// The variable that says where the observed folder is.
pub const FOLDER: &str = "NANDLE_DIR";

/// How the program's calls are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// FUSE if this user may mount, else the program's calls.
    #[default]
    Any,
    /// A mounted folder.
    Fuse,
    /// The program's system calls, by `ptrace`, on a folder of this machine.
    Calls,
}

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Task {
    /// A command of the shell, or a program with its arguments.
    pub command: Vec<String>,
    /// The files that are there at the start.
    pub tree: Tree,
    /// How it is watched.
    pub means: Means,
    /// The tree is a drive with this file system, on which the program keeps its files; by FUSE only.
    pub disk: Option<Disk>,
    /// Reads are of interest.
    pub reads: bool,
    /// Says where files lie; by calls only, where files are those of a file system.
    pub places: Option<Locate>,
    /// What the program prints goes on to our standard output.
    pub echo: bool,
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The files at the start.
    pub before: Tree,
    /// What was done, in order.
    pub events: Vec<Event>,
    /// The files at the end.
    pub after: Tree,
    /// How the program ended.
    pub status: ExitStatus,
    /// How it was watched.
    pub means: Means,
}

impl Task {
    fn program(&self) -> Command {
        match self.command.as_slice() {
            [line] => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(line);
                shell
            }
            words => {
                let mut command = Command::new(words.first().map_or("", String::as_str));
                command.args(&words[1.min(words.len())..]);
                command
            }
        }
    }

    /// Runs it to its end. `stop` set: it is ended, and what was seen until then returned.
    ///
    /// # Errors
    /// If the files cannot be watched, or the program cannot be started.
    pub fn run(self, stop: &AtomicBool) -> Result<Observation, Error> {
        let work = tempfile::Builder::new().prefix("nandle-watched-").tempdir().map_err(Error::Folder)?;
        let path = work.path().join("files");
        std::fs::create_dir(&path).map_err(Error::Folder)?;
        let recorder = Recorder::new(self.tree.clone(), self.reads);
        match self.means {
            _ if self.disk.is_some() => self.by_fuse(&path, recorder, stop),
            _ if self.places.is_some() => self.by_calls(&path, recorder, stop),
            Means::Calls => self.by_calls(&path, recorder, stop),
            Means::Fuse => self.by_fuse(&path, recorder, stop),
            Means::Any => match self.by_fuse(&path, recorder.clone(), stop) {
                Err(Error::NoFuse(_)) => self.by_calls(&path, recorder, stop),
                done => done,
            },
        }
    }

    fn by_fuse(&self, path: &Path, recorder: Recorder, stop: &AtomicBool) -> Result<Observation, Error> {
        let mounted = crate::fuse::mount(path, recorder.clone()).map_err(Error::NoFuse)?;
        let status = match &self.disk {
            None => self.go(self.program(), path, &recorder, stop)?,
            Some(disk) => {
                let at = path.with_file_name("mounted");
                std::fs::create_dir(&at).map_err(Error::Folder)?;
                if disk.is_in_guest() {
                    let mut program = self.program();
                    program.env(FOLDER, absolute(&at));
                    let (guest, kernel) = Guest::new(disk, &path.join(DISK), &at, &program, true)?;
                    self.go(kernel, &at, &recorder, stop)?;
                    drop(mounted);
                    return Ok(self.done(&recorder, guest.status()?, Means::Fuse));
                }
                let on_it = disk.mount(&path.join(DISK), &at)?;
                let status = self.go(self.program(), &at, &recorder, stop)?;
                // What its cache holds is written, as an hour later.
                drop(on_it);
                status
            }
        };
        // What was written through mappings and is in the kernel's cache only is not the program's last word
        // but what it never asked to be kept.
        drop(mounted);
        Ok(self.done(&recorder, status, Means::Fuse))
    }

    fn by_calls(&self, path: &Path, recorder: Recorder, stop: &AtomicBool) -> Result<Observation, Error> {
        if let Some(locate) = self.places {
            places::probe(path, locate)?;
        }
        self.tree.store(path).map_err(Error::Folder)?;
        let program = self.program();
        let status = crate::calls::run(&program, path, &recorder, self.places, self.echo, stop)?;
        Ok(self.done(&recorder, status, Means::Calls))
    }

    fn done(&self, recorder: &Recorder, status: ExitStatus, means: Means) -> Observation {
        let mut events = recorder.take();
        events.shrink_to_fit();
        let after = recorder.lock().tree.clone();
        Observation { before: self.tree.clone(), events, after, status, means }
    }

    fn go(
        &self,
        mut command: Command,
        path: &Path,
        recorder: &Recorder,
        stop: &AtomicBool,
    ) -> Result<ExitStatus, Error> {
        listen(&mut command, path, recorder, self.echo).map_err(Error::Folder)?;
        let mut child = command.spawn().map_err(|e| Error::Start(self.command.join(" "), e))?;
        drop(command);
        loop {
            if let Some(status) = child.try_wait().map_err(Error::Folder)? {
                recorder.lock().hear();
                return Ok(status);
            }
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = child.kill();
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            recorder.lock().hear();
        }
    }
}

/// Has the recorder read what the command prints, and tells the command where its folder is.
pub(crate) fn listen(command: &mut Command, path: &Path, recorder: &Recorder, echo: bool) -> io::Result<()> {
    let (output, input) = io::pipe()?;
    let output = std::fs::File::from(OwnedFd::from(output));
    rustix::fs::fcntl_setfl(&output, rustix::fs::OFlags::NONBLOCK)?;
    command.stdin(Stdio::null()).stdout(input).env(FOLDER, absolute(path));
    recorder.listen(output, echo);
    Ok(())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
