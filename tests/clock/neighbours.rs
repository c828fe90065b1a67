//! Goal: a client's requests take no longer, on any transport, because another client is slow, dead or hostile: at most
//! twice what they take when it is alone.
//! Method: the real server in real time; a good client reads 4 KiB at a time, by turns alone and beside bad ones, so
//! that whatever else the machine does is in both; medians are compared,
//! and what one in fifty takes at least. As a test it allows for the scheduling of a
//! machine that has other work. `NANDLE_PRECISE=1 cargo test --release --test clock neighbours:: -- --nocapture`, on a machine
//! that has none, is the measurement: longer, with no allowance, and it prints what it finds.
#![cfg(all(feature = "vhost-user", target_os = "linux"))]

use crate::served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nandle_host::initiator::{Host, Options, blocks};
use nandle_host::wire::op;
use nandle_random::Stream;
use nandle_serve::nbd::wire::{Request, command, request_bytes};
use nandle_serve::vhost_user::blk::{kind, status};
use served::bench::Bench;
use served::guest::Guest;
use served::hostile::{status_flood, status_request};
use served::{Client, Served};

/// Bytes that the good client reads in.
const AREA: u64 = 8 << 20;
/// What a wake-up may cost on a machine with other work: mostly, and now and then.
const NOISE: Duration = Duration::from_millis(4);
const RARE_NOISE: Duration = Duration::from_millis(60);

fn is_precise() -> bool {
    std::env::var_os("NANDLE_PRECISE").is_some()
}

/// Measurements one after the other: two would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A server on all transports.
struct Place {
    dir: PathBuf,
    nvme: SocketAddr,
    bytes: u64,
}

impl Place {
    fn of(server: &mut Served, dir: &Path) -> Self {
        let mut client = server.client();
        for at in (0..AREA).step_by(1 << 20) {
            client.write(at, &vec![9; 1 << 20]);
        }
        client.flush();
        Self { dir: dir.to_owned(), nvme: server.nvme(), bytes: client.bytes }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

const ARGS: &[&str] = &["--nvme-tcp", ":0", "--vhost-user", "vhost", "--http", "unix:http"];

// ---- bad clients ------------------------------------------------------------------------------------

/// Bad clients at work, until dropped.
struct Bad {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    streams: Vec<UnixStream>,
    held: Vec<Box<dyn std::any::Any>>,
}

impl Bad {
    fn new() -> Self {
        Self { stop: Arc::default(), threads: vec![], streams: vec![], held: vec![] }
    }

    fn work(&mut self, every: Duration, mut f: impl FnMut() + Send + 'static) {
        let stop = self.stop.clone();
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                f();
                std::thread::sleep(every);
            }
        }));
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.streams.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
        self.held.clear();
        self.threads.drain(..).for_each(|thread| thread.join().expect("no panic"));
    }
}

/// They ask for much and read a byte now and then.
fn slow(place: &Place) -> Bad {
    let mut bad = Bad::new();
    for _ in 0..8 {
        let mut client = Client::connect(&place.socket("socket"));
        for _ in 0..3 {
            client.send(command::READ, 0, 64 << 20, 8 << 20, &[]).expect("sent");
        }
        let mut stream = client.into_stream();
        bad.streams.push(stream.try_clone().expect("a handle"));
        bad.work(Duration::from_millis(5), move || drop(stream.read(&mut [0])));
    }
    bad
}

/// They stopped in the middle of what they said.
fn dead(place: &Place) -> Bad {
    let mut bad = Bad::new();
    for _ in 0..8 {
        bad.held.push(Box::new(UnixStream::connect(place.socket("socket")).expect("a connection")));
        bad.held.push(Box::new(UnixStream::connect(place.socket("http")).expect("a connection")));
        let mut stream = Client::connect(&place.socket("socket")).into_stream();
        let request =
            Request { flags: 0, command: command::WRITE, cookie: 1, offset: 64 << 20, length: 16 << 20 };
        stream.write_all(&request_bytes(&request)).expect("sent");
        stream.write_all(&[1; 100_000]).expect("sent");
        bad.held.push(Box::new(stream));
        let mut host = TcpStream::connect(place.nvme).expect("a connection");
        host.write_all(&[0, 0, 128]).expect("sent");
        bad.held.push(Box::new(host));
        // Writes whose data never come.
        let mut host = Host::connect(place.nvme, &Options::default()).expect("a subsystem");
        for n in 0..8 {
            host.io.send(blocks(op::WRITE, 16384 + 64 * n, 64), &[1; 64 * 4096], 0).expect("sent");
        }
        bad.held.push(Box::new(host));
    }
    bad
}

/// They ask what costs the server most, again and again, and say what makes no sense.
fn hostile(place: &Place) -> Bad {
    let mut bad = Bad::new();
    for _ in 0..3 {
        let stream = status_flood(&place.socket("socket"), place.bytes, 500);
        let (mut answers, mut questions) =
            (stream.try_clone().expect("a handle"), stream.try_clone().expect("one"));
        let many = status_request(place.bytes).repeat(64);
        bad.work(Duration::ZERO, move || drop(questions.write_all(&many)));
        bad.work(Duration::from_millis(1), move || drop(answers.read(&mut [0; 65536])));
        bad.streams.push(stream);
    }
    let mut draw = Stream::new(3, "noise");
    let (paths, nvme) = (["socket", "http"].map(|name| place.socket(name)), place.nvme);
    bad.work(Duration::from_millis(10), move || {
        let noise: Vec<u8> = (0..draw.below(300)).map(|_| draw.below(256) as u8).collect();
        for path in &paths {
            let _ = UnixStream::connect(path).and_then(|mut stream| stream.write_all(&noise));
        }
        let _ = TcpStream::connect(nvme).and_then(|mut stream| stream.write_all(&noise));
    });
    bad
}

