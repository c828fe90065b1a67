//! A Linux of its own for who may not mount: User-Mode Linux is a kernel that runs as an ordinary process. It sees this
//! machine's files where they are, the drive among them, and mounts that by a loop device of its own.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::Error;
use crate::disk::Disk;

/// What the kernel is called.
const KERNEL: &str = "linux.uml";
/// Its memory, MiB: it takes what it uses.
const MEMORY: u32 = 512;

/// A program in a kernel of its own, which ends with it.
pub struct Guest {
    kind: String,
    folder: tempfile::TempDir,
}

impl Guest {
    /// The kernel, as a command that runs `program` with the file system of `image` at the directory `at`; its output is the
    /// command's. Before the end it unmounts the file system if `unmount`.
    ///
    /// # Errors
    /// If there is no kernel, or no room for a script.
    pub fn new(
        disk: &Disk,
        image: &Path,
        at: &Path,
        program: &Command,
        unmount: bool,
    ) -> Result<(Self, Command), Error> {
        let kernel = kernel().ok_or_else(|| {
            let missing = format!("there is no {KERNEL} (package user-mode-linux), and only root may mount");
            Error::NoMount(disk.kind.clone(), missing)
        })?;
        let folder = tempfile::Builder::new().prefix("nandle-guest-").tempdir().map_err(Error::Folder)?;
        let guest = Self { kind: disk.kind.clone(), folder };
        let (init, script) = (guest.file("init"), guest.script(disk, (image, at), program, unmount));
        fs::write(&init, script).map_err(Error::Folder)?;
        fs::set_permissions(&init, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(Error::Folder)?;
        // What the kernel says goes nowhere; the program has two serial lines.
        let mut command = Command::new("sh");
        command.args(["-c", "exec 3>&1 4>&2 >/dev/null 2>&1; exec \"$@\"", "sh"]).arg(kernel);
        // Where the kernel keeps its number: a home may be missing.
        for (name, path) in [("init=", &init), ("uml_dir=", &guest.file(""))] {
            let mut argument = std::ffi::OsString::from(name);
            argument.push(path);
            command.arg(argument);
        }
        command.args(["root=/dev/root", "rootfstype=hostfs", "rw", "quiet", "con=null", "con0=null"]);
        command.args(["ssl=null", "ssl0=null,fd:3", "ssl1=null,fd:4"]).arg(format!("mem={MEMORY}M"));
        command.stdin(Stdio::null());
        Ok((guest, command))
    }

    /// How the program ended, once the kernel has.
    ///
    /// # Errors
    /// If it was not run: the file system could not be mounted, or the kernel did not come up.
    pub fn status(&self) -> Result<ExitStatus, Error> {
        let code =
            fs::read_to_string(self.file("status")).ok().and_then(|code| code.trim().parse::<i32>().ok());
        // As the shell tells of a signal.
        let raw = |code: i32| if code > 128 { code - 128 } else { code << 8 };
        code.map(|code| ExitStatus::from_raw(raw(code))).ok_or_else(|| {
            let said = fs::read_to_string(self.file("refused")).unwrap_or_default();
            let said = said.lines().find(|line| !line.trim().is_empty());
            Error::NoMount(self.kind.clone(), said.unwrap_or("the kernel did not come up").trim().into())
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the kernel starts.
    fn script(&self, disk: &Disk, (image, at): (&Path, &Path), program: &Command, unmount: bool) -> Vec<u8> {
        let mut script = Vec::new();
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| script.extend_from_slice(part));
            script.push(b'\n');
        };
        line(&[b"#!/bin/sh\nmount -t proc proc /proc\nfor n in 0 1; do stty -F /dev/ttyS$n raw -echo; done"]);
        for (name, value) in std::env::vars_os().filter(|(name, _)| is_name(name.as_bytes())) {
            line(&[b"export ", name.as_bytes(), b"=", &quoted(value.as_bytes())]);
        }
        for (name, value) in program.get_envs() {
            let value = value.map(|value| quoted(value.as_bytes())).unwrap_or_default();
            line(&[b"export ", name.as_bytes(), b"=", &value]);
        }
        line(&[b"PATH=$PATH:/usr/sbin:/sbin"]);
        if let Ok(here) = std::env::current_dir() {
            line(&[b"cd ", &quoted(here.as_os_str().as_bytes())]);
        }
        let at = quoted(at.as_os_str().as_bytes());
        let (refused, status) = (self.file("refused"), self.file("status"));
        let options = [&["loop"], disk.options().as_slice()].concat().join(",");
        // Not the kernel's own disk: that answers a flush without an fsync of its file.
        line(&[b"module=$(find /usr/lib/uml/modules/$(uname -r) -name loop.ko)\n[ -z \"$module\" ] || insmod $module"]);
        line(&[
            b"mount -n -t ",
            disk.kind.as_bytes(),
            b" -o ",
            &quoted(options.as_bytes()),
            b" ",
            &quoted(image.as_os_str().as_bytes()),
            b" ",
            &at,
            b" 2>",
            &quoted(refused.as_os_str().as_bytes()),
            // What mount notes of it on this machine's disk may be refused.
            b"\nif mountpoint -q ",
            &at,
            b"; then",
        ]);
        let mut words = quoted(program.get_program().as_bytes());
        for word in program.get_args() {
            words.push(b' ');
            words.extend(quoted(word.as_bytes()));
        }
        line(&[b"  ", &words, b" </dev/null >/dev/ttyS0 2>/dev/ttyS1"]);
        line(&[b"  code=$?"]);
        if unmount {
            line(&[b"  umount ", &at]);
        }
        line(&[b"  echo $code > ", &quoted(status.as_os_str().as_bytes()), b"\nfi"]);
        line(&[b"echo o > /proc/sysrq-trigger\nsleep 60"]);
        script
    }
}

/// Where the kernel is.
fn kernel() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(KERNEL)).find(|program| program.is_file())
}

/// Whether this machine has the kernel.
#[must_use]
pub fn is_there() -> bool {
    kernel().is_some()
}

fn is_name(name: &[u8]) -> bool {
    name.iter().all(|&c| c == b'_' || c.is_ascii_alphanumeric())
        && !name.first().is_none_or(u8::is_ascii_digit)
}

/// A word of the shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for &byte in word {
        if byte == b'\'' {
            out.extend(b"'\\''");
        } else {
            out.push(byte);
        }
    }
    out.push(b'\'');
    out
}
