//! The programs of `examples/crash`, tested.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nandle_crash::Error;
use nandle_crash::campaign::{Campaign, Outcome, output_of};
use nandle_crash::check::{Bench, Check};
use nandle_crash::model::{FileSystem, Lie};
use nandle_crash::shrink::smallest;
use nandle_crash::story::{Failure, Names, tell};
use nandle_observe::disk::Disk;
use nandle_observe::tree::Tree;
use nandle_observe::{Means, Task};

pub const SQLITE: &str = "sqlite.py";
pub const LOG_STORE: &str = "log_store.py";
pub const LMDB: &str = "lmdb_store.py";
pub const ROCKSDB: &str = "rocksdb_store.py";
pub const POSTGRES: &str = "postgres.py";
pub const MARIADB: &str = "mariadb.py";

/// Whether the long sizes are asked for.
pub fn is_nightly() -> bool {
    std::env::var_os("NANDLE_NIGHTLY").is_some_and(|value| value == "1")
}

/// So many states at night, half of them by day.
pub fn states(at_night: u64) -> u64 {
    if is_nightly() { at_night } else { at_night / 2 }
}

/// Whether a file of such a name is there, in which a `*` stands for a folder; says so if not.
pub fn has(path: &str) -> bool {
    let is_there = match path.split_once("/*/") {
        None => Path::new(path).exists(),
        Some((above, below)) => std::fs::read_dir(above)
            .is_ok_and(|folders| folders.flatten().any(|folder| folder.path().join(below).exists())),
    };
    if !is_there {
        eprintln!("skipped: {path} is not installed");
    }
    is_there
}

/// The program of `examples/crash/bbolt`, built; says so if there is no Go, or its proxy cannot be reached.
pub fn bbolt() -> Option<String> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bbolt");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crash/bbolt");
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/local/go/bin";
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source).env("PATH", path);
    let built = build.output().is_ok_and(|output| output.status.success());
    if !built {
        eprintln!("skipped: no Go, or the module go.etcd.io/bbolt cannot be had");
    }
    built.then(|| format!("'{}'", program.display()))
}

/// Whether this user may mount; says so if not.
pub fn has_fuse() -> bool {
    let task = Task {
        command: vec!["true".into()],
        tree: Tree::default(),
        means: Means::Fuse,
        disk: None,
        places: None,
        reads: false,
        echo: false,
    };
    let result = task.run(&AtomicBool::new(false));
    if let Err(e) = &result {
        eprintln!("skipped: {e}");
    }
    result.is_ok()
}

/// Whether this user may mount this file system; says so if not.
pub fn has_file_system(kind: &str) -> bool {
    let disk = Disk { kind: kind.into(), options: String::new(), bytes: 0 };
    let made = disk.make(&Tree::default());
    if let Err(e) = &made {
        eprintln!("skipped: {e}");
    }
    made.is_ok() && has_fuse()
}

/// A Python that has this module; says so if there is none. One that is not installed is installed for the tests,
/// in a folder of its own, if the package index can be reached.
pub fn python(module: &str) -> Option<PathBuf> {
    let has = |python: &Path| {
        let import = format!("import {module}");
        Command::new(python).args(["-c", &import]).output().is_ok_and(|output| output.status.success())
    };
    let ours = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{module}"));
    let found = [ours.join("bin/python"), "/usr/bin/python3".into(), "python3".into()];
    if let Some(python) = found.iter().find(|python| has(python)) {
        return Some(python.clone());
    }
    let run = |program: &Path, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let made = run(Path::new("python3"), &["-m", "venv", &ours.to_string_lossy()])
        && run(&ours.join("bin/pip"), &["install", "--quiet", module]);
    if made && has(&found[0]) {
        return Some(found[0].clone());
    }
    eprintln!("skipped: no Python with the module {module}, and it cannot be installed");
    None
}

pub struct Test {
    pub campaign: Campaign,
    script: String,
}

impl Test {
    /// A program of `examples/crash`, and its check that stays.
    pub fn new(script: &str, run: &str, check: &str) -> Self {
        let python = python("sqlite3").unwrap_or_else(|| "python3".into());
        Self::with(&python, script, run, check)
    }

    pub fn with(python: &Path, script: &str, run: &str, check: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crash").join(script);
        Self::of(&format!("'{}' '{}'", python.display(), path.display()), run, check)
    }

    /// A program with its first words, and its check that stays.
    pub fn of(script: &str, run: &str, check: &str) -> Self {
        let script = script.to_owned();
        let task = Task {
            command: vec![format!("{script} {run}")],
            tree: Tree::default(),
            means: Means::Any,
            disk: None,
            places: None,
            reads: false,
            echo: false,
        };
        let check = Check {
            command: format!("exec {script} {check} --stay"),
            stays: true,
            patience: Duration::from_secs(30),
            disk: None,
        };
        let campaign = Campaign {
            task,
            check,
            states: states(1000),
            fs: FileSystem::Posix,
            lie: None,
            atomic: 0,
            seed: 1,
            jobs: 2,
        };
        Self { campaign, script }
    }

    pub fn fs(mut self, fs: FileSystem) -> Self {
        self.campaign.fs = fs;
        self
    }

    pub fn lie(mut self, lie: Lie) -> Self {
        self.campaign.lie = Some(lie);
        self
    }

    /// Seconds that a check may take.
    pub fn patience(mut self, seconds: u64) -> Self {
        self.campaign.check.patience = Duration::from_secs(seconds);
        self
    }

    pub fn atomic(mut self, bytes: u64) -> Self {
        self.campaign.atomic = bytes;
        self
    }

    pub fn means(mut self, means: Means) -> Self {
        self.campaign.task.means = means;
        self
    }

    /// On a real file system, with these options of `mount`.
    pub fn on(mut self, kind: &str, options: &str) -> Self {
        let disk = Disk { kind: kind.into(), options: options.into(), bytes: 0 };
        self.campaign.task.tree = disk.make(&self.campaign.task.tree).expect("made");
        self.campaign.task.disk = Some(disk.clone());
        self.campaign.check.disk = Some(disk);
        self
    }

    pub fn states(mut self, states: u64) -> Self {
        self.campaign.states = states;
        self
    }

    /// Begins with the files that another command of the program makes.
    pub fn made_by(mut self, command: &str) -> Self {
        let task = Task { command: vec![format!("{} {command}", self.script)], ..self.campaign.task.clone() };
        self.campaign.task.tree = task.run(&AtomicBool::new(false)).expect("made").after;
        self
    }

    /// What came of it; none if nothing can be watched here, which is said.
    pub fn go(&self) -> Option<Outcome> {
        match self.campaign.go(&AtomicBool::new(false), &|_, _| {}) {
            Ok(outcome) => Some(outcome),
            Err(Error::Observe(
                e @ (nandle_observe::Error::NoFuse(_) | nandle_observe::Error::NoTrace(_)),
            )) => {
                eprintln!("skipped: {e}");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    pub fn explain(&self, outcome: &Outcome) -> Failure {
        let observation = &outcome.observation;
        let (first, output) = (outcome.first.as_ref().expect("failed"), output_of(&observation.events));
        let campaign = &self.campaign;
        let sweep = campaign.sweep(&observation.before, &observation.events);
        let mut bench = Bench::new(&campaign.check).expect("a folder");
        let smallest = smallest(first, &sweep, &mut bench, &output).expect("checked");
        let names = Names::new(&observation.before, &observation.events);
        tell(&names, &smallest, (first.number, first.sort), campaign.lie, &output)
    }
}