// ---- measuring --------------------------------------------------------------------------------------

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Has `ask` called by turns alone and beside each kind of bad clients.
fn compare(transport: &str, place: &Place, mut ask: impl FnMut(u64)) {
    let (rounds, window) = if is_precise() { (9, 1500) } else { (4, 60) };
    let mut draw = Stream::new(1, "places");
    let mut measure = |times: &mut Vec<Duration>| {
        for _ in 0..window {
            let at = draw.below(AREA / 4096) * 4096;
            let began = Instant::now();
            ask(at);
            times.push(began.elapsed());
        }
    };
    measure(&mut vec![]);
    for (name, make) in [("slow", slow as fn(&Place) -> Bad), ("dead", dead), ("hostile", hostile)] {
        let (mut quiet, mut beside) = (vec![], vec![]);
        for _ in 0..rounds {
            measure(&mut quiet);
            let bad = make(place);
            // What they have the flash do when they come is work like any other's.
            std::thread::sleep(Duration::from_millis(300));
            measure(&mut beside);
            drop(bad);
            std::thread::sleep(Duration::from_millis(100));
        }
        let (alone, with) = (median(&mut quiet), median(&mut beside));
        let tail = |times: &[Duration]| times[times.len() * 98 / 100];
        let (rare, rare_beside) = (tail(&quiet), tail(&beside));
        eprintln!(
            "{transport:<10} {name:<8} median {alone:?} alone, {with:?} beside ({:.2}); 98%: {rare:?}, {rare_beside:?}",
            with.as_secs_f64() / alone.as_secs_f64(),
        );
        let noise = if is_precise() { Duration::ZERO } else { NOISE };
        let what = format!("{transport}, {name} neighbours");
        assert!(with <= 2 * alone + noise, "{what}: {with:?} instead of {alone:?}");
        assert!(
            rare_beside <= 2 * rare + RARE_NOISE,
            "{what}: now and then {rare_beside:?} instead of {rare:?}"
        );
    }
}

fn serve(more: &[&str]) -> (tempfile::TempDir, Served, Place) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Served::start(dir.path(), &[ARGS, more].concat());
    let place = Place::of(&mut server, dir.path());
    (dir, server, place)
}

#[test]
fn nbd() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_dir, server, place) = serve(&[]);
    let mut client = server.client();
    compare("nbd", &place, |at| assert_eq!(client.read(at, 4096), [9; 4096]));
}

#[test]
fn nvme_tcp() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_dir, _server, place) = serve(&[]);
    let mut host = Host::connect(place.nvme, &Options::default()).expect("a subsystem");
    compare("nvme-tcp", &place, |at| {
        let done = host.io.command(blocks(op::READ, at / 4096, 1), &[], 4096).expect("an answer");
        assert_eq!(done.data, [9; 4096]);
    });
}

#[test]
fn vhost_user() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_dir, _server, place) = serve(&[]);
    let mut guest = Guest::connect(&place.socket("vhost"));
    compare("vhost-user", &place, |at| {
        assert_eq!(guest.ask(kind::READ, at / 512, &[], 4096), (status::OK, vec![9; 4096]));
    });
}

#[test]
fn http() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_dir, _server, place) = serve(&[]);
    compare("http", &place, |_| {
        let mut stream = UnixStream::connect(place.socket("http")).expect("a connection");
        stream
            .write_all(b"GET /live.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut answer = vec![];
        stream.read_to_end(&mut answer).expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    });
}

/// Reads a disk of the kernel's past its cache.
fn compare_disk(transport: &str, place: &Place, path: &Path) {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let disk = std::fs::OpenOptions::new().read(true).custom_flags(direct).open(path).expect("opened");
    let mut room = vec![0; 8192];
    let start = room.as_ptr().align_offset(4096);
    compare(transport, place, |at| {
        let data = &mut room[start..start + 4096];
        disk.read_exact_at(data, at).expect("read");
        assert_eq!(data, [9; 4096]);
    });
}

#[cfg(feature = "ublk")]
#[test]
fn ublk() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !Path::new("/dev/ublk-control").exists() {
        return eprintln!("SKIPPED: this machine has no ublk");
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Served::start(dir.path(), &[ARGS, &["--ublk"]].concat());
    let place = Place::of(&mut server, dir.path());
    let line = server.line("ublk");
    compare_disk("ublk", &place, Path::new(line.trim_start_matches("ublk").trim()));
    server.stop();
}

#[test]
fn fuse() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(bench) = Bench::new(&[]) else { return };
    let mut server = bench.serve(ARGS);
    let place = Place::of(&mut server, bench.dir.path());
    compare_disk("fuse", &place, Path::new(&bench.path("fuse/disk")));
    server.stop();
}
