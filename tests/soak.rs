//! Goal: a served drive goes on, for hours: nothing that it promised is lost, it takes no more and more memory,
//! and nobody waits for ever, whatever its clients do and however often it dies.
//! Method: one image; at the same time fio that verifies what it wrote, our own writer that knows what every
//! sector may hold and now and then drops its connection with requests under way, and clients that vanish in the
//! middle of a message; each life of the server ends with SIGKILL, and the next one is judged. fio is killed too.
//!
//! `cargo test --test soak -- --minutes 30 [--life SECONDS] [--seed N] [--scheme SCHEME]`; half a minute without a
//! word, lives of random lengths without `--life`.

mod served;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nandle_random::Stream;
use nandle_serve::nbd::wire::{self, Request, command, option};
use served::writer::Writer;
use served::{Served, has};

const SECTOR: u64 = 4096;
/// 384 MiB of flash, so that all of it has been written after a few seconds.
const DEVICE: &[&str] = &[
    "--device",
    "demo-page",
    "--set",
    "geometry.channels=2",
    "--set",
    "geometry.blocks_per_plane=48",
    "--set",
    "op_ratio=0.6",
    "--set",
    "buffer.bytes=1048576",
    "--image",
    "flash.img",
    "--timing",
    "off",
];
/// glibc keeps memory for each thread that ever was, up to 16 times the most that any of them had, and gets there
/// over hours. In one arena for all of them only what the server itself keeps can grow.
const ALLOCATOR: &[(&str, &str)] = &[("MALLOC_ARENA_MAX", "1")];
/// Memory that a server may have beside the contents of its flash: code, books, what its clients have under way.
const BESIDE: u64 = 96 << 20;
/// How much it may grow once its flash was full: the most that clients ever had under way is kept, and bytes that
/// several pages shared come to be kept for each.
const GROWTH: u64 = 48 << 20;

/// Places of fio's jobs.
const SLICES: u64 = 12;

struct Settings {
    length: Duration,
    life: Option<Duration>,
    seed: u64,
    scheme: String,
}

/// What was done, for the report.
#[derive(Default)]
struct Done {
    lives: u64,
    drops: AtomicU64,
    hostile: AtomicU64,
    fio_rounds: AtomicU64,
    fio_kills: AtomicU64,
    checked: u64,
    answers: u64,
    rss: Vec<(f64, u64)>,
}

fn main() {
    let length = Duration::from_secs(30);
    let mut settings = Settings { length, life: None, seed: 1, scheme: "waflash".into() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word}: expected a value"));
        match word.as_str() {
            "--minutes" => {
                settings.length = Duration::from_secs_f64(60.0 * value().parse::<f64>().expect("minutes"))
            }
            "--life" => {
                settings.life = Some(Duration::from_secs_f64(value().parse().expect("seconds")));
            }
            "--seed" => settings.seed = value().parse().expect("a number"),
            "--scheme" => settings.scheme = value(),
            // What cargo hands to every test.
            _ => {}
        }
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    soak(&settings, dir.path());
}

