//! A server to test against, and a client of our own that knows what it wrote.
#![allow(dead_code)]

#[cfg(target_os = "linux")]
pub mod bench;
#[cfg(all(feature = "vhost-user", target_os = "linux"))]
pub mod guest;
#[cfg(target_os = "linux")]
pub mod hostile;
pub mod writer;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nandle_serve::nbd::wire::{self, Request, command, option};

/// A drive so small that collection and erases begin after a few MiB.
pub const SMALL: &[&str] = &[
    "--device",
    "demo-page",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.blocks_per_plane=20",
    "--set",
    "geometry.pages_per_block=24",
    "--set",
    "op_ratio=0.8",
    "--set",
    "buffer.bytes=262144",
];

pub fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// These arguments, and more.
pub fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

/// A server that says nothing for so long hangs.
const HANG: Duration = Duration::from_secs(60);

/// The program; a soak may outlive the one that it began with.
pub fn program() -> std::ffi::OsString {
    std::env::var_os("NANDLE").unwrap_or_else(|| env!("CARGO_BIN_EXE_nandle").into())
}

/// A program whose complaints go to the file `stderr` in `dir`.
fn quiet(mut command: Command, dir: &Path) -> Command {
    command.stderr(std::fs::File::create(dir.join("stderr")).expect("a file"));
    command
}

/// `nandle serve` under way; killed when dropped.
pub struct Served {
    child: Child,
    /// What it said when it was ready.
    pub said: String,
    out: BufReader<std::process::ChildStdout>,
    pub socket: PathBuf,
}

impl Served {
    /// Starts a server with an NBD socket in `dir` and waits until it can be reached.
    pub fn start(dir: &Path, args: &[&str]) -> Self {
        Self::start_with(dir, args, &[])
    }

    /// The same, with these variables in its environment.
    pub fn start_with(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.envs(variables.iter().copied()).stderr(Stdio::inherit());
        Self::spawn(command, dir, args)
    }

    /// The same, allowed so many open files; what it complains of goes to the file `stderr` in `dir`.
    pub fn start_limited(dir: &Path, files: u32, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]).arg(program());
        Self::spawn(quiet(command, dir), dir, args)
    }

    /// One with these variables in its environment that may fail: what it complains of goes to the file `stderr` in
    /// `dir`.
    pub fn start_ailing(dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.envs(variables.iter().copied());
        Self::spawn(quiet(command, dir), dir, args)
    }

    fn spawn(mut command: Command, dir: &Path, args: &[&str]) -> Self {
        let socket = dir.join("socket");
        let mut child = command
            .arg("serve")
            .arg("--nbd")
            .arg(&socket)
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .spawn()
            .expect("nandle starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = String::new();
        // The greeting is written at once: a first line means that everything is there.
        out.read_line(&mut said).expect("a greeting");
        assert!(said.contains(" | "), "nandle serve {args:?} did not start");
        while UnixStream::connect(&socket).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, said, out, socket }
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Files that it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("its files").count()
    }

    /// Memory that it takes, in bytes.
    pub fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("its state");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    fn signal(&self, name: &str) {
        let _ = Command::new("kill").args([name, &self.child.id().to_string()]).status();
    }

    /// SIGKILL: nothing gets a chance to be tidy.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM; what it said to the end.
    pub fn stop(mut self) -> String {
        self.signal("-TERM");
        self.end()
    }

    /// Waits for its own end, which is a failure: its exit code.
    pub fn fails(mut self) -> i32 {
        self.child.wait().expect("its end").code().expect("an exit code")
    }

    /// Waits for its own end; what it said.
    pub fn wait(mut self) -> String {
        self.end()
    }

    fn end(&mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status}: {rest}");
        rest
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// The next line of its greeting that begins so.
    pub fn line(&mut self, word: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(word) {
            line.clear();
            assert!(self.out.read_line(&mut line).expect("text") > 0, "no {word}: {}", self.said);
        }
        line
    }

    /// Where it serves NVMe/TCP, if it was asked to.
    pub fn nvme(&mut self) -> std::net::SocketAddr {
        let line = self.line("nvme");
        let word = |flag: &str| {
            let mut words = line.split_whitespace();
            words.find(|w| *w == flag).and_then(|_| words.next()).expect("a word").to_owned()
        };
        format!("{}:{}", word("-a"), word("-s")).parse().expect("an address")
    }
}

