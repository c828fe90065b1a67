//! Goal: a served drive is a virtio disk to virtual machines, and a guest that breaks the rules harms nobody else.
//! Method: the real server; a front end of our own with rings in memory that is shared with it, over the
//! vhost crate's side of the protocol. A plain array knows what the disk must hold.
#![cfg(all(feature = "vhost-user", target_os = "linux"))]

use crate::served;

use std::path::Path;
use std::time::Duration;

use nandle_random::Stream;
use nandle_serve::vhost_user::blk::{QUEUES, kind, status};
use served::guest::{BUFFERS, Guest, INDIRECT, MEMORY, NEXT, WRITE, rings};
use served::{SMALL, Served};
use vm_memory::{Bytes, GuestAddress};

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [sector.to_le_bytes().to_vec(), sectors.to_le_bytes().to_vec(), flags.to_le_bytes().to_vec()].concat()
}

fn start(dir: &Path) -> Served {
    Served::start(dir, &[SMALL, &["--timing", "off", "--vhost-user", "vhost.sock"]].concat())
}

#[test]
fn a_guest_reads_what_was_written_last() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(dir.path());
    let socket = dir.path().join("vhost.sock");
    let mut guest = Guest::connect(&socket);
    let config = guest.config();
    let sectors = u64::from_le_bytes(config[..8].try_into().expect("eight bytes"));
    assert_eq!(sectors * 512, server.client().bytes);
    let (state, name) = guest.ask(kind::ID, 0, &[], 20);
    assert_eq!((state, &name[..7]), (status::OK, &b"nandle\0"[..]));
    let span = 4096_u64;
    let mut disk = vec![0_u8; span as usize * 512];
    let mut draw = Stream::new(11, "vhost");
    for round in 0..400 {
        // Several at a time, on places of their own.
        let mut under_way = vec![];
        for slot in 0..8_u16 {
            let (queue, from) = (usize::from(slot) % QUEUES, u64::from(slot) * 512);
            let count = 1 + draw.below(64) as u32;
            let sector = from + draw.below(512 - u64::from(count));
            let bytes = sector as usize * 512..(sector as usize + count as usize) * 512;
            let indirect = draw.below(2) == 0;
            match draw.below(6) {
                0 | 1 => {
                    let data: Vec<u8> =
                        (0..bytes.len() / 8).flat_map(|_| draw.word().to_le_bytes()).collect();
                    guest.send(queue, slot, kind::WRITE, sector, &data, 0, indirect);
                    disk[bytes].copy_from_slice(&data);
                    under_way.push((queue, slot, None));
                }
                2 => {
                    let body = [range(sector, count, 1), range(sector, 1, 0)].concat();
                    guest.send(queue, slot, kind::ZEROES, 0, &body, 0, indirect);
                    disk[bytes].fill(0);
                    under_way.push((queue, slot, None));
                }
                3 => {
                    guest.send(queue, slot, kind::DISCARD, 0, &range(sector, count, 0), 0, indirect);
                    // Whole sectors of the drive: 8 of ours.
                    let (from, to) = (bytes.start.next_multiple_of(4096), bytes.end / 4096 * 4096);
                    if from < to {
                        disk[from..to].fill(0);
                    }
                    under_way.push((queue, slot, None));
                }
                4 => {
                    guest.send(queue, slot, kind::FLUSH, 0, &[], 0, indirect);
                    under_way.push((queue, slot, None));
                }
                _ => {
                    guest.send(queue, slot, kind::READ, sector, &[], bytes.len() as u32, indirect);
                    under_way.push((queue, slot, Some(bytes)));
                }
            }
        }
        for queue in 0..QUEUES {
            for _ in under_way.iter().filter(|(of, ..)| *of == queue) {
                let (slot, used) = guest.receive(queue);
                let (_, _, read) = under_way.iter().find(|(_, s, _)| *s == slot).expect("one of ours");
                let room = read.as_ref().map_or(0, |bytes| bytes.len() as u32);
                let (state, data) = guest.answer(slot, room);
                assert_eq!((state, used), (status::OK, room + 1), "round {round}, slot {slot}");
                if let Some(bytes) = read {
                    assert!(data == disk[bytes.clone()], "round {round}: read at {bytes:?}");
                }
            }
        }
    }
    assert!(guest.calls.iter().all(|call| call.read().is_ok_and(|n| n > 0)), "the guest was not called");
    // Another transport sees the same bytes; another guest too, after this one has left in the middle of work.
    for slot in 0..16 {
        guest.send(0, slot, kind::READ, 0, &[], 4096, false);
    }
    drop(guest);
    assert!(server.client().read(0, 1 << 20) == disk[..1 << 20]);
    let mut guest = Guest::connect(&socket);
    let (state, data) = guest.ask(kind::READ, 64, &[], 32768);
    assert_eq!(state, status::OK);
    assert!(data == disk[64 * 512..64 * 512 + 32768]);
    drop(guest);
    let said = server.stop();
    assert!(said.contains("trim") && !socket.exists(), "{said}");
}

