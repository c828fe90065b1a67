//! Goal: clients that are slow, dead or hostile take nothing from a served drive for good and starve nobody else.
//! Method: the real server, many bad clients on each transport that needs no privileges, and a good one beside them;
//! descriptors, memory and time are counted from outside.
#![cfg(target_os = "linux")]

mod served;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use served::{SMALL, Served};

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn with<'a>(base: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [base, more].concat()
}

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
    // The last one is served when the first ones are over.
    let vhost = || drop(UnixStream::connect(dir.path().join("vhost")).expect("a connection"));
    until("the first clients are gone", SOON, || server.open_files() < 40);
    let before = server.open_files();
    for _ in 0..100 {
        round();
    }
    vhost();
    until("all clients are gone", SOON, || server.open_files() <= before + 2);
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
