//! Goal: the server copies a request's data no more often than it has to: a write of 128 KiB once (to where the write
//! buffer and then the flash have it), a read once.
//! Method: a library written in C stands between the real server and the C library's memcpy, and counts bytes; a client
//! by NBD and hosts by NVMe/TCP write and read 128 KiB at a time once the flash has been written to.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nandle_host::initiator::{Host, Options, blocks, check};
use nandle_host::wire::{Digests, op};

use crate::served;
use served::{SMALL, Served, good, has};

const REQUEST: usize = 128 << 10;
const REQUESTS: u64 = 200;

/// Bytes that the server has copied so far.
fn copied(server: &Served, file: &Path) -> u64 {
    let _ = std::fs::remove_file(file);
    let sent = Command::new("kill").args(["-USR2", &server.id().to_string()]).status().expect("kill");
    assert!(sent.success());
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let (true, Ok(bytes)) = (text.ends_with('\n'), text.trim().parse()) {
            return bytes;
        }
        assert!(Instant::now() < deadline, "no count");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn data_are_copied_as_often_as_documented() {
    if !has("cc") {
        return;
    }
    let temp = tempfile::tempdir().expect("a temporary directory");
    let library = temp.path().join("copies.so").display().to_string();
    let source = format!("{}/tests/served/copies.c", env!("CARGO_MANIFEST_DIR"));
    let how =
        ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", &library, &source];
    good("cc", &how, temp.path());
    let file = temp.path().join("bytes");
    let shown = file.display().to_string();
    let variables = [("LD_PRELOAD", library.as_str()), ("NANDLE_COPIES", shown.as_str())];
    let args = [SMALL, &["--timing", "off", "--nvme-tcp", ":0"]].concat();
    let mut server = Served::start_with(temp.path(), &args, &variables);
    let nvme = server.nvme();
    let mut client = server.client();
    let data: Vec<u8> =
        (0..REQUEST as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
    let places = client.bytes / REQUEST as u64;
    let at = |n: u64| n * 7 % places * REQUEST as u64;
    // `ask` writes at a place, or reads there.
    let judge = |by: &str, ask: &mut dyn FnMut(bool, u64)| {
        // Until all memory that is used again is there.
        for n in 0..4 * places {
            ask(true, at(n));
        }
        let before = copied(&server, &file);
        (0..REQUESTS).for_each(|n| ask(true, at(n)));
        let written = copied(&server, &file);
        (0..REQUESTS).for_each(|n| ask(false, at(n)));
        let read = copied(&server, &file);
        let each = |bytes: u64| bytes as f64 / (REQUESTS * REQUEST as u64) as f64;
        let (writes, reads) = (each(written - before), each(read - written));
        println!("{by}: copied in memory: {writes:.2} times a byte written, {reads:.2} times a byte read");
        // Beside the system's copy between socket and memory. To where it stays. From there.
        assert!((0.9..1.2).contains(&writes), "{by}: {writes} copies of a write");
        assert!((0.9..1.2).contains(&reads), "{by}: {reads} copies of a read");
    };
    judge("NBD", &mut |writes, at| {
        if writes {
            client.write(at, &data);
        } else {
            assert!(client.read(at, REQUEST as u32) == data);
        }
    });
    for digests in [false, true] {
        let digests = Digests { header: digests, data: digests };
        let mut host = Host::connect(nvme, &Options { digests, ..Options::default() }).expect("a subsystem");
        let block = host.block_bytes().expect("a size");
        judge(&format!("NVMe/TCP, {digests:?}"), &mut |writes, at| {
            let (opcode, sent, wanted) =
                if writes { (op::WRITE, &data[..], 0) } else { (op::READ, &[][..], REQUEST as u32) };
            let sqe = blocks(opcode, at / u64::from(block), REQUEST as u32 / block);
            let done = host.io.command(sqe, sent, wanted).expect("an answer");
            check(&done).expect("success");
            assert!(writes || done.data == data);
        });
    }
}
