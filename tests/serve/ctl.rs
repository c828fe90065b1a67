//! Goal: a served drive fails as `nandle ctl` orders: the host sees the error or the delay that the order names, the
//! logs tell of it, what was not hit is not changed, and an image taken at any moment is a drive.
//! Method: the real server and the real `nandle ctl`; our own NBD client and NVMe initiator see what a host would, error
//! numbers and log pages are those of the specifications; what is read is compared with what was written.
#![cfg(unix)]

use crate::served;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nandle_random::Stream;
use nandle_serve::nbd::wire::command;
use nandle_serve::nvme_tcp::host::{Host, Options, blocks, entry};
use nandle_serve::nvme_tcp::wire::{Status, op, u32_at, u64_at};
use served::{Client, SMALL, Served, temp};

const EPERM: u32 = 1;
const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const SECTOR: u32 = 4096;

fn start(dir: &Path, args: &[&str]) -> Served {
    Served::start(dir, &[SMALL, &["--ctl", "ctl"], args].concat())
}

fn ctl(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(served::program());
    command.arg("ctl").args(args).current_dir(dir).output().expect("nandle starts")
}

/// What an order that must be carried out answers.
fn order(dir: &Path, words: &str) -> String {
    let args: Vec<&str> = ["ctl"].into_iter().chain(words.split(' ')).collect();
    let out = ctl(dir, &args);
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

fn sectors(draw: &mut Stream, count: u32) -> Vec<u8> {
    (0..count * SECTOR / 8).flat_map(|_| draw.word().to_le_bytes()).collect()
}

/// A log page of the drive.
fn log(host: &mut Host, page: u8, group: u32, bytes: u32) -> Vec<u8> {
    let dwords = [(bytes / 4 - 1) << 16 | u32::from(page), group << 16, 0, 0, 0, 0];
    host.admin.command(entry(op::GET_LOG_PAGE, u32::MAX, dwords), &[], bytes).expect("an answer").data
}

fn time(client: &mut Client) -> Duration {
    let began = Instant::now();
    client.read(0, SECTOR);
    began.elapsed()
}

#[test]
fn lost_sectors_are_media_errors_in_every_log_until_they_are_written_again() {
    let dir = temp();
    let mut server = start(dir.path(), &["--timing", "off", "--nvme-tcp", ":0"]);
    let at = server.nvme();
    let mut host = Host::connect(at, &Options::default()).expect("a subsystem");
    let mut client = server.client();
    let data = sectors(&mut Stream::new(1, "ctl"), 16);
    client.write(0, &data);
    client.flush();
    let before = log(&mut host, 0x02, 0, 512);
    assert_eq!(
        order(dir.path(), "media-error 12Ki 8193"),
        "3 of 3 sectors lost: the others are not on flash"
    );
    // Nothing was ever written there.
    assert_eq!(order(dir.path(), "media-error 2Mi 4Ki"), "0 of 1 sectors lost: the others are not on flash");
    for sector in 0..16 {
        let read = client.ask(command::READ, 0, u64::from(sector * SECTOR), SECTOR, &[]);
        if (3..6).contains(&sector) {
            assert_eq!(read, Err(EIO), "{sector}");
        } else {
            let from = (sector * SECTOR) as usize;
            assert_eq!(read.as_deref(), Ok(&data[from..from + SECTOR as usize]), "{sector}");
        }
    }
    let read = host.io.command(blocks(op::READ, 4, 1), &[], SECTOR).expect("an answer");
    assert_eq!(read.status, Status::UNRECOVERED_READ);
    let (smart, ocp) = (log(&mut host, 0x02, 0, 512), log(&mut host, 0xc0, 0, 512));
    // Four reads of a lost sector: media errors, error log entries of NVMe's one; OCP's uncorrectable read errors.
    assert_eq!((u64_at(&smart, 160) - u64_at(&before, 160), u64_at(&smart, 176)), (4, 1));
    assert_eq!(u64_at(&ocp, 56), 4);
    client.write(3 * u64::from(SECTOR), &data[..3 * SECTOR as usize]);
    assert_eq!(client.read(3 * u64::from(SECTOR), 3 * SECTOR), data[..3 * SECTOR as usize]);
    assert_eq!(order(dir.path(), "show"), "3 sectors lost so far");
}

#[test]
fn late_commands_are_as_late_as_was_ordered_and_no_others() {
    let dir = temp();
    let server = start(dir.path(), &[]);
    let mut client = server.client();
    client.write(0, &[7; SECTOR as usize]);
    let late = Duration::from_millis(300);
    assert_eq!(
        order(dir.path(), "latency 300ms --of read,flush --requests 2"),
        "read, flush: 300 ms late, the next 2"
    );
    assert!(time(&mut client) >= late);
    // Reads that wait wait together, and writes pass them.
    let began = Instant::now();
    client.send(command::READ, 0, 0, SECTOR, &[]).expect("sent");
    client.send(command::READ, 0, 0, SECTOR, &[]).expect("sent");
    let (_, error, data) = client.receive().expect("an answer");
    assert_eq!((error, data), (0, vec![7; SECTOR as usize]));
    assert!(began.elapsed() < late, "the third read is not late");
    client.write(0, &[8; SECTOR as usize]);
    assert!(began.elapsed() < late, "writes are not late");
    client.receive().expect("the late one");
    assert!(began.elapsed() >= late);
    order(dir.path(), "latency 300ms");
    assert!(time(&mut client) >= late);
    order(dir.path(), "latency 0");
    assert!(time(&mut client) < late);
    assert_eq!(order(dir.path(), "show"), "no faults");
    // Those that wait go on when that ends, and nobody waits for them at the end.
    let soon = Duration::from_secs(60);
    let kept = |client: &mut Client| {
        order(dir.path(), "latency 300s --of read,write");
        client.send(command::READ, 0, 0, SECTOR, &[]).expect("sent");
        client.send(command::WRITE, 0, 0, SECTOR, &[9; SECTOR as usize]).expect("sent");
        // A flush is not late, and comes behind them.
        client.flush();
    };
    for end in ["clear", "latency 0"] {
        let began = Instant::now();
        kept(&mut client);
        assert_eq!(client.under_way(), 2, "both are kept");
        order(dir.path(), end);
        for _ in 0..2 {
            client.receive().expect("an answer");
        }
        assert!(began.elapsed() < soon, "{end}");
    }
    let began = Instant::now();
    kept(&mut client);
    order(dir.path(), "latency 0 --of read");
    client.receive().expect("the read");
    assert_eq!(client.under_way(), 1, "the write is kept");
    let said = server.stop();
    assert!(said.contains("read") && began.elapsed() < soon, "{:?}: {said}", began.elapsed());
}

#[test]
fn a_drive_without_room_or_without_writes_says_so_and_reads_on() {
    let dir = temp();
    let mut server = start(dir.path(), &["--timing", "off", "--nvme-tcp", ":0"]);
    let at = server.nvme();
    let mut host = Host::connect(at, &Options::default()).expect("a subsystem");
    let mut client = server.client();
    let old = vec![3; SECTOR as usize];
    client.write(0, &old);
    let new = vec![4; SECTOR as usize];
    let write = |client: &mut Client| client.ask(command::WRITE, 0, 0, SECTOR, &new);
    let warning = |host: &mut Host| log(host, 0x02, 0, 512)[0];
    order(dir.path(), "full");
    assert_eq!(write(&mut client), Err(ENOSPC));
    assert_eq!(
        host.io.command(blocks(op::WRITE, 0, 1), &new, 0).expect("an answer").status,
        Status::CAPACITY
    );
    client.flush();
    assert_eq!((client.read(0, SECTOR), warning(&mut host)), (old.clone(), 0));
    order(dir.path(), "full off");
    order(dir.path(), "read-only");
    assert_eq!(write(&mut client), Err(EPERM));
    // "All media is placed in read only mode."
    assert_eq!((client.read(0, SECTOR), warning(&mut host)), (old, 8));
    order(dir.path(), "clear");
    write(&mut client).expect("written");
    assert_eq!((client.read(0, SECTOR), warning(&mut host)), (new.clone(), 0));
    // Once, then for ever.
    let flush = |client: &mut Client| client.ask(command::FLUSH, 0, 0, 0, &[]);
    order(dir.path(), "fail flush --requests 1");
    assert_eq!(flush(&mut client), Err(EIO));
    assert!(flush(&mut client).is_ok());
    order(dir.path(), "fail flush");
    assert_eq!([flush(&mut client), flush(&mut client)], [Err(EIO), Err(EIO)]);
    let json = order(dir.path(), "show --json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["done"]["faults"]["fail"][0]["of"], "flush");
    order(dir.path(), "clear");
    assert!(flush(&mut client).is_ok());
}

#[test]
fn a_die_that_is_gone_loses_its_part_and_what_is_written_then_is_kept() {
    let dir = temp();
    let mut server = start(dir.path(), &["--timing", "off", "--nvme-tcp", ":0"]);
    let at = server.nvme();
    let mut host = Host::connect(at, &Options::default()).expect("a subsystem");
    let mut client = server.client();
    let mut draw = Stream::new(2, "ctl");
    let (pages, page) = (64_u32, 4 * SECTOR);
    let data = sectors(&mut draw, pages * 4);
    client.write(0, &data);
    client.flush();
    assert_eq!(order(dir.path(), "die 1"), "die 1 answers no more");
    let mut lost = 0;
    for n in 0..pages {
        match client.ask(command::READ, 0, u64::from(n * page), page, &[]) {
            Ok(read) => assert_eq!(read, data[(n * page) as usize..][..page as usize], "page {n}"),
            Err(error) => {
                assert_eq!(error, EIO);
                lost += 1;
            }
        }
    }
    let dies = nandle_lab::config::Wanted {
        device: "demo-page",
        sets: &SMALL.chunks(2).skip(1).map(|set| set[1].to_owned()).collect::<Vec<_>>(),
        ..Default::default()
    };
    let dies = dies.load().expect("the drive").config.geometry.dies();
    // Pages are dealt out over the planes in turn: as many in each die.
    assert_eq!(lost, pages / dies);
    // What is written from now on lands in the others. A drive that takes no more has said so.
    let mut kept = std::collections::HashMap::new();
    let mut refused = 0;
    for n in 0..600_u64 {
        let place = draw.below(u64::from(pages)) * u64::from(page);
        let new = sectors(&mut draw, 4);
        match client.ask(command::WRITE, 0, place, page, &new) {
            Ok(_) => drop(kept.insert(place, new)),
            Err(error) => {
                assert_eq!(error, EPERM, "write {n}");
                refused += 1;
            }
        }
    }
    let _ = client.ask(command::FLUSH, 0, 0, 0, &[]);
    assert!(!kept.is_empty(), "{refused} refused");
    for (place, new) in &kept {
        assert_eq!(client.read(*place, page), *new, "{place}");
    }
    // Bad user blocks of OCP's log; spare that is left, of SMART's.
    let (ocp, smart) = (log(&mut host, 0xc0, 0, 512), log(&mut host, 0x02, 0, 512));
    assert!(refused > 0 || u32_at(&ocp, 32) > 0 && smart[3] < 100, "{refused} refused, {:?}", &ocp[32..38]);
    assert_eq!(smart[0] >> 3 & 1, u8::from(refused > 0));
}

#[test]
fn an_image_of_any_moment_is_a_drive_of_its_own() {
    let (dir, other) = (temp(), temp());
    for image in [None, Some("drive.img")] {
        let args: Vec<&str> =
            image.iter().flat_map(|image| ["--image", *image]).chain(["--timing", "off"]).collect();
        let server = start(dir.path(), &args);
        let mut client = server.client();
        let mut draw = Stream::new(5, "ctl");
        let first = sectors(&mut draw, 256);
        client.write(0, &first);
        let copy = other.path().join(format!("{image:?}.img"));
        let said = order(dir.path(), &format!("snapshot {} --flush", copy.display()));
        assert!(said.contains("would have left it"), "{said}");
        let second = sectors(&mut draw, 256);
        client.write(0, &second);
        client.flush();
        // Again while it is written to: any moment will do.
        let moving = other.path().join(format!("moving-{image:?}.img"));
        for n in 0..64 {
            client
                .send(command::WRITE, 0, n * u64::from(SECTOR), SECTOR, &vec![n as u8; SECTOR as usize])
                .expect("sent");
        }
        order(dir.path(), &format!("snapshot {}", moving.display()));
        while client.under_way() > 0 {
            client.receive().expect("an answer");
        }
        for (path, of) in [(&copy, None), (&moving, Some(&second))] {
            let path = path.to_str().expect("a name");
            let check = Command::new(served::program()).args(["fsck", path]).output().expect("nandle starts");
            assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
            let clone = Served::start(other.path(), &["--timing", "off", "--image", path]);
            let read = clone.client().read(0, 256 * SECTOR);
            match of {
                None => assert!(read == first, "what was answered by then, and nothing later"),
                Some(second) => {
                    for (n, sector) in read.chunks(SECTOR as usize).enumerate() {
                        let new = n < 64 && sector.iter().all(|&byte| byte == n as u8);
                        assert!(new || sector == &second[n * SECTOR as usize..][..SECTOR as usize], "{n}");
                    }
                }
            }
            // The clone goes its own way.
            clone.client().write(0, &[9; SECTOR as usize]);
            assert_eq!(client.read(0, SECTOR)[0], 0);
            clone.stop();
        }
        server.stop();
    }
}

#[test]
fn the_power_goes_when_it_is_told_to() {
    let dir = temp();
    let server = start(dir.path(), &["--image", "drive.img", "--timing", "off"]);
    let mut client = server.client();
    client.write(0, &[5; SECTOR as usize]);
    client.flush();
    order(dir.path(), "power-cut");
    let said = server.wait();
    assert!(said.contains("power cut after 2 commands"), "{said}");
    let server = start(dir.path(), &["--image", "drive.img", "--timing", "off"]);
    assert_eq!(server.client().read(0, SECTOR), [5; SECTOR as usize]);
}

#[test]
fn the_socket_is_its_owners_and_bad_use_is_one_sentence() {
    use std::os::unix::fs::PermissionsExt;
    let dir = temp();
    let server = start(dir.path(), &["--timing", "off"]);
    let mode = std::fs::metadata(dir.path().join("ctl")).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let other = temp();
    let real = dir.path().join("real");
    let _real = Served::start(other.path(), &[SMALL, &["--ctl", real.to_str().expect("a name")]].concat());
    std::fs::write(dir.path().join("there"), "").expect("written");
    for (args, part) in [
        (vec!["ctl", "die", "64"], "die 64: expected 0 to "),
        (vec!["ctl", "media-error", "1Ti"], "expected some within the drive's"),
        (vec!["ctl", "latency", "1ms"], "with --timing off nothing takes time"),
        (vec!["ctl", "fail", "read", "--requests", "0"], "0 requests: expected at least one"),
        (vec!["real", "latency", "20ms", "--requests", "0"], "0 requests: expected at least one"),
        (vec!["ctl", "snapshot", "there"], "there is such a file already"),
        (vec!["ctl", "snapshot", "no/such/folder"], "no/such/folder"),
        (vec!["ctl", "power-cut"], "expected one with --image"),
        (vec!["nobody", "show"], "expected the socket of a drive under `nandle serve --ctl`"),
        (vec!["there", "show"], "expected the socket of a drive under `nandle serve --ctl`"),
        (vec!["ctl", "latency", "soon"], "expected a time up to 600s"),
    ] {
        let out = ctl(dir.path(), &args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
    // Who writes something else is told, and the drive goes on.
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(dir.path().join("ctl")).expect("connected");
    stream.write_all(b"{\"order\":\"explode\"}\n").expect("sent");
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).expect("an answer");
    assert!(line.contains("refused") && line.contains("explode"), "{line}");
    // Orders that come in one piece have an answer each.
    stream.write_all(b"{\"order\":\"full\",\"on\":true}\n{\"order\":\"show\"}\n").expect("sent");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let answers: Vec<String> = BufReader::new(&stream).lines().take(2).map_while(Result::ok).collect();
    assert!(
        answers.len() == 2 && answers.iter().all(|answer| answer.contains("\"full\":true")),
        "{answers:?}"
    );
    drop(stream);
    order(dir.path(), "full off");
    assert_eq!(server.client().read(0, SECTOR).len(), SECTOR as usize);
}

#[test]
fn the_documented_orders_are_taken() {
    let dir = temp();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/faults.md");
    let text = std::fs::read_to_string(page).expect("there");
    let (_, after) = text.split_once("<!-- tests/serve/ctl.rs runs this -->").expect("the mark");
    let block = after.split("```").nth(1).expect("a block").trim_start_matches("sh");
    let mut lines = block.lines().filter(|line| !line.is_empty());
    let serve = lines.next().and_then(|line| line.strip_prefix("nandle serve ")).expect("the server");
    let serve = serve.trim_end_matches('&').trim().replace("--nbd disk.sock ", "");
    let args: Vec<&str> = SMALL.iter().copied().chain(serve.split(' ')).collect();
    let server = Served::start(dir.path(), &args);
    server.client().write(1 << 20, &[1; 4096]);
    server.client().flush();
    let mut said = String::new();
    for line in lines {
        let words = line.strip_prefix("nandle ctl ").expect("an order");
        let out = ctl(dir.path(), &words.split(' ').collect::<Vec<_>>());
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        said = String::from_utf8_lossy(&out.stdout).into_owned();
    }
    assert_eq!(said, "write: 20.0 ms late, 100 more\nflush: 20.0 ms late, 99 more\n1 sectors lost so far\n");
}
