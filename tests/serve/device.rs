//! Goal: a served drive is a correct block device to programs that others wrote, keeps what it
//! promised when its process is killed, and does what the same requests do in a simulation.
//! Method: the real server; fio, nbdinfo, nbdcopy and qemu-img as clients where they are installed,
//! and a client of our own that keeps for each sector the range from its last durable write to its
//! newest one.

use crate::served;

use std::process::Command;
use std::time::{Duration, Instant};

use nandle_random::Stream;
use nandle_serve::nbd::wire::{command, flag};
use serde_json::Value;
use served::writer::Writer;
use served::{SMALL, Served, good, has, temp, with};

const SECTOR: usize = 4096;

/// The message of a command that must be refused.
fn refused(args: &[&str], dir: &std::path::Path) -> String {
    let out =
        Command::new(env!("CARGO_BIN_EXE_nandle")).args(args).current_dir(dir).output().expect("it runs");
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

// ---- programs that others wrote ---------------------------------------------------------------------

#[test]
fn fio_verifies_what_it_wrote() {
    if !has("fio") {
        return;
    }
    let dir = temp();
    let server = Served::start(dir.path(), &["--timing", "off"]);
    let uri = format!("--uri={}", server.uri());
    let fio = |name: &str, args: &[&str]| {
        let name = format!("--name={name}");
        let all = ["--ioengine=nbd", &uri, &name, "--size=48m", "--iodepth=16", "--verify_fatal=1"];
        good("fio", &with(&all, args), dir.path());
    };
    fio("mixed", &["--rw=randrw", "--bs=4k", "--verify=crc32c", "--fsync=64"]);
    fio(
        "sizes",
        &["--rw=randwrite", "--bsrange=4k-256k", "--bs_unaligned=0", "--verify=crc32c", "--offset=64m"],
    );
    fio(
        "deep",
        &["--rw=randrw", "--bs=4k", "--verify=crc32c", "--iodepth=128", "--offset=128m", "--size=16m"],
    );
    // Smaller than a sector of the drive.
    fio("small", &["--rw=randrw", "--bs=512", "--verify=crc32c", "--offset=240m", "--size=4m"]);
    fio("trim", &["--rw=trimwrite", "--bs=64k", "--verify=crc32c", "--offset=192m"]);
    let said = server.stop();
    assert!(said.contains("trim") && said.contains("WAF"), "{said}");
}

#[test]
fn nbd_tools_and_qemu_agree_on_the_contents() {
    let dir = temp();
    let server = Served::start(dir.path(), &["--device", "demo-page", "--timing", "off"]);
    let uri = server.uri();
    // A file with data, holes and zeros.
    let mut data = vec![0_u8; 24 << 20];
    let mut draw = Stream::new(7, "contents");
    for chunk in data[1 << 20..9 << 20].chunks_exact_mut(8) {
        chunk.copy_from_slice(&draw.word().to_le_bytes());
    }
    data[20 << 20..].fill(0x5a);
    let file = dir.path().join("data");
    std::fs::write(&file, &data).expect("written");
    if has("nbdinfo") {
        let info: Value =
            serde_json::from_str(&good("nbdinfo", &["--json", &uri], dir.path())).expect("JSON");
        let export = &info["exports"][0];
        for key in
            ["can_flush", "can_fua", "can_trim", "can_zero", "can_fast_zero", "can_multi_conn", "can_df"]
        {
            assert_eq!(export[key], true, "{key}: {export}");
        }
        assert_eq!(
            (&export["block_size_minimum"], &export["block_size_preferred"]),
            (&512.into(), &16384.into())
        );
        assert_eq!(info["protocol"], "newstyle-fixed");
        assert_eq!(info["structured"], true);
        assert!(good("nbdinfo", &["--list", &uri], dir.path()).contains("nandle"));
    }
    if has("nbdcopy") {
        good("nbdcopy", &["data", &uri], dir.path());
        good("nbdcopy", &[&uri, "back"], dir.path());
        let back = std::fs::read(dir.path().join("back")).expect("copied");
        assert!(back.starts_with(&data), "nbdcopy read back something else");
    }
    if has("qemu-img") {
        good(
            "qemu-img",
            &["convert", "-n", "-f", "raw", "-O", "raw", "--target-is-zero", "data", &uri],
            dir.path(),
        );
        let mut padded = std::fs::OpenOptions::new().write(true).open(&file).expect("there");
        let end = server.client().bytes;
        padded.set_len(end).expect("extended");
        std::io::Write::flush(&mut padded).expect("flushed");
        good("qemu-img", &["compare", "-f", "raw", "-F", "raw", "data", &uri], dir.path());
        good(
            "qemu-img",
            &["bench", "-f", "raw", "-w", "-c", "2000", "-d", "32", "-s", "4096", &uri],
            dir.path(),
        );
    }
    server.stop();
}

// ---- our own client ------------------------------------------------------------------------------------

#[test]
fn any_offset_and_length_on_two_connections_is_as_on_a_plain_disk() {
    let dir = temp();
    let server = Served::start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut clients = [server.client(), server.client()];
    let size = 3 << 20;
    let mut disk = vec![0_u8; size];
    let mut draw = Stream::new(11, "bytes");
    for n in 0..1500_u32 {
        let client = &mut clients[n as usize % 2];
        let offset = draw.below(size as u64 - 20_000) as usize;
        let length = 1 + draw.below(20_000) as usize;
        let fua = if draw.below(8) == 0 { flag::FUA } else { 0 };
        let range = offset..offset + length;
        match draw.below(8) {
            0..=3 => {
                let data: Vec<u8> = (0..length).map(|i| (i as u32 * 31 + n) as u8).collect();
                client.ask(command::WRITE, fua, offset as u64, length as u32, &data).expect("a write");
                disk[range].copy_from_slice(&data);
            }
            4 => {
                client.ask(command::TRIM, fua, offset as u64, length as u32, &[]).expect("a trim");
                let (from, to) = (offset.next_multiple_of(SECTOR), (offset + length) / SECTOR * SECTOR);
                if from < to {
                    disk[from..to].fill(0);
                }
            }
            5 => {
                let hole = if draw.below(2) == 0 { flag::NO_HOLE } else { 0 };
                client
                    .ask(command::WRITE_ZEROES, fua | hole, offset as u64, length as u32, &[])
                    .expect("zeros");
                disk[range].fill(0);
            }
            _ => assert!(client.read(offset as u64, length as u32) == disk[range], "request {n} at {offset}"),
        }
    }
    assert!(clients[0].read(0, size as u32) == disk);
    let end = clients[0].bytes;
    assert_eq!(clients[0].ask(command::READ, 0, end - 1, 2, &[]), Err(22));
    assert_eq!(clients[0].ask(command::WRITE, 0, end, 1, &[0]), Err(28));
    server.stop();
}

#[test]
fn neighbours_in_a_sector_do_not_lose_each_others_bytes() {
    // Without clocks, and where each reads from flash what it leaves standing.
    for more in [&["--timing", "off"][..], &["--set", "buffer.bytes=0"]] {
        let dir = temp();
        let server = Served::start(dir.path(), &with(SMALL, more));
        let mut client = server.client();
        // All at once: each writes its own 16 bytes of the same few sectors.
        let pieces = 4 * SECTOR / 16;
        for n in 0..pieces {
            client.send(command::WRITE, 0, n as u64 * 16, 16, &[n as u8; 16]).expect("sent");
            if n >= 64 {
                assert_eq!(client.receive().expect("an answer").1, 0);
            }
        }
        for _ in 0..64 {
            assert_eq!(client.receive().expect("an answer").1, 0);
        }
        let all = client.read(0, 4 * SECTOR as u32);
        assert!(all.chunks_exact(16).enumerate().all(|(n, piece)| piece == [n as u8; 16]));
        server.stop();
    }
}

#[test]
fn hostile_clients_hurt_nobody_else() {
    use std::io::Write;
    let dir = temp();
    let server = Served::start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut good = server.client();
    good.write(0, b"kept");
    let mut draw = Stream::new(3, "noise");
    for n in 0..200 {
        let mut stream = std::os::unix::net::UnixStream::connect(&server.socket).expect("a connection");
        let mut bytes = if n % 2 == 0 { 3_u32.to_be_bytes().to_vec() } else { vec![] };
        bytes.extend((0..draw.below(200)).map(|_| draw.below(256) as u8));
        let _ = stream.write_all(&bytes);
    }
    // One that asks for much and never reads.
    let mut greedy = server.client();
    for _ in 0..20 {
        let _ = greedy.send(command::READ, 0, 0, 8 << 20, &[]);
    }
    assert_eq!(good.read(0, 4), b"kept");
    drop(greedy);
    server.stop();
}

// ---- what survives ----------------------------------------------------------------------------------------

fn nightly(rounds: u32) -> u32 {
    if std::env::var_os("NANDLE_NIGHTLY").is_some() { 20 * rounds } else { rounds }
}

/// Kills a server under load `rounds` times, on the same image.
fn killed(name: &str, seed: u64, rounds: u32, args: &[&str]) {
    let dir = temp();
    let mut draw = Stream::new(seed, name);
    let base = with(&with(SMALL, &["--image", "flash.img"]), args);
    let mut server = Served::start(dir.path(), &base);
    let total = server.client().bytes / SECTOR as u64;
    let mut writer = Writer::new(server.client(), total);
    for round in 0..rounds {
        let what = format!("{name}, seed {seed}, round {round}");
        let load = Duration::from_millis(150 + draw.below(700));
        let id = server.id().to_string();
        // From outside, in the middle of whatever it is doing.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(load);
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        });
        let gone = writer.work(&mut draw, Instant::now() + Duration::from_secs(60));
        assert!(gone.is_err(), "{what}: the server outlived its kill");
        killer.join().expect("no panic");
        server.kill();
        server = Served::start(dir.path(), &base);
        let mut client = server.client();
        let held = writer.judge(&mut client, &what);
        assert!(held > 0, "{what}: nothing was there at all");
        writer.switched_on_again(client);
    }
    assert!(
        writer.answers > 100 * u64::from(rounds),
        "{name}: only {} answers: too little load",
        writer.answers
    );
    // A last time in order: everything that was answered is there.
    writer.work(&mut draw, Instant::now() + Duration::from_millis(200)).expect("it runs");
    writer.finish().expect("it runs");
    let said = server.stop();
    assert!(said.contains("erases"), "{said}");
    let server = Served::start(dir.path(), &base);
    writer.judge(&mut server.client(), "after an orderly end");
    server.stop();
}

