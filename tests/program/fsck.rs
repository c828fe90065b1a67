//! Goal: `nandle fsck` says what a crash left and what was damaged, and changes nothing.
//! Method: an image under a drive with versions, compacted pages and checkpoints, its server killed; it is
//! clean. Then one fault at a time is planted in a copy, each found by name; the file is compared byte by
//! byte before and after.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::served;
use nandle_serve::nbd::wire::command;
use served::{SMALL, Served};

const PAGE_HEAD: usize = 1024;

fn fsck(image: &Path, more: &[&str]) -> Output {
    let before = fs::read(image).expect("the image");
    let out = Command::new(env!("CARGO_BIN_EXE_nandle"))
        .arg("fsck")
        .args(more)
        .arg(image)
        .output()
        .expect("nandle");
    assert!(before == fs::read(image).expect("the image"), "fsck changed the image");
    assert!(!String::from_utf8_lossy(&out.stderr).contains("panicked"), "{out:?}");
    out
}

/// The JSON of a check that must end with `code`.
fn json(image: &Path, code: i32) -> serde_json::Value {
    let out = fsck(image, &["--json"]);
    assert_eq!(out.status.code(), Some(code), "{out:?}");
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn faults(found: &serde_json::Value) -> Vec<String> {
    let list = found["described"].as_array().expect("a list");
    list.iter().map(|fault| fault.as_str().expect("text").to_owned()).collect()
}

/// An image that a killed server left, after enough writes that blocks were collected and erased.
fn image(dir: &Path, more: &[&str], power_cut: bool) -> PathBuf {
    let mut args = SMALL.to_vec();
    args.extend(["--image", "flash.img"]);
    args.extend(more);
    // In real time there is always something under way.
    args.extend(if power_cut { ["--power-cut-after", "1500"] } else { ["--timing", "off"] });
    let mut server = Served::start(dir, &args);
    let nvme = args.contains(&"--nvme-tcp").then(|| server.nvme().to_string());
    let mut client = server.client();
    let size = client.bytes;
    let mut at = 12_345_u64;
    for n in 0..4_000_u64 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if n == 1_400
            && let Some(at) = &nvme
        {
            let out = Command::new(env!("CARGO_BIN_EXE_nandle"))
                .args(["flashalloc", "--to", at, "2000:64"])
                .output()
                .expect("nandle");
            assert!(out.status.success(), "{out:?}");
            while client.under_way() > 0 {
                client.receive().expect("an answer");
            }
            client.flush();
        }
        let length = 4096 * (1 + (at >> 40) % 6);
        let offset = (at >> 16) % ((size - length) / 4096) * 4096;
        let data: Vec<u8> = (0..length).map(|byte| (byte * 7 + n * 13 + offset) as u8 | 1).collect();
        let sent = client.send(command::WRITE, 0, offset, length as u32, &data);
        let due = client.under_way() > if power_cut { 6 } else { 0 };
        if sent.is_err() || due && client.receive().is_err() {
            assert!(power_cut, "the server is gone");
            break;
        }
    }
    if power_cut {
        server.wait();
    } else {
        client.flush();
        server.kill();
    }
    dir.join("flash.img")
}

/// Where the record of each programmed page begins, with its use and its sequence number.
fn pages(bytes: &[u8], slot: usize) -> Vec<(usize, u8, u64)> {
    let begin = (0..bytes.len()).step_by(4096).find(|&at| bytes[at..].starts_with(b"page")).expect("a page");
    let first = begin % slot;
    (first..bytes.len() - slot + 1)
        .step_by(slot)
        .filter(|&at| bytes[at..].starts_with(b"page"))
        .map(|at| (at, bytes[at + 32], u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("8"))))
        .collect()
}

/// Where the copies of the pages' heads begin: behind all page records and the copies of the block records.
fn copies(bytes: &[u8]) -> usize {
    let (blocks, pages) = (160 * 32_usize, 160 * 24);
    let records = (65_536 + blocks).next_multiple_of(4096) + pages * SLOT;
    let copies = (records + blocks).next_multiple_of(4096);
    assert_eq!(bytes.len(), copies + pages * 1024 + 4096, "another geometry");
    copies
}