/// Ends the others' work, also when ours has failed.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn soak(settings: &Settings, dir: &Path) {
    let started = Instant::now();
    let end = started + settings.length;
    let mut draw = Stream::new(settings.seed, "soak");
    let mut done = Done::default();
    let args = [DEVICE, &["--scheme", &settings.scheme]].concat();
    let mut server = Served::start_with(dir, &args, ALLOCATOR);
    let bytes = server.client().bytes;
    // op_ratio = 0.6
    let raw = bytes * 8 / 5;
    // The writer has the first half, fio a quarter, and who vanishes does harm to the rest.
    let mut writer = Writer::new(server.client(), bytes / SECTOR / 2);
    let mut most = 0;
    while Instant::now() < end {
        done.lives += 1;
        // Short lives and long ones; the last one ends with the soak.
        let life = Duration::from_millis(match draw.below(4) {
            0 => 300 + draw.below(1000),
            1 | 2 => 2000 + draw.below(6000),
            _ => settings.length.as_millis() as u64 / 8 + draw.below(5000),
        });
        let until = end.min(Instant::now() + settings.life.unwrap_or(life));
        let what = format!("seed {}, life {}", settings.seed, done.lives);
        let over = AtomicBool::new(false);
        let (id, socket, uri) = (server.id(), server.socket.clone(), server.uri());
        let mut rss: Vec<(Instant, u64)> = vec![];
        std::thread::scope(|scope| {
            let (over, done, draw) = (&over, &done, &mut draw);
            let _end = End(over);
            let seed = draw.word();
            let socket = &socket;
            scope.spawn(move || vanish(socket, bytes, seed, over, done));
            let seed = draw.word();
            let uri = &uri;
            scope.spawn(move || fio(uri, bytes, seed, dir, over, done));
            while Instant::now() < until {
                let next = until.min(Instant::now() + Duration::from_millis(200 + draw.below(1500)));
                writer.work(draw, next).unwrap_or_else(|e| panic!("{what}: {e}"));
                rss.push((Instant::now(), resident(id)));
                match draw.below(3) {
                    0 => {
                        writer.reconnect(served::Client::connect(socket));
                        done.drops.fetch_add(1, Ordering::Relaxed);
                    }
                    1 => {
                        writer.drain().unwrap_or_else(|e| panic!("{what}: {e}"));
                        writer.check(draw, 200, &what);
                    }
                    _ => {}
                }
            }
            over.store(true, Ordering::SeqCst);
            // In the middle of whatever they are all doing.
            let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
        });
        if let (Some(first), Some(last)) = (rss.first(), rss.last()) {
            let quarter = |n: usize| rss[(rss.len() - 1) * n / 4].1 >> 20;
            eprintln!(
                "{what}: {:.0} s, resident MiB by quarters: {} {} {} {} {}",
                (last.0 - first.0).as_secs_f64(),
                quarter(0),
                quarter(1),
                quarter(2),
                quarter(3),
                quarter(4)
            );
        }
        most = judge_memory(&rss, raw, most, &what);
        done.rss.extend(rss.last().map(|(at, bytes)| ((*at - started).as_secs_f64(), *bytes)));
        server.kill();
        server = Served::start_with(dir, &args, ALLOCATOR);
        let mut client = server.client();
        let held = writer.judge(&mut client, &what);
        assert!(held > 0, "{what}: nothing was there at all");
        done.checked += bytes / SECTOR / 2;
        writer.switched_on_again(client);
    }
    done.answers = writer.answers;
    server.stop();
    let n = |count: &AtomicU64| count.load(Ordering::Relaxed);
    assert!(done.answers > 1000 && n(&done.hostile) > 0, "too little load to mean anything");
    println!(
        "soak: {:.1} minutes, demo {}, seed {}: {} lives ended by SIGKILL, {} sectors judged, {} answers, {} connections \
         dropped with requests under way, {} clients gone in the middle of a message, fio verified {} times and was \
         killed {} times; resident {} MiB at most ({} MiB of flash), {} MiB at the end of the last life",
        started.elapsed().as_secs_f64() / 60.0,
        settings.scheme,
        settings.seed,
        done.lives,
        done.checked,
        done.answers,
        n(&done.drops),
        n(&done.hostile),
        n(&done.fio_rounds),
        n(&done.fio_kills),
        most >> 20,
        raw >> 20,
        done.rss.last().map_or(0, |(_, bytes)| bytes >> 20),
    );
}

/// The server's memory in one life: bounded, and flat once its flash was full; the most so far.
fn judge_memory(rss: &[(Instant, u64)], raw: u64, most: u64, what: &str) -> u64 {
    let peak = rss.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
    assert!(peak < raw + BESIDE, "{what}: {} MiB resident", peak >> 20);
    // A long life: its last quarter takes no more than the second one.
    if let (Some((first, _)), Some((last, _))) = (rss.first(), rss.last())
        && *last - *first > Duration::from_secs(60)
    {
        let quarter =
            |n: usize| rss[rss.len() * n / 4..rss.len() * (n + 1) / 4].iter().map(|(_, b)| *b).max();
        let (second, fourth) = (quarter(1).unwrap_or(0), quarter(3).unwrap_or(0));
        assert!(
            fourth < second + GROWTH,
            "{what}: grew from {} to {} MiB while its flash was full",
            second >> 20,
            fourth >> 20
        );
    }
    most.max(peak)
}