#[test]
fn a_killed_server_keeps_its_promise() {
    killed("page", 1, nightly(6), &["--timing", "off"]);
}

#[test]
fn a_killed_server_keeps_its_promise_in_real_time() {
    killed("real time", 2, nightly(3), &[]);
}

#[test]
fn a_killed_server_keeps_its_promise_with_waflash() {
    killed("waflash", 3, nightly(4), &["--scheme", "waflash", "--timing", "off", "--set", "op_ratio=0.9"]);
}

#[test]
fn a_killed_server_keeps_its_promise_with_across_and_a_small_map_cache() {
    killed(
        "across",
        4,
        nightly(4),
        &["--scheme", "across", "--timing", "off", "--set", "map_cache.bytes=65536"],
    );
}

#[test]
fn a_killed_server_keeps_its_promise_on_failing_flash_with_checkpoints() {
    // Up to three blocks are lost with each start: spare for that even if one plane loses half of them.
    let faults = [
        "--set",
        "faults.programs=[200,900,2500]",
        "--set",
        "op_ratio=2.5",
        "--set",
        "recovery.checkpoint_interval=256",
    ];
    killed("faults", 5, 4, &with(&["--timing", "off"], &faults));
}

#[test]
fn a_power_cut_on_purpose_tears_what_runs_and_keeps_the_promise() {
    let dir = temp();
    let base = with(SMALL, &["--image", "flash.img", "--timing", "off"]);
    let server = Served::start(dir.path(), &with(&base, &["--power-cut-after", "700"]));
    let mut draw = Stream::new(5, "cut");
    let total = server.client().bytes / SECTOR as u64;
    let mut writer = Writer::new(server.client(), total);
    assert!(writer.work(&mut draw, Instant::now() + Duration::from_secs(60)).is_err(), "the power stayed on");
    let said = server.wait();
    assert!(said.contains("power cut after 700 commands"), "{said}");
    let server = Served::start(dir.path(), &base);
    assert!(writer.judge(&mut server.client(), "after the cut") > 0);
    server.stop();
}