const WAFLASH: &[&str] = &["--scheme", "waflash", "--set", "recovery.checkpoint_interval=64"];
/// A page of 16 KiB with its head, in units of 4 KiB.
const SLOT: usize = 20480;

#[test]
fn what_a_crash_leaves_is_clean() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let image = image(dir.path(), WAFLASH, false);
    let found = json(&image, 0);
    assert_eq!((&found["clean"], found["faults"].as_u64()), (&true.into(), Some(0)), "{found}");
    let number = |part: &str, key: &str| found[part][key].as_u64().unwrap_or(0);
    for (part, key) in [
        ("file", "pages_data"),
        ("file", "pages_checkpoint"),
        ("recovery", "oob_reads"),
        ("recovery", "checkpoint_reads"),
        ("drive", "sectors_stored"),
        ("drive", "versioned_pages"),
        ("drive", "compacted_pages"),
    ] {
        assert!(number(part, key) > 0, "{part}.{key}: {found}");
    }
    assert_eq!(found["recovery"]["from_checkpoint"], true);
    let text = String::from_utf8(fsck(&image, &[]).stdout).expect("text");
    assert!(text.contains("recovery  from a checkpoint") && text.ends_with("clean\n"), "{text}");

    // While it is served nobody else looks at it.
    let server = Served::start(dir.path(), &["--image", "flash.img"]);
    let out = Command::new(env!("CARGO_BIN_EXE_nandle")).arg("fsck").arg(&image).output().expect("nandle");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("in use by another process"), "{out:?}");
    server.stop();
    json(&image, 0);
}

#[test]
fn torn_pages_areas_and_objects_are_told() {
    let args = ["--scheme", "across+flashalloc", "--set", "op_ratio=2.5", "--nvme-tcp", "127.0.0.1:0"];
    let cut = || {
        let dir = tempfile::tempdir().expect("a temporary directory");
        json(&image(dir.path(), &args, true), 0)
    };
    // A machine that stands still for a moment catches up before the cut: then nothing is under way.
    let torn = |found: &serde_json::Value| found["file"]["pages_torn"].as_u64() > Some(0);
    let found = (0..5).map(|_| cut()).find(torn).expect("something was under way");
    assert!(found["drive"]["areas"].as_u64() > Some(0), "{found}");
    assert_eq!(found["drive"]["objects"].as_u64(), Some(1), "{found}");
    assert_eq!(found["recovery"]["pages_since_checkpoint"].is_null(), found["file"]["pages_checkpoint"] == 0);
}

