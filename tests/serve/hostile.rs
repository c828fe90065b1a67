//! Goal: clients that are slow, dead or hostile take nothing from a served drive for good and starve nobody else.
//! Method: the real server, many bad clients on each transport that needs no privileges, and a good one beside them;
//! descriptors, memory and time are counted from outside.
#![cfg(target_os = "linux")]

use crate::served;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nandle_host::initiator::{Host, Options};
use nandle_serve::nbd::wire::{self, Request, command};
use served::hostile::status_flood;
use served::{Client, SMALL, Served, program, temp, with};

/// Waits until `f` is true.
fn until(what: &str, limit: Duration, mut f: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !f() {
        assert!(Instant::now() < deadline, "{what}: not after {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const SOON: Duration = Duration::from_secs(20);

// ---- descriptors ------------------------------------------------------------------------------------

#[test]
#[cfg(feature = "vhost-user")]
fn a_client_that_leaves_leaves_no_descriptor() {
    let dir = temp();
    let args = ["--timing", "off", "--vhost-user", "vhost", "--http", "unix:http", "--nvme-tcp", ":0"];
    let mut server = Served::start(dir.path(), &with(SMALL, &args));
    let nvme = server.nvme();
    let round = || {
        for name in ["socket", "vhost", "http"] {
            let mut stream = UnixStream::connect(dir.path().join(name)).expect("a connection");
            let _ = stream.write_all(&[0; 12]);
        }
        drop(std::net::TcpStream::connect(nvme).expect("a connection"));
    };
    round();
    // One of each comes and goes at any time: far fewer than have been.
    let before = server.open_files() + 20;
    for _ in 0..100 {
        round();
    }
    until("all clients are gone", SOON, || server.open_files() <= before);
    server.stop();
}

#[test]
fn without_descriptors_further_clients_wait_and_are_told_of_once() {
    let dir = temp();
    let server = Served::start_limited(dir.path(), 40, &with(SMALL, &["--timing", "off"]));
    let mut good = server.client();
    good.write(0, b"kept");
    let mut held: Vec<UnixStream> = vec![];
    for _ in 0..60 {
        held.push(UnixStream::connect(&server.socket).expect("a place in the queue"));
    }
    let told = || std::fs::read_to_string(dir.path().join("stderr")).expect("text");
    until("it says so", SOON, || told().contains("--nbd: cannot take another client"));
    assert_eq!(good.read(0, 4), b"kept");
    // One is turned away by nobody: it waits until there is room.
    let mut patient = UnixStream::connect(&server.socket).expect("a place in the queue");
    patient.set_read_timeout(Some(SOON)).expect("a timeout");
    drop(held);
    patient.read_exact(&mut [0; 18]).expect("a greeting");
    assert_eq!(server.client().read(0, 4), b"kept");
    assert_eq!(told().matches("cannot take another client").count(), 1, "{}", told());
    server.stop();
}

#[test]
fn a_server_without_descriptors_still_ends() {
    let dir = temp();
    let server = Served::start_limited(dir.path(), 24, &with(SMALL, &["--timing", "off"]));
    let held: Vec<UnixStream> =
        (0..40).map(|_| UnixStream::connect(&server.socket).expect("a place in the queue")).collect();
    until("it has none left", SOON, || server.open_files() >= 24);
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < SOON);
    drop(held);
}

// ---- permissions ------------------------------------------------------------------------------------

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
#[cfg(feature = "vhost-user")]
fn sockets_and_images_are_their_owners_unless_told_otherwise() {
    let dir = temp();
    let args = ["--vhost-user", "vhost", "--http", "unix:http", "--image", "image"];
    let names = ["socket", "vhost", "http"];
    let server = Served::start(dir.path(), &with(SMALL, &args));
    assert_eq!(names.map(|name| mode(&dir.path().join(name))), [0o600; 3]);
    assert_eq!(mode(&dir.path().join("image")), 0o600);
    server.stop();
    let server = Served::start(dir.path(), &with(&with(SMALL, &args), &["--socket-mode", "0640"]));
    assert_eq!(names.map(|name| mode(&dir.path().join(name))), [0o640; 3]);
    server.stop();
    assert!(names.iter().all(|name| !dir.path().join(name).exists()));
}

#[test]
fn addresses_that_others_reach_are_warned_of() {
    let dir = temp();
    let args = ["--nbd", "0.0.0.0:0", "--http", "127.0.0.1:0", "--nvme-tcp", "[::1]:0"];
    let server = Served::start_limited(dir.path(), 1024, &with(SMALL, &args));
    server.stop();
    let told = std::fs::read_to_string(dir.path().join("stderr")).expect("text");
    assert!(told.starts_with("nandle: --nbd 0.0.0.0:0: whoever reaches this address can"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

// ---- memory -----------------------------------------------------------------------------------------

const MIB: u64 = 1 << 20;

#[test]
fn clients_that_never_read_share_what_memory_there_is() {
    let dir = temp();
    let server = Served::start(dir.path(), &["--timing", "off"]);
    let mut good = server.client();
    good.write(0, &[7; 4096]);
    let before = server.resident();
    let mut greedy: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &mut greedy {
        for _ in 0..4 {
            client.send(command::READ, 0, 0, 16 << 20, &[]).expect("sent");
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    // The pool, its own MiB for each, and what the system's allocator and the stacks of threads add.
    let bound = before + (256 + 50 + 150) * MIB;
    for _ in 0..50 {
        let now = server.resident();
        assert!(now < bound, "{} MiB for clients that never read", (now - before) / MIB);
        assert_eq!(good.read(0, 4096), [7; 4096]);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Whoever does read gets what it asks for: those who do not have to leave, when others need the room.
    let mut large = server.client();
    let began = Instant::now();
    assert_eq!(large.read(0, 16 << 20).len(), 16 << 20);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    drop(greedy);
    server.stop();
}

#[test]
fn writes_that_never_come_whole_share_what_memory_there_is() {
    let dir = temp();
    let server = Served::start(dir.path(), &["--timing", "off"]);
    let mut good = server.client();
    let before = server.resident();
    let length = 32 << 20;
    let senders: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.client();
            std::thread::spawn(move || {
                // It stands still where the server has no room for more.
                client.limit(Duration::from_secs(2));
                let _ = client.send(command::WRITE, 0, 0, length, &vec![1; length as usize - 1]);
                client
            })
        })
        .collect();
    let bound = before + (256 + 50 + 150) * MIB;
    for _ in 0..100 {
        let now = server.resident();
        assert!(now < bound, "{} MiB for writes that do not come whole", (now - before) / MIB);
        good.write(0, &[7; 4096]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let held: Vec<Client> = senders.into_iter().map(|sender| sender.join().expect("no panic")).collect();
    assert_eq!(good.read(0, 4096), [7; 4096]);
    drop(held);
    server.stop();
}

// ---- time -------------------------------------------------------------------------------------------

/// Sends `bytes`, then one byte every 100 ms, until the server ends the connection; how long that takes.
fn drip(mut stream: impl Read + Write, bytes: &[u8]) -> Duration {
    let began = Instant::now();
    stream.write_all(bytes).expect("sent");
    while stream.write_all(&[0]).is_ok() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(100));
    }
    began.elapsed()
}

#[test]
#[cfg(feature = "vhost-user")]
fn a_byte_now_and_then_keeps_no_connection() {
    let dir = temp();
    let args = ["--timing", "off", "--vhost-user", "vhost", "--http", "unix:http", "--nvme-tcp", ":0"];
    let mut server = Served::start(dir.path(), &with(SMALL, &args));
    let nvme = server.nvme();
    let unix = |name: &str| UnixStream::connect(dir.path().join(name)).expect("a connection");
    let mut negotiating = unix("socket");
    negotiating.read_exact(&mut [0; 18]).expect("a greeting");
    // A client that is idle stays.
    let mut idle = server.client();
    let (reader, writer) = (server.client(), server.client());
    std::thread::scope(|scope| {
        let in_time = |what: &'static str, limit: u64, run: Box<dyn FnOnce() -> Duration + Send>| {
            scope.spawn(move || {
                let took = run();
                assert!(took < Duration::from_secs(limit), "{what}: {took:?}");
            });
        };
        in_time("NBD, options", 30, Box::new(move || drip(negotiating, &[0, 0, 0, 3])));
        let silent = unix("socket");
        in_time("NBD, flags", 30, Box::new(move || drip(silent, &[])));
        in_time("NBD, a request", 30, Box::new(move || drip(reader.into_stream(), &[0x25, 0x60])));
        let request = Request { flags: 0, command: command::WRITE, cookie: 1, offset: 0, length: 4096 };
        in_time(
            "NBD, data",
            30,
            Box::new(move || drip(writer.into_stream(), &wire::request_bytes(&request))),
        );
        let page = unix("http");
        in_time("HTTP", 20, Box::new(move || drip(page, b"GET / HTTP/1.1\r\nA: ")));
        let host = std::net::TcpStream::connect(nvme).expect("a connection");
        in_time("NVMe/TCP", 30, Box::new(move || drip(host, &[0, 0, 128])));
        let front = unix("vhost");
        in_time("vhost-user", 30, Box::new(move || drip(front, &[1, 0, 0, 0, 1, 0, 0, 0, 200, 0, 0, 0])));
    });
    idle.write(0, b"kept");
    server.stop();
}

#[test]
fn who_says_nothing_gives_way_to_who_does() {
    let dir = temp();
    let args = ["--timing", "off", "--http", "unix:http", "--nvme-tcp", ":0"];
    let mut server = Served::start(dir.path(), &with(SMALL, &args));
    let nvme = server.nvme();
    let silent: Vec<UnixStream> =
        (0..80).map(|_| UnixStream::connect(&server.socket).expect("a connection")).collect();
    let hosts: Vec<_> = (0..140).map(|_| std::net::TcpStream::connect(nvme).expect("a connection")).collect();
    let ask = |stream: &mut UnixStream| {
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        stream.write_all(b"GET /live.json HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).map(|()| assert_eq!(&answer, b"HTTP/1.1 200 OK"))
    };
    // They ask, and keep their connections.
    let idle: Vec<UnixStream> = (0..40)
        .map(|_| {
            let mut stream = UnixStream::connect(dir.path().join("http")).expect("a connection");
            ask(&mut stream).expect("an answer");
            stream
        })
        .collect();
    let began = Instant::now();
    server.client().write(0, b"kept");
    Host::connect(nvme, &Options::default()).expect("a subsystem");
    ask(&mut UnixStream::connect(dir.path().join("http")).expect("a connection")).expect("an answer");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    drop((silent, hosts, idle));
    server.stop();
}

#[test]
fn the_live_page_is_for_those_who_mean_this_machine() {
    let dir = temp();
    let mut server = Served::start(dir.path(), &with(SMALL, &["--timing", "off", "--http", ":0"]));
    let line = server.line("http");
    let at =
        line.trim().trim_start_matches("http").trim().trim_start_matches("http://").trim_end_matches('/');
    for (host, status) in [(at, "200"), ("localhost:1", "200"), ("rebound.example.org", "421")] {
        let mut stream = std::net::TcpStream::connect(at).expect("a connection");
        write!(stream, "GET /live.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        assert_eq!(answer.contains("schema_version"), status == "200", "{host}: {answer}");
    }
    server.stop();
}

/// What `nandle` says to a server that does what `run` does with its client.
fn asks(args: &[&str], run: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> (Option<i32>, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || listener.incoming().flatten().for_each(&run));
    let args: Vec<&str> = args.iter().map(|arg| if *arg == "AT" { at.as_str() } else { arg }).collect();
    let out = std::process::Command::new(program()).args(args).output().expect("it runs");
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn the_programs_own_clients_wait_for_no_server_for_ever() {
    let commands = [&["stat", "--at", "AT"][..], &["flashalloc", "--to", "AT", "0:1"][..]];
    std::thread::scope(|scope| {
        for args in commands {
            for drips in [false, true] {
                scope.spawn(move || {
                    let began = Instant::now();
                    let (code, said) = asks(args, move |mut stream| {
                        let began = Instant::now();
                        while began.elapsed() < Duration::from_secs(60) {
                            std::thread::sleep(Duration::from_millis(100));
                            if drips && stream.write_all(&[3]).is_err() {
                                return;
                            }
                        }
                    });
                    assert!(began.elapsed() < Duration::from_secs(30), "{args:?}: {:?}", began.elapsed());
                    assert!(
                        said.lines().count() == 1 && said.contains("no whole answer"),
                        "{args:?}: {said}"
                    );
                    assert_eq!(code, Some(1), "{args:?}: {said}");
                });
            }
        }
    });
}

// ---- turns ------------------------------------------------------------------------------------------

#[test]
fn questions_about_the_whole_drive_hold_nobody_up() {
    let dir = temp();
    let server = Served::start(dir.path(), &["--timing", "off", "--device", "modern-tlc@1/16"]);
    let mut good = server.client();
    good.write(0, &[7; 4096]);
    let floods: Vec<UnixStream> = (0..3).map(|_| status_flood(&server.socket, good.bytes, 1000)).collect();
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        let began = Instant::now();
        assert_eq!(good.read(0, 4096), [7; 4096]);
        longest = longest.max(began.elapsed());
    }
    // 3000 looks at all units of the drive take far more than this.
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(floods);
}