#[test]
fn linux_finds_a_disk_and_runs_file_systems() {
    if std::env::var_os("NANDLE_GUEST").is_none() {
        return eprintln!("SKIPPED: a virtual machine takes a minute: NANDLE_GUEST=1 runs it");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/vhost.sh");
    let status = std::process::Command::new("bash").args([script, env!("CARGO_BIN_EXE_nandle")]).status();
    // 77: it said why it cannot be run here.
    assert!(matches!(status.expect("bash").code(), Some(0 | 77)));
}

#[test]
fn a_guest_that_breaks_the_rules_harms_nobody() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let server = start(dir.path());
    let socket = dir.path().join("vhost.sock");
    let mut guest = Guest::connect(&socket);
    let end = server.client().bytes / 512;
    for (kind, sector, data, room, expected) in [
        (kind::READ, end, vec![], 512, status::FAILED),
        (kind::READ, u64::MAX, vec![], 512, status::FAILED),
        (kind::READ, 0, vec![], 100, status::FAILED),
        (kind::WRITE, end - 1, vec![1; 1024], 0, status::FAILED),
        (kind::WRITE, 0, vec![1; 100], 0, status::FAILED),
        (kind::DISCARD, 0, range(end, 8, 0), 0, status::FAILED),
        (kind::ZEROES, 0, vec![0; 15], 0, status::FAILED),
        (kind::DISCARD, 0, range(0, 8, 1), 0, status::UNSUPPORTED),
        (77, 0, vec![], 0, status::UNSUPPORTED),
    ] {
        assert_eq!(guest.ask(kind, sector, &data, room).0, expected, "{kind} at {sector}");
    }
    // Chains that make no sense: beyond the memory, in a circle, without a place for the status, too short.
    let table = rings(1).0;
    for descriptor in [
        (u64::MAX - 8, 16, NEXT, 1),
        (BUFFERS, 16, NEXT, 0),
        (BUFFERS, 16, 0, 0),
        (BUFFERS, 3, NEXT, 3),
        (BUFFERS, u32::MAX, NEXT, 2),
        (BUFFERS, 16, INDIRECT, 0),
        (BUFFERS, 16, NEXT, 999),
    ] {
        guest.descriptor(table, descriptor);
        guest.descriptor(table + 16, (BUFFERS + 4096, 513, WRITE, 0));
        guest.descriptor(table + 32, (MEMORY as u64 - 4, u32::MAX, WRITE, 0));
        guest.descriptor(table + 48, (BUFFERS + 4096, 1, WRITE, 0));
        guest.offer(1, 0);
    }
    guest.offer(1, 5000);
    // More entries than the ring has.
    let avail = rings(2).1;
    guest.memory.write_obj(1000_u16, GuestAddress(avail + 2)).expect("within");
    guest.kicks[2].write(1).expect("a kick");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(guest.ask(kind::WRITE, 8, &[9; 4096], 0).0, status::OK);
    drop(guest);
    // Bytes that are no messages.
    let mut draw = Stream::new(12, "hostile");
    for _ in 0..40 {
        use std::io::Write;
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).expect("a connection");
        let bytes: Vec<u8> = (0..draw.below(60)).flat_map(|_| draw.word().to_le_bytes()).collect();
        let _ = stream.write_all(&bytes);
    }
    let mut guest = Guest::connect(&socket);
    assert_eq!(guest.ask(kind::READ, 8, &[], 4096), (status::OK, vec![9; 4096]));
    assert_eq!(server.client().read(4096, 4096), [9; 4096]);
    drop(guest);
    server.stop();
}