#[test]
fn planted_damage_is_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let image = image(dir.path(), WAFLASH, false);
    let sound = fs::read(&image).expect("the image");
    let pages = pages(&sound, SLOT);
    assert!(pages.len() > 300, "{} pages", pages.len());
    let newest = pages.iter().map(|page| page.2).max().expect("a page");
    // An old page of data in the middle of a block, with a younger one behind it.
    let first = (65_536 + 160 * 32_usize).next_multiple_of(4096);
    let old = |pair: &&[(usize, u8, u64)]| {
        let middle = (5..15).contains(&((pair[0].0 - first) / SLOT % 24));
        let before = pair[1].0 == pair[0].0 + SLOT && pair[1].2 > pair[0].2;
        pair[0].1 == 1 && pair[0].2 < newest / 2 && middle && before
    };
    let data = pages.windows(2).find(old).expect("a data page")[0].0;
    let copy = dir.path().join("copy.img");
    let plant = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.clone();
        damage(&mut bytes);
        assert!(bytes != sound, "nothing was planted");
        fs::write(&copy, bytes).expect("written");
    };
    let damaged = |what: &[&str]| {
        let found = json(&copy, 1);
        let faults = faults(&found);
        let all = |fault: &String| what.iter().all(|part| fault.contains(part));
        assert!(faults.iter().any(all), "{what:?} is not in {faults:#?}");
        let out = fsck(&copy, &[]);
        assert_eq!(out.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&out.stdout).contains("FAULT"));
        assert!(String::from_utf8_lossy(&out.stderr).contains("found"), "{out:?}");
        found
    };

    // A byte of a page's data.
    plant(&|bytes| bytes[data + PAGE_HEAD + 5_000] ^= 0x11);
    let place = format!("(byte {data} of the file): its checksum is wrong");
    let found = damaged(&[&place, "it held sectors (", "media errors"]);
    assert_eq!((&found["faults"], &found["file"]["pages_damaged"]), (&1.into(), &1.into()), "{found}");
    // A byte of its out-of-band area, in the sequence number, the use, and the mark.
    for at in [18, 32, 1] {
        plant(&|bytes| bytes[data + at] ^= 0x40);
        damaged(&[&format!("(byte {data} of the file): its ")]);
    }
    // Several bytes.
    plant(&|bytes| bytes[data + PAGE_HEAD + 100..data + PAGE_HEAD + 200].fill(0));
    damaged(&[&format!("(byte {data} of the file): its checksum is wrong")]);
    // A page that is gone, from the middle of its block and from its end.
    plant(&|bytes| bytes[data..data + SLOT].fill(0));
    damaged(&[&format!("(byte {data} of the file): its record is gone"), "media errors"]);
    let last = pages.iter().find(|page| page.2 == newest).expect("the newest page").0;
    plant(&|bytes| bytes[last..last + SLOT].fill(0));
    damaged(&[&format!("(byte {last} of the file): its record is gone")]);
    // And its copy with it.
    let copies = copies(&sound);
    let copy_of = |at: usize| copies + (at - first) / SLOT * 1024;
    plant(&|bytes| {
        bytes[data..data + SLOT].fill(0);
        bytes[copy_of(data)..copy_of(data) + 1024].fill(0);
    });
    damaged(&["a page before it is missing without a trace; no drive starts from it"]);
    plant(&|bytes| {
        bytes[data + 5_000] ^= 1;
        bytes[copy_of(data) + 10] ^= 1;
    });
    damaged(&["its record is damaged and so is the copy of its head", "no drive starts from it"]);
    // The copy alone.
    plant(&|bytes| bytes[copy_of(data) + 10] ^= 1);
    damaged(&["the copy of its head is damaged", "nothing is missing"]);
    // The end of the file is gone.
    plant(&|bytes| bytes.truncate(data + SLOT));
    let found = damaged(&["truncated", &format!("{} bytes", data + SLOT), "page records are cut off"]);
    assert_eq!(found["file"]["bytes"].as_u64(), Some((data + SLOT) as u64));
    // The record of a block: damaged, and gone.
    let record =
        (65_536..).step_by(32).take(160).find(|&at| sound[at..].starts_with(b"blck")).expect("a record");
    plant(&|bytes| bytes[record + 12] ^= 2);
    damaged(&["its record is damaged", &format!("byte {record} of"), "nothing is missing"]);
    plant(&|bytes| bytes[record..record + 32].fill(0));
    damaged(&["its record is lost", &format!("byte {record} of"), "nothing is missing"]);
    // And its copy with it.
    let again = copies - (160 * 32_usize).next_multiple_of(4096) + record - 65_536;
    plant(&|bytes| {
        bytes[record + 12] ^= 2;
        bytes[again + 12] ^= 2;
    });
    damaged(&["its record is damaged", "no drive starts from it"]);

    // No image: exit code 2 and one line.
    let refused = |what: &str| {
        let out = fsck(&copy, &[]);
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{message}");
        assert!(message.contains(what) && message.lines().count() == 1, "{message}");
    };
    plant(&|bytes| bytes[60] ^= 1);
    refused("damaged header: its checksum is wrong");
    plant(&|bytes| bytes[3] ^= 1);
    refused("not an image of a nandle device");
    plant(&|bytes| bytes[16] = 9);
    refused("image version 9, this program knows versions 3 and 4");
    plant(&|bytes| bytes.truncate(1000));
    refused("not an image");
    plant(&|bytes| bytes.clear());
    refused("there is nothing in it");
}
