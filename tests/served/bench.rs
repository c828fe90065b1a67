//! FUSE, a loop device and a file system on a served drive, taken down again also on failure.

use std::path::Path;
use std::process::Command;

use super::{Served, has};

fn shell(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|out| out.status.success())
}

/// What is mounted or attached, undone when dropped.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub loops: Vec<String>,
}

impl Bench {
    /// None, and says so, if this machine cannot.
    pub fn new(programs: &[&str]) -> Option<Self> {
        let root = String::from_utf8(Command::new("id").arg("-u").output().ok()?.stdout).ok()?.trim() == "0";
        let fuse = std::fs::File::open("/dev/fuse").is_ok();
        if !root || !fuse {
            eprintln!("SKIPPED: needs root and /dev/fuse");
            return None;
        }
        if !programs.iter().all(|program| has(program)) {
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("fuse")).expect("made");
        std::fs::create_dir(dir.path().join("fs")).expect("made");
        Some(Self { dir, loops: vec![] })
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    pub fn serve(&self, args: &[&str]) -> Served {
        let fuse = self.path("fuse");
        let server = Served::start(self.dir.path(), &[args, &["--fuse", &fuse]].concat());
        assert!(Path::new(&self.path("fuse/disk")).exists());
        server
    }

    /// A loop device on the file; none, and says so, if there is none to be had.
    pub fn attach(&mut self) -> Option<String> {
        let out = Command::new("losetup")
            .args(["--direct-io=on", "-f", "--show", &self.path("fuse/disk")])
            .output()
            .expect("losetup starts");
        if !out.status.success() {
            eprintln!("SKIPPED: no loop device: {}", String::from_utf8_lossy(&out.stderr));
            return None;
        }
        let name = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        self.loops.push(name.clone());
        Some(name)
    }

    pub fn detach(&mut self) {
        shell("umount", &["-l", &self.path("fs")]);
        for name in self.loops.drain(..) {
            shell("losetup", &["-d", &name]);
        }
        shell("umount", &["-l", &self.path("fuse")]);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.detach();
    }
}