/// An NBD client: simple replies, any number of requests under way.
pub struct Client {
    stream: UnixStream,
    pub bytes: u64,
    next: u64,
    /// Bytes that each answer brings.
    expected: HashMap<u64, usize>,
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        let deadline = Instant::now() + Duration::from_secs(20);
        // A server with all the clients that it takes turns others away.
        let greeted = || {
            let mut stream = UnixStream::connect(socket)?;
            let mut greeting = [0; 18];
            stream.read_exact(&mut greeting)?;
            Ok::<_, std::io::Error>((stream, greeting))
        };
        let (mut stream, greeting) = loop {
            match greeted() {
                Ok(greeted) => break greeted,
                Err(e) => assert!(Instant::now() < deadline, "{}: {e}", socket.display()),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(greeting.to_vec(), wire::greeting());
        stream.set_read_timeout(Some(HANG)).expect("a timeout");
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(wire::IHAVEOPT.to_be_bytes());
        hello.extend(option::EXPORT_NAME.to_be_bytes());
        hello.extend(0_u32.to_be_bytes());
        stream.write_all(&hello).expect("sent");
        let mut export = [0; 10];
        stream.read_exact(&mut export).expect("an export");
        let bytes = wire::u64_at(&export, 0).expect("eight bytes");
        Self { stream, bytes, next: 0, expected: HashMap::new() }
    }

    /// Sends a request; its cookie.
    pub fn send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> std::io::Result<u64> {
        self.next += 1;
        let mut bytes = wire::request_bytes(&Request { flags, command, cookie: self.next, offset, length });
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        self.expected.insert(self.next, if command == command::READ { length as usize } else { 0 });
        Ok(self.next)
    }

    /// How long it waits for an answer, and for room to send.
    pub fn limit(&mut self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).expect("a timeout");
        self.stream.set_write_timeout(Some(limit)).expect("a timeout");
    }

    /// The connection, for bytes that are no request.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Requests without an answer so far.
    pub fn under_way(&self) -> usize {
        self.expected.len()
    }

    /// The next answer: cookie, error, data.
    pub fn receive(&mut self) -> std::io::Result<(u64, u32, Vec<u8>)> {
        let mut head = [0; 16];
        if let Err(e) = self.stream.read_exact(&mut head) {
            assert!(e.kind() != std::io::ErrorKind::WouldBlock, "no answer for {HANG:?}");
            return Err(e);
        }
        assert_eq!(wire::u32_at(&head, 0), Some(wire::SIMPLE_REPLY_MAGIC));
        let (error, cookie) =
            (wire::u32_at(&head, 4).expect("there"), wire::u64_at(&head, 8).expect("there"));
        let length = self.expected.remove(&cookie).expect("an answer to a request");
        let mut data = vec![0; if error == 0 { length } else { 0 }];
        self.stream.read_exact(&mut data)?;
        Ok((cookie, error, data))
    }

    /// One request and its answer.
    pub fn ask(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        let cookie = self.send(command, flags, offset, length, data).expect("sent");
        let (answered, error, data) = self.receive().expect("an answer");
        assert_eq!(answered, cookie);
        if error == 0 { Ok(data) } else { Err(error) }
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(command::READ, 0, offset, length, &[]).expect("a read")
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(command::WRITE, 0, offset, data.len() as u32, data).expect("a write");
    }

    pub fn flush(&mut self) {
        self.ask(command::FLUSH, 0, 0, 0, &[]).expect("a flush");
    }
}

/// Builds `libnandle` and `libnandle_preload.so`; where they are.
pub fn libraries() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "-p", "nandle-preload", "-p", "nandle-capi"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let status = build.arg("--target-dir").arg(target).status().expect("cargo starts");
    assert!(status.success(), "{status}");
    target.join("debug")
}

/// Whether a program is there; says aloud that the test is skipped if not.
pub fn has(program: &str) -> bool {
    let there = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|dir| dir.join(program).is_file())
    });
    if !there {
        eprintln!("SKIPPED: {program} is not installed (./test installs it where it can)");
    }
    there
}

/// Runs a program that must succeed; what it printed.
pub fn good(program: &str, args: &[&str], dir: &Path) -> String {
    let out = Command::new(program).args(args).current_dir(dir).output().expect("it starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{program} {args:?}: {text}{}", String::from_utf8_lossy(&out.stderr));
    text
}
