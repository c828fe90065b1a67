//! The user's check, run on one state after the other.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nandle_observe::FOLDER;
use nandle_observe::disk::{DISK, Disk};
use nandle_observe::tree::Tree;

use crate::Error;

/// The variable that says where the program's standard output up to the power cut is.
pub const OUTPUT: &str = "NANDLE_OUTPUT";
/// How much of what a check says is kept, bytes.
const MOST_SAID: usize = 4000;

/// The check, and how it is asked.
#[derive(Clone, Debug)]
pub struct Check {
    /// A command of the shell.
    pub command: String,
    /// It stays: it reads folders from its standard input, a line each, and answers each with a line, `ok`
    /// if it is in order.
    pub stays: bool,
    /// Longer than this is a failure.
    pub patience: Duration,
    /// A state is a drive with this file system, which is mounted for the check.
    pub disk: Option<Disk>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// The state is in order.
    pub passed: bool,
    /// How the check ended, in words.
    pub how: String,
    /// What it said, the end of it.
    pub said: String,
    /// The shell did not find the command.
    #[serde(skip)]
    pub not_found: bool,
}

/// One that checks: a folder of its own, and the check if it stays.
pub struct Bench<'a> {
    check: &'a Check,
    folder: tempfile::TempDir,
    staying: Option<Staying>,
}

struct Staying {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl<'a> Bench<'a> {
    /// A bench with an empty folder.
    ///
    /// # Errors
    /// If there is no room for one.
    pub fn new(check: &'a Check) -> Result<Self, Error> {
        // In memory if there is such a place: a state is written once and read once.
        let memory = Path::new("/dev/shm");
        let builder = || tempfile::Builder::new().prefix("nandle-state-").to_owned();
        let folder = builder().tempdir_in(memory).or_else(|_| builder().tempdir()).map_err(Error::Folder)?;
        Ok(Self { check, folder, staying: None })
    }

    /// Where the states are laid out.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// Checks one state, with what the program had printed by then.
    ///
    /// # Errors
    /// If the state cannot be laid out, or the check cannot be run.
    pub fn check(&mut self, state: &Tree, output: &[u8]) -> Result<Verdict, Error> {
        let (path, said) = (self.path(), self.folder.path().join("files.output"));
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::Folder(e)),
            _ => {}
        }
        std::fs::create_dir(&path).map_err(Error::Folder)?;
        std::fs::write(&said, output).map_err(Error::Folder)?;
        let check = self.check;
        let Some(disk) = &check.disk else {
            state.store(&path).map_err(Error::Folder)?;
            return self.asked(&path, &said);
        };
        let image = self.folder.path().join(DISK);
        match std::fs::remove_file(&image) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::Folder(e)),
            _ => {}
        }
        state.store(self.folder.path()).map_err(Error::Folder)?;
        match disk.mount(&image, &path) {
            Ok(_mounted) => self.asked(&path, &said),
            Err(e) => {
                let how = "the file system cannot be mounted".into();
                Ok(Verdict { passed: false, how, said: e.to_string(), not_found: false })
            }
        }
    }

    fn asked(&mut self, path: &Path, said: &Path) -> Result<Verdict, Error> {
        if self.check.stays { self.ask(path) } else { self.run(path, said) }
    }

    /// Where what the check says is kept.
    fn words(&self) -> PathBuf {
        self.folder.path().join("said")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.check.command);
        // A group of its own, so that what it started ends with it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    fn run(&self, path: &Path, output: &Path) -> Result<Verdict, Error> {
        let to = File::create(self.words()).map_err(Error::Folder)?;
        let too = to.try_clone().map_err(Error::Folder)?;
        let mut command = self.command();
        command.env(FOLDER, path).env(OUTPUT, output).stdin(Stdio::null()).stdout(to).stderr(too);
        let mut child = command.spawn().map_err(Error::Check)?;
        let status = wait(&mut child, self.check.patience);
        end_group(&mut child);
        let said = ending(&std::fs::read(self.words()).map_err(Error::Folder)?);
        Ok(match status {
            Some(status) => Verdict {
                passed: status.success(),
                how: in_words(status),
                said,
                not_found: status.code() == Some(127),
            },
            None => self.too_late(said),
        })
    }

    fn too_late(&self, said: String) -> Verdict {
        let how = format!("it was not done after {} s", self.check.patience.as_secs());
        Verdict { passed: false, how, said, not_found: false }
    }

    fn ask(&mut self, path: &Path) -> Result<Verdict, Error> {
        let mut staying = match self.staying.take() {
            Some(staying) => staying,
            None => self.start()?,
        };
        let asked = writeln!(staying.input, "{}", path.display()).and_then(|()| staying.input.flush());
        let answer = match asked {
            Ok(()) => staying.answers.recv_timeout(self.check.patience),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        let verdict = match answer {
            Ok(answer) => {
                let passed = answer.trim() == "ok";
                let how = if passed { "it said ok" } else { "it did not say ok" }.to_owned();
                self.staying = Some(staying);
                return Ok(Verdict { passed, how, said: answer, not_found: false });
            }
            Err(RecvTimeoutError::Timeout) => self.too_late(String::new()),
            Err(RecvTimeoutError::Disconnected) => {
                let status = wait(&mut staying.child, Duration::from_secs(1));
                let said = ending(&std::fs::read(self.words()).unwrap_or_default());
                let how = status.map_or_else(|| "it closed its output".to_owned(), in_words);
                let not_found = status.and_then(|status| status.code()) == Some(127);
                Verdict { passed: false, how: format!("{how}, without an answer"), said, not_found }
            }
        };
        end_group(&mut staying.child);
        Ok(verdict)
    }

    fn start(&self) -> Result<Staying, Error> {
        let mut command = self.command();
        command.env(FOLDER, self.path()).env(OUTPUT, self.folder.path().join("files.output"));
        let errors = File::create(self.words()).map_err(Error::Folder)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().map_err(Error::Check)?;
        let gone = || Error::Check(io::Error::other("no pipe"));
        let (input, output) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Staying { child, input, answers })
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        if let Some(Staying { mut child, input, .. }) = self.staying.take() {
            drop(input);
            if wait(&mut child, Duration::from_secs(1)).is_none() {
                end_group(&mut child);
            }
        }
    }
}

/// Waits, closely at first: most checks are short.
fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if started.elapsed() < patience => std::thread::sleep(pause),
            _ => return None,
        }
        pause = (pause * 2).min(Duration::from_millis(2));
    }
}

fn end_group(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), std::os::unix::process::ExitStatusExt::signal(&status)) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

fn ending(said: &[u8]) -> String {
    let from = said.len().saturating_sub(MOST_SAID);
    String::from_utf8_lossy(&said[from..]).trim_end().to_owned()
}
