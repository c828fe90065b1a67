//! Any bytes as what kernels ask of a block device: requests by FUSE, ublk and vhost-user, a drive that carries them
//! out, and an array that knows what it holds.
//!
//! `cargo +nightly fuzz run blocks`
#![no_main]

use std::sync::mpsc;

use libfuzzer_sys::fuzz_target;
use nandle_fuzz::small_drive;
use nandle_io::{Op, Status};
use nandle_serve::{Device, Driver, Fault, Io, Options, Timing, fuse, ublk, vhost_user};
use nandle_ublk::uapi::Descriptor;

/// The longest request that is carried out.
const MOST: u64 = 256 << 10;

/// As many of the bytes as there are, up to `n`.
fn some<'a>(from: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (now, rest) = from.split_at(n.min(from.len()));
    *from = rest;
    now
}

fn number(from: &mut &[u8]) -> u64 {
    some(from, 8).iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

/// Requests of one kernel's call.
fn asked(device: &Device, from: &mut &[u8]) -> Vec<Io> {
    let shape = device.shape();
    let how = number(&mut some(from, 1));
    // Most are near: of addresses that are never right there is little to learn.
    let near = |n: u64| if how & 16 == 0 { n % (shape.bytes + 8192) } else { n };
    match how & 3 {
        0 => {
            let (offset, bytes) = (near(number(from)), number(&mut some(from, 4)));
            match how >> 2 & 3 {
                0 => fuse::blk::read(&shape, offset, bytes as u32).into_iter().collect(),
                1 => {
                    let bytes = (bytes % MOST) as usize;
                    let n = fuse::blk::room(&shape, offset, bytes);
                    assert!(n <= bytes && offset.saturating_add(n as u64) <= shape.bytes.max(offset));
                    let data = vec![how as u8 | 1; n];
                    if n == 0 { vec![] } else { vec![Io::write(offset, data)] }
                }
                _ => match fuse::blk::fallocate(&shape, offset, bytes, number(&mut some(from, 4)) as i32) {
                    fuse::blk::Asked::Do(io) => vec![io],
                    fuse::blk::Asked::Done | fuse::blk::Asked::Refuse(_) => vec![],
                },
            }
        }
        1 => {
            let descriptor = Descriptor {
                op_flags: number(&mut some(from, 4)) as u32,
                nr_sectors: number(&mut some(from, 4)) as u32,
                start_sector: near(number(from)),
            };
            match ublk::blk::request(&descriptor) {
                ublk::blk::Asked::Do(io, _) => vec![io],
                ublk::blk::Asked::Store { offset, bytes, fua } => {
                    vec![Io::write(offset, vec![how as u8 | 1; bytes as usize]).fua(fua)]
                }
                ublk::blk::Asked::Refuse(_) => vec![],
            }
        }
        _ => {
            let (length, room) = (number(&mut some(from, 2)) as usize, number(&mut some(from, 4)));
            let mut bytes = some(from, length).to_vec();
            if let Some(sector) = bytes.get_mut(8..16) {
                let near = near(u64::from_le_bytes(sector.try_into().expect("8 bytes")));
                sector.copy_from_slice(&near.to_le_bytes());
            }
            // Data are mostly of whole sectors.
            if how & 4 == 0 {
                bytes.resize(16 + (room % 64) as usize * 512, how as u8 | 1);
            }
            match vhost_user::blk::request(&bytes, room) {
                vhost_user::blk::Asked::Do(ios) => ios,
                vhost_user::blk::Asked::Name | vhost_user::blk::Asked::Refuse(_) => vec![],
            }
        }
    }
}

/// What a request answers, and what it leaves.
fn model(disk: &mut [u8], io: &Io, sector: u64) -> Result<Vec<u8>, Status> {
    if io.op == Op::Flush {
        return Ok(vec![]);
    }
    let end =
        io.offset.checked_add(io.bytes).filter(|&end| end <= disk.len() as u64).ok_or(Status::OutOfRange)?;
    let range = io.offset as usize..end as usize;
    match io.op {
        Op::Read => return Ok(disk[range].to_vec()),
        Op::Write if io.data.is_empty() => disk[range].fill(0),
        Op::Write => disk[range].copy_from_slice(&io.data),
        Op::Trim if io.exact => disk[range].fill(0),
        Op::Trim => {
            let (from, to) = (io.offset.next_multiple_of(sector), end / sector * sector);
            if from < to {
                disk[from as usize..to as usize].fill(0);
            }
        }
        op => unreachable!("no kernel asks for {op:?}"),
    }
    Ok(vec![])
}

fuzz_target!(|data: &[u8]| {
    let options = Options { timing: Timing::Off, ..Options::default() };
    let scheme = if data.len().is_multiple_of(2) { "page" } else { "waflash" };
    let (driver, device) = Driver::start(&small_drive(scheme), None, &options).expect("a drive");
    let running = std::thread::spawn(move || driver.run().expect("it serves"));
    let shape = device.shape();
    let mut disk = vec![0; shape.bytes as usize];
    let mut rest = data;
    while !rest.is_empty() {
        for io in asked(&device, &mut rest) {
            if io.op == Op::Read && io.bytes > MOST {
                continue;
            }
            let expected = model(&mut disk, &io, shape.sector_bytes.into()).map_err(Fault::Drive);
            let what = format!("{:?} of {} bytes at {}", io.op, io.bytes, io.offset);
            let (tell, told) = mpsc::channel();
            device.submit(io, move |outcome| tell.send(outcome).expect("somebody waits"));
            let outcome = told.recv().expect("an answer");
            assert!(outcome == expected, "{what}: {:?}", outcome.map(|data| data.len()));
        }
    }
    device.stop();
    running.join().expect("it ended");
});