#[test]
fn an_image_belongs_to_one_device_and_one_server() {
    let dir = temp();
    let image = ["--image", "flash.img"];
    let server = Served::start(dir.path(), &with(SMALL, &image));
    server.client().write(0, b"hello");
    let serve = |args: &[&str]| refused(&with(&["serve", "--nbd", "unix:other"], args), dir.path());
    let message = serve(&with(SMALL, &image));
    assert!(message.contains("flash.img: in use"), "{message}");
    server.stop();
    let message = serve(&with(&with(SMALL, &image), &["--set", "geometry.channels=4"]));
    assert!(message.contains("geometry.channels = 2 in the image, 4 was given"), "{message}");
    std::fs::write(dir.path().join("text"), "hello").expect("written");
    assert!(serve(&["--image", "text"]).contains("not an image"));
    let mut bytes = std::fs::read(dir.path().join("flash.img")).expect("there");
    bytes.truncate(1 << 20);
    bytes[100] ^= 1;
    std::fs::write(dir.path().join("damaged"), bytes).expect("written");
    assert!(serve(&["--image", "damaged"]).contains("checksum"));
    // Without a word on the device it is the image's; times may differ.
    for more in [&[][..], &["--set", "timing.erase_ns=1000000"]] {
        let server = Served::start(dir.path(), &with(&image, more));
        assert_eq!(server.client().read(0, 6), b"hello\0");
        server.stop();
    }
}

