//! Goal: nothing that happens to an image is passed over in silence: damage, an emptied, deleted or impossible file.
//! Method: a server is killed, its image changed, and served again; or it is taken away while it is served.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::served;
use nandle_serve::nbd::wire::command;
use served::{SMALL, Served};

/// Written as what its sector's number says.
const WRITTEN: u64 = 64;

fn contents(sector: u64) -> Vec<u8> {
    (sector + 1).to_le_bytes().repeat(512)
}

/// `nandle serve` that must not start; what it said.
fn refused(dir: &Path, more: &[&str]) -> String {
    let out = serve(dir, more);
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

/// `nandle serve` that ends by itself, soon.
fn serve(dir: &Path, more: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nandle"))
        .args(["serve", "--nbd", "unix:socket2", "--image", "flash.img"])
        .args(more)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nandle");
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("nandle serve {more:?} goes on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("its end")
}

fn args() -> Vec<&'static str> {
    [SMALL, &["--image", "flash.img", "--timing", "off", "--set", "buffer.bytes=0"]].concat()
}

/// An image with data in it, whose server was killed.
fn image(dir: &Path) {
    let server = Served::start(dir, &args());
    let mut client = server.client();
    // Page by page, so that there is one copy of each sector.
    for sector in (0..WRITTEN).step_by(4) {
        client.write(sector * 4096, &(sector..sector + 4).flat_map(contents).collect::<Vec<u8>>());
    }
    client.flush();
    server.kill();
}

/// What an HTTP server answers.
fn page(at: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("a page");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

/// Where a server shows its page.
fn watched_at(server: &mut Served) -> String {
    server.line("http").trim().trim_start_matches("http   http://").trim_end_matches('/').to_owned()
}

/// Waits until the page says so.
fn wait_for(http: &str, text: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !page(http, "/live.json").contains(text) {
        assert!(Instant::now() < deadline, "no {text}: {}", page(http, "/live.json"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn damage_is_a_media_error_and_is_told() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("flash.img");
    image(dir.path());
    let mut bytes = fs::read(&path).expect("the image");
    let number = 17_u64;
    let find = contents(number)[..64].to_vec();
    let at = bytes.windows(64).position(|window| window == find).expect("it is stored");
    bytes[at + 100] ^= 4;
    fs::write(&path, &bytes).expect("written");

    let message = refused(dir.path(), &[]);
    for part in ["byte ", "its checksum is wrong", "media errors", "--damaged-ok", "nandle fsck"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(fs::read(&path).expect("the image") == bytes, "a refusal changed the image");

    let served = ["--image", "flash.img", "--timing", "off", "--damaged-ok", "--http", "127.0.0.1:0"];
    let mut server = Served::start(dir.path(), &served);
    let http = watched_at(&mut server);
    let mut client = server.client();
    let mut lost = 0;
    for sector in 0..WRITTEN {
        match client.ask(command::READ, 0, sector * 4096, 4096, &[]) {
            Ok(data) => assert!(data == contents(sector), "sector {sector}"),
            Err(error) => {
                assert_eq!(error, 5, "sector {sector}: EIO");
                lost += 1;
            }
        }
    }
    assert_eq!(lost, 4, "a page has four sectors");
    assert!(client.ask(command::READ, 0, number * 4096, 4096, &[]).is_err(), "the damaged sector was read");
    wait_for(&http, "\"damaged\":1");
    let metrics = page(&http, "/metrics");
    assert!(
        metrics.contains("nandle_image_damaged") && metrics.contains("nandle_unreadable_sectors"),
        "{metrics}"
    );
    // What is written again can be read again.
    client.write(number * 4096, &contents(number));
    assert!(client.read(number * 4096, 4096) == contents(number));
    drop(client);
    server.stop();

    // It was accepted: what is lost is known, and nothing else is wrong.
    let server = Served::start(dir.path(), &["--image", "flash.img", "--timing", "off"]);
    let mut client = server.client();
    assert!(client.read(number * 4096, 4096) == contents(number));
    assert_eq!(client.ask(command::READ, 0, (number / 4 * 4 + 3) * 4096, 4096, &[]), Err(5));
    drop(client);
    server.stop();
    let out = Command::new(env!("CARGO_BIN_EXE_nandle"))
        .args(["fsck", "flash.img"])
        .current_dir(dir.path())
        .output();
    let out = out.expect("nandle");
    assert!(
        out.status.success() && String::from_utf8_lossy(&out.stdout).contains(", 3 unreadable"),
        "{out:?}"
    );
}

#[test]
fn what_is_no_image_is_not_served_as_a_new_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("flash.img");
    image(dir.path());
    let length = fs::metadata(&path).expect("the image").len();
    let file = fs::File::options().write(true).open(&path).expect("the image");
    // Its contents are gone, its length is not.
    file.set_len(0).and_then(|()| file.set_len(length)).expect("emptied");
    assert!(refused(dir.path(), &[]).contains("only zeros where its header should be"));
    file.set_len(0).expect("emptied");
    assert!(refused(dir.path(), &args()[2..4]).contains("there is nothing in it"));
    fs::remove_file(&path).expect("removed");

    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    assert!(refused(dir.path(), &[]).contains("not a regular file"));
    let out = Command::new(env!("CARGO_BIN_EXE_nandle")).arg("fsck").arg(&path).output().expect("nandle");
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("a directory");
    assert!(refused(dir.path(), &[]).contains("not a regular file"));
    assert!(!dir.path().join("flash.img.new").exists(), "something is left");
}

/// A server whose image `change` takes away; it says so, takes no more writes, and ends with an error.
fn taken_away(change: impl Fn(&Path), word: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_nandle"))
        .args(["serve", "--nbd", "unix:socket"])
        .args(args())
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nandle");
    let socket = dir.path().join("socket");
    let mut client = served::Client::connect(&socket);
    client.write(0, &contents(0));
    change(&dir.path().join("flash.img"));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        client.ask(command::WRITE, 0, 4096, 4096, &contents(1)),
        Err(5),
        "a write that outlives nothing"
    );
    assert_eq!(client.ask(command::FLUSH, 0, 0, 0, &[]), Err(5), "a flush that flushes nothing");
    assert!(client.read(0, 4096) == contents(0), "what it has can still be read");
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!(child.wait().expect("its end").code(), Some(1), "{said}");
    assert!(said.contains(word) && said.contains("/proc/"), "{said}");
}

#[test]
fn an_image_that_is_taken_away_is_noticed() {
    taken_away(|path| fs::remove_file(path).expect("removed"), "was deleted or replaced");
    taken_away(
        |path| {
            fs::rename(path, path.with_extension("old")).expect("renamed");
            fs::copy(path.with_extension("old"), path).expect("copied");
        },
        "was deleted or replaced",
    );
    let truncate = |path: &Path| {
        let file = fs::File::options().write(true).open(path).expect("the image");
        file.set_len(100).expect("truncated");
    };
    taken_away(truncate, "was truncated");
}

#[test]
fn a_server_that_outlives_its_host_is_served_and_flushes() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = [args(), vec!["--durability", "host"]].concat();
    let server = Served::start(dir.path(), &args);
    let mut client = server.client();
    for round in 0..20 {
        for sector in 0..WRITTEN {
            client.write(sector * 4096, &contents(sector + round));
        }
        client.flush();
    }
    server.kill();
    let server = Served::start(dir.path(), &["--image", "flash.img", "--durability", "process"]);
    let mut client = server.client();
    for sector in 0..WRITTEN {
        assert!(client.read(sector * 4096, 4096) == contents(sector + 19), "sector {sector}");
    }
}

/// The program by a shell that allows files of so many blocks; a limit on the size of files is to a process what a file
/// system's own is.
fn with_short_files(blocks: u32, dir: &Path) -> Command {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_nandle"), "serve", "--nbd", "unix:socket"]);
    command.args(args()).current_dir(dir);
    command
}

/// One that must not start; what it said.
fn refused_with_short_files(blocks: u32, dir: &Path) -> String {
    let out = with_short_files(blocks, dir).output().expect("it starts");
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn an_image_that_no_file_can_hold_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let message = refused_with_short_files(100, dir.path());
    assert!(message.contains("no file of such a length") && message.contains("ulimit -f"), "{message}");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "something is left");
}

#[test]
fn a_device_with_capacitors_says_how_it_gets_an_image() {
    let dir = tempfile::tempdir().expect("a directory");
    let capacitors = [SMALL, &["--set", "recovery.plp=true"]].concat();
    let message = refused(dir.path(), &capacitors);
    let (_, remedy) = message.split_once("expected ").expect("what is expected");
    let remedy: Vec<&str> = remedy.split_whitespace().take(2).collect();
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "something is left");
    let mut server =
        Served::start(dir.path(), &[&capacitors, &remedy[..], &["--image", "flash.img"]].concat());
    assert!(server.line("image").ends_with(" flash.img (new)\n"));
}

#[test]
fn an_image_longer_than_files_may_be_is_in_pieces() {
    let temp = tempfile::tempdir().expect("a directory");
    let dir = temp.path();
    let path = dir.join("flash.img");
    let mut child = with_short_files(20_000, dir).stdout(Stdio::null()).spawn().expect("it starts");
    let mut client = served::Client::connect(&dir.join("socket"));
    // All of the drive, some of it twice, so that every piece is written to.
    let sectors = client.bytes / 4096;
    for round in 0..3 {
        for sector in (0..sectors - 4).step_by(4) {
            let data = (sector..sector + 4).flat_map(|sector| contents(sector + round)).collect::<Vec<u8>>();
            client.write(sector * 4096, &data);
        }
    }
    client.flush();
    child.kill().expect("killed");
    child.wait().expect("its end");
    let lengths: Vec<u64> = (0_u32..)
        .map(|n| if n == 0 { path.clone() } else { path.with_extension(format!("img.{n}")) })
        .map_while(|path| fs::metadata(path).ok())
        .map(|piece| piece.len())
        .collect();
    assert!(lengths.len() > 4 && lengths.windows(2).all(|two| two[0] >= two[1]), "{lengths:?}");
    assert!(lengths[0].is_power_of_two() && lengths.iter().filter(|&&l| l != lengths[0]).count() <= 1);
    let fsck = || {
        let mut nandle = Command::new(env!("CARGO_BIN_EXE_nandle"));
        nandle.args(["fsck", "flash.img"]).current_dir(dir).output().expect("nandle")
    };
    assert!(fsck().status.success(), "{:?}", fsck());
    let mut server = Served::start(dir, &["--image", "flash.img", "--timing", "off"]);
    let line = server.line("image");
    assert!(line.ends_with(&format!(" (as it was left, in {} files)\n", lengths.len())), "{line}");
    let mut client = server.client();
    for sector in 0..sectors / 4 * 4 - 4 {
        assert!(client.read(sector * 4096, 4096) == contents(sector + 2), "sector {sector}");
    }
    drop(client);
    // One that is taken away meanwhile is missed.
    let piece = path.with_extension("img.2");
    fs::rename(&piece, dir.join("elsewhere")).expect("renamed");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(server.client().ask(command::WRITE, 0, 0, 4096, &contents(0)), Err(5));
    server.kill();
    let message = refused(dir, &[]);
    assert!(message.contains("flash.img.2") && message.contains("side by side"), "{message}");
    assert_eq!(fsck().status.code(), Some(2));
    // What lies where a new one's pieces would is left alone.
    fs::remove_file(&path).expect("removed");
    let message = refused_with_short_files(20_000, dir);
    assert!(message.contains("flash.img.1: it is in the way"), "{message}");
    assert!(!path.exists() && !dir.join("flash.img.new").exists(), "something is left");
}

/// Processor time of a process so far, in seconds, and pages of memory that it touched for the first time.
#[cfg(target_os = "linux")]
fn spent(id: u32) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("its state");
    let (_, rest) = stat.rsplit_once(')').expect("its name");
    let field = |n: usize| {
        rest.split_whitespace().nth(n).and_then(|text| text.parse::<f64>().ok()).expect("a number")
    };
    ((field(11) + field(12)) / 100.0, field(7))
}

#[test]
#[cfg(target_os = "linux")]
fn an_image_of_a_terabyte_starts_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--device", "modern-tlc", "--image", "flash.img", "--timing", "off"];
    for state in ["new", "as it was left"] {
        let mut server = Served::start(dir.path(), &args);
        assert!(server.line("image").contains(state));
        // What it needs of a processor: how long that takes depends on what else the machine does.
        let (cpu_s, faults) = spent(server.id());
        assert!(cpu_s < 2.0, "{state}: {cpu_s} s");
        // Contents are copied to where they stay, and nowhere else: 65,536 pages, or far fewer if they are huge.
        assert!(faults < 100_000.0, "{state}: {faults} pages of memory were touched");
        let mut client = server.client();
        for megabyte in 0..256 {
            client.write((1 << 39) + (megabyte << 20), &contents(7).repeat(256));
        }
        assert!(client.read(1 << 39, 4096) == contents(7));
        drop(client);
        server.stop();
    }
}