/// Clients that say something, or a part of it, and are gone.
fn vanish(socket: &Path, bytes: u64, seed: u64, over: &AtomicBool, done: &Done) {
    let mut draw = Stream::new(seed, "vanish");
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
        let Ok(mut stream) = UnixStream::connect(socket) else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let mut out = vec![];
        if draw.below(4) > 0 {
            out.extend(3_u32.to_be_bytes());
            out.extend(wire::IHAVEOPT.to_be_bytes());
            out.extend(option::EXPORT_NAME.to_be_bytes());
            out.extend(0_u32.to_be_bytes());
            for cookie in 0..1 + draw.below(40) {
                let command =
                    [command::READ, command::WRITE, command::WRITE, command::TRIM][draw.below(4) as usize];
                let length = 1 + draw.below(256 << 10) as u32;
                let offset = bytes * 3 / 4 + draw.below(bytes / 4 - u64::from(length));
                out.extend(wire::request_bytes(&Request { flags: 0, command, cookie, offset, length }));
                if command == command::WRITE {
                    out.resize(out.len() + length as usize, cookie as u8);
                }
            }
        } else {
            out.extend((0..1 + draw.below(200)).map(|n| (n * 37 + seed % 251) as u8));
        }
        out.truncate(1 + draw.below(out.len() as u64) as usize);
        let _ = stream.write_all(&out);
        if draw.below(2) == 0 {
            let mut some = [0; 4096];
            let _ = stream.read(&mut some);
        }
        done.hostile.fetch_add(1, Ordering::Relaxed);
    }
}

/// fio jobs that verify what they wrote, some of them killed; one that ends by itself must be content.
fn fio(uri: &str, bytes: u64, seed: u64, dir: &Path, over: &AtomicBool, done: &Done) {
    if !has("fio") {
        return;
    }
    let mut draw = Stream::new(seed, "fio");
    let mut slice = 0;
    while !over.load(Ordering::SeqCst) {
        // What a job that was killed had under way may still be carried out: the next ones write elsewhere.
        slice += 1;
        let slice_bytes = (bytes / 4 / SLICES) & !0xf_ffff;
        let offset = bytes / 2 + slice % SLICES * slice_bytes;
        let (uri, offset) = (format!("--uri={uri}"), format!("--offset={offset}"));
        let size = format!("--size={slice_bytes}");
        let blocks = [("--bs", "4k"), ("--bsrange", "4k-64k"), ("--bs", "16k")][draw.below(3) as usize];
        let blocks = format!("{}={}", blocks.0, blocks.1);
        let io = format!("--io_size={}", 8 << 20 << draw.below(3));
        let seed = format!("--randseed={}", draw.below(1 << 30));
        let rest = ["--ioengine=nbd", "--name=soak", "--rw=randwrite", "--iodepth=16", "--verify=crc32c"];
        let more =
            ["--verify_fatal=1", "--trim_percentage=5", "--fsync=64", "--minimal", &uri, &offset, &size];
        let mut job = Command::new("fio")
            .args([&rest[..], &more[..], &[&blocks, &io, &seed]].concat())
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("fio starts");
        let kill_at = (draw.below(3) == 0).then(|| Instant::now() + Duration::from_millis(draw.below(3000)));
        await_job(&mut job, kill_at, over, done);
    }
}

fn await_job(job: &mut Child, kill_at: Option<Instant>, over: &AtomicBool, done: &Done) {
    let started = Instant::now();
    loop {
        if let Some(status) = job.try_wait().expect("its state") {
            let mut said = String::new();
            if let Some(mut text) = job.stderr.take() {
                let _ = text.read_to_string(&mut said);
            }
            // With the server killed under it, it may fail.
            std::thread::sleep(Duration::from_millis(50));
            assert!(status.success() || over.load(Ordering::SeqCst), "fio: {status}: {said}");
            done.fio_rounds.fetch_add(u64::from(status.success()), Ordering::Relaxed);
            return;
        }
        let hangs = started.elapsed() > Duration::from_secs(300);
        if kill_at.is_some_and(|at| Instant::now() > at) || over.load(Ordering::SeqCst) || hangs {
            let _ = job.kill();
            let _ = job.wait();
            assert!(!hangs, "fio did not end in 300 s");
            done.fio_kills.fetch_add(1, Ordering::Relaxed);
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