#[test]
fn bad_input_is_refused_with_one_message() {
    let dir = temp();
    for (args, part) in [
        (&["serve"][..], "--nbd ADDR, --nvme-tcp ADDR, --ublk, --fuse DIR or --vhost-user SOCKET"),
        (&["serve", "--nvme-tcp", "example:1"], "expected HOST:PORT"),
        (&["serve", "--nvme-tcp", "192.0.2.1:1"], "cannot listen at"),
        (&["flashalloc", "--to", "127.0.0.1:1", "0:1"], "nandle serve --nvme-tcp"),
        (&["serve", "--nbd", "example:1"], "expected unix:PATH, HOST:PORT"),
        (&["serve", "--nbd", "0", "--power-cut-after", "3"], "--image FILE"),
        (&["serve", "--nbd", "0", "--device", "nothing"], "no device is called"),
        (&["serve", "--nbd", "0", "--age-with", "prxy"], "age_with"),
        (&["serve", "--fuse", "not/there"], "expected a directory"),
        (&["serve", "--nbd", "0", "--set", "timing.untimed=true"], "expected --timing none"),
        (&["serve", "--nbd", "0", "--timing", "none", "--dilation", "2"], "no clock to slow down"),
        (&["serve", "--nbd", "unix:not/there"], "cannot listen at"),
        (&["serve", "--nbd", "0", "--image", "not/there"], "expected a file that can be written"),
        (&["serve", "--nbd", "0", "--image", ".", "--device", "demo"], "not a regular file"),
    ] {
        let message = refused(args, dir.path());
        assert!(message.contains(part), "{message}");
    }
}

// ---- the same requests, simulated ---------------------------------------------------------------------------

#[test]
fn a_recorded_trace_replays_to_the_same_flash_operations() {
    let dir = temp();
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    // Fast flash, so that real time is enough for collection to begin.
    let device = with(SMALL, &["--set", "timing.program_ns=[40000,50000,60000]"]);
    for timing in ["off", "real", "none"] {
        let more = ["--timing", timing, "--record", "served.csv", "--json", "served.json"];
        let server = Served::start(dir.path(), &with(&device, &more));
        let total = server.client().bytes / SECTOR as u64;
        let mut writer = Writer::new(server.client(), total);
        let mut draw = Stream::new(9, timing);
        writer.work(&mut draw, Instant::now() + Duration::from_millis(800)).expect("it runs");
        writer.finish().expect("it runs");
        server.stop();
        let served = json(&std::fs::read_to_string(dir.path().join("served.json")).expect("a summary"));
        let mut run = with(&with(&["run"], &device), &["--workload", "served.csv", "--json", "-"]);
        run.extend((timing == "none").then_some("--untimed"));
        let replayed = json(&good(env!("CARGO_BIN_EXE_nandle"), &run, dir.path()));
        assert!(served["flash"]["erases"].as_u64() > Some(0), "too little load to mean anything");
        for key in ["flash", "buffer", "gc", "wear", "waf"] {
            assert_eq!(served[key], replayed[key], "timing {timing}: {key}");
        }
        assert_eq!(served["host"]["all"]["requests"], replayed["host"]["all"]["requests"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn large_writes_use_the_same_memory_again() {
    const LARGE: u32 = 128 << 10;
    let dir = temp();
    // 128 MiB of flash, all of whose memory is there once it has been written to.
    let sets = ["geometry.blocks_per_plane=16", "geometry.pages_per_block=32", "op_ratio=0.8"];
    let mut args = vec!["--device", "demo-page", "--timing", "off"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let served = Served::start(dir.path(), &args);
    let mut client = served.client();
    let places = client.bytes / u64::from(LARGE);
    let data = vec![7; LARGE as usize];
    let mut draw = Stream::new(3, "large writes");
    let mut write = |count: u64| {
        for _ in 0..count {
            while client.under_way() >= 4 {
                client.receive().expect("an answer");
            }
            let at = draw.below(places) * u64::from(LARGE);
            client.send(command::WRITE, 0, at, LARGE, &data).expect("sent");
        }
    };
    // Pages of memory that it touched for the first time.
    let faults = || {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", served.id())).expect("its state");
        let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[7].parse::<f64>().expect("a count")
    };
    write(4096);
    let before = faults();
    write(1024);
    let each = (faults() - before) / 1024.0;
    assert!(each < 4.0, "{each} of the 32 pages of each write are touched for the first time");
}
