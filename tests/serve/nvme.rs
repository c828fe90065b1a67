//! Goal: a served drive is an NVM subsystem to hosts over TCP, by the specification, and keeps there
//! what it keeps elsewhere.
//! Method: the real server and our own initiator; with NANDLE_GUEST=1 (it takes minutes) Linux's own
//! initiator in a virtual machine, `tests/guest/nvme.sh`.

use crate::served;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use nandle_io::Range;
use nandle_random::Stream;
use nandle_serve::nvme_tcp::host::{self, Host, Options, Queue, blocks, check, entry};
use nandle_serve::nvme_tcp::wire::{Digests, Done, Sqe, Status, feature, op, u16_at, u32_at, u64_at};
use served::{SMALL, Served, temp, with};

const SECTOR: usize = 4096;

fn extent(first: u64, sectors: u64) -> Range {
    Range { first, sectors }
}

fn start(dir: &std::path::Path, args: &[&str]) -> (Served, SocketAddr) {
    let mut server = Served::start(dir, &with(args, &["--nvme-tcp", ":0"]));
    let at = server.nvme();
    (server, at)
}

fn connect(at: SocketAddr) -> Host {
    Host::connect(at, &Options::default()).expect("a subsystem")
}

fn ask(queue: &mut Queue, sqe: Sqe, data: &[u8], bytes: u32) -> Done {
    queue.command(sqe, data, bytes).expect("an answer")
}

fn good(queue: &mut Queue, sqe: Sqe, data: &[u8], bytes: u32) -> Vec<u8> {
    let done = ask(queue, sqe, data, bytes);
    check(&done).unwrap_or_else(|e| panic!("opcode {:02x}h: {e}", sqe.opcode()));
    done.data
}

fn write(queue: &mut Queue, lba: u64, data: &[u8], fua: bool) -> Done {
    let mut sqe = blocks(op::WRITE, lba, (data.len() / SECTOR) as u32);
    sqe.0[51] |= u8::from(fua) << 6;
    ask(queue, sqe, data, 0)
}

fn read(queue: &mut Queue, lba: u64, count: u32) -> Vec<u8> {
    good(queue, blocks(op::READ, lba, count), &[], count * SECTOR as u32)
}

fn log(queue: &mut Queue, page: u8, group: u32, bytes: u32) -> Done {
    let sqe =
        entry(op::GET_LOG_PAGE, u32::MAX, [(bytes / 4 - 1) << 16 | u32::from(page), group << 16, 0, 0, 0, 0]);
    ask(queue, sqe, &[], bytes)
}

fn random(draw: &mut Stream, bytes: usize) -> Vec<u8> {
    (0..bytes / 8).flat_map(|_| draw.word().to_le_bytes()).collect()
}

#[test]
fn commands_do_as_on_a_plain_disk_with_and_without_digests() {
    let dir = temp();
    let (server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut draw = Stream::new(3, "nvme");
    for options in [
        Options::default(),
        Options { digests: Digests { header: true, data: true }, ..Options::default() },
        Options {
            digests: Digests { header: true, data: false },
            no_flow_control: true,
            keep_alive_ms: 60_000,
            ..Options::default()
        },
        Options {
            digests: Digests { header: false, data: true },
            no_flow_control: true,
            ..Options::default()
        },
    ] {
        let mut host = Host::connect(at, &options).expect("a subsystem");
        assert_eq!(host.block_bytes().expect("a namespace"), SECTOR as u32);
        let span = 768;
        let zero = entry(op::WRITE_ZEROES, 1, [0, 0, span - 1, 0, 0, 0]);
        good(&mut host.io, zero, &[], 0);
        let mut disk = vec![0_u8; span as usize * SECTOR];
        for _ in 0..250 {
            // From what fits in the capsule to what takes several PDUs.
            let count = [1, 2, 4, 5, 32, 64, 200][draw.below(7) as usize];
            let lba = draw.below(u64::from(span) - count);
            let range = lba as usize * SECTOR..(lba + count) as usize * SECTOR;
            let count = count as u32;
            match draw.below(6) {
                0 | 1 => {
                    let data = random(&mut draw, range.len());
                    check(&write(&mut host.io, lba, &data, draw.below(2) == 0)).expect("a write");
                    disk[range].copy_from_slice(&data);
                }
                2 => {
                    assert!(read(&mut host.io, lba, count) == disk[range], "read of {count} blocks at {lba}")
                }
                3 => {
                    let sqe = blocks(op::COMPARE, lba, count);
                    good(&mut host.io, sqe, &disk[range.clone()], 0);
                    let mut other = disk[range].to_vec();
                    *other.last_mut().expect("bytes") ^= 1;
                    assert_eq!(ask(&mut host.io, sqe, &other, 0).status, Status::COMPARE_FAILURE);
                }
                4 => {
                    // Two ranges: the blocks, and the first one once more.
                    let mut ranges = vec![];
                    for (blocks, lba) in [(count, lba), (1, lba)] {
                        ranges.extend([0; 4]);
                        ranges.extend(blocks.to_le_bytes());
                        ranges.extend(lba.to_le_bytes());
                    }
                    good(&mut host.io, entry(op::DATASET, 1, [1, 4, 0, 0, 0, 0]), &ranges, 0);
                    disk[range].fill(0);
                }
                _ => {
                    let deallocate = (draw.below(2) as u32) << 25;
                    let mut sqe = blocks(op::WRITE_ZEROES, lba, count);
                    sqe.0[48..52].copy_from_slice(&(deallocate | (count - 1)).to_le_bytes());
                    good(&mut host.io, sqe, &[], 0);
                    disk[range].fill(0);
                }
            }
        }
        good(&mut host.io, entry(op::FLUSH, u32::MAX, [0; 6]), &[], 0);
        good(&mut host.io, blocks(op::VERIFY, 0, span), &[], 0);
        for lba in (0..span).step_by(256) {
            let from = lba as usize * SECTOR;
            assert!(read(&mut host.io, lba.into(), 256) == disk[from..from + 256 * SECTOR]);
        }
    }
    // NBD sees the same disk.
    let mut host = connect(at);
    check(&write(&mut host.io, 7, &[0x5a; SECTOR], true)).expect("a write");
    assert_eq!(server.client().read(7 * SECTOR as u64, 16), [0x5a; 16]);
    server.stop();
}

#[test]
fn many_commands_are_under_way_at_once() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    let mut under_way = HashMap::new();
    for n in 0..30_u64 {
        let data = vec![n as u8 + 1; 32 * SECTOR];
        let cid = host.io.send(blocks(op::WRITE, n * 32, 32), &data, 0).expect("sent");
        under_way.insert(cid, n);
    }
    while !under_way.is_empty() {
        let done = host.io.receive().expect("an answer");
        check(&done).expect("a write");
        assert!(under_way.remove(&done.cid).is_some());
    }
    for n in 0..30 {
        assert!(read(&mut host.io, n * 32, 32).iter().all(|&b| b == n as u8 + 1));
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_status() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    let total = u64_at(&good(&mut host.admin, entry(op::IDENTIFY, 1, [0; 6]), &[], 4096), 0);
    let sector = vec![1; SECTOR];
    let mut expect = |sqe: Sqe, data: &[u8], bytes, status: Status| {
        assert_eq!(ask(&mut host.io, sqe, data, bytes).status, status, "{sqe:?}");
    };
    expect(blocks(op::READ, total, 1), &[], SECTOR as u32, Status::LBA_RANGE);
    expect(blocks(op::READ, u64::MAX, 2), &[], 2 * SECTOR as u32, Status::LBA_RANGE);
    expect(blocks(op::WRITE, total - 1, 2), &[1; 2 * SECTOR], 0, Status::LBA_RANGE);
    expect(blocks(op::WRITE, 0, 2), &sector, 0, Status::SGL_LENGTH);
    expect(blocks(op::READ, 0, 257), &[], 257 * SECTOR as u32, Status::INVALID_FIELD);
    expect(entry(op::READ, 2, [0; 6]), &[], SECTOR as u32, Status::INVALID_NAMESPACE);
    expect(entry(0x55, 1, [0; 6]), &[], 0, Status::INVALID_OPCODE);
    expect(entry(op::FLASHALLOC, 1, [0; 6]), &[0; 16], 0, Status::INVALID_OPCODE);
    expect(entry(op::DATASET, 1, [1, 4, 0, 0, 0, 0]), &[0; 16], 0, Status::SGL_LENGTH);
    expect(entry(op::IO_MANAGEMENT_RECEIVE, 1, [1, 3, 0, 0, 0, 0]), &[], 16, Status::FDP_DISABLED);
    let mut streamed = blocks(op::WRITE, 0, 1);
    streamed.0[50] |= 1 << 4;
    streamed.0[54] = 1;
    expect(streamed, &sector, 0, Status::INVALID_FIELD);
    let mut fused = blocks(op::COMPARE, 0, 1);
    fused.0[1] = 1;
    expect(fused, &sector, 0, Status::INVALID_FIELD);
    // Queues are made by Connect.
    for opcode in [0x00, 0x01, 0x04, 0x05] {
        let sqe = entry(opcode, 0, [1, 0, 0, 0, 0, 0]);
        assert_eq!(ask(&mut host.admin, sqe, &[], 0).status, Status::INVALID_OPCODE);
    }
    assert_eq!(log(&mut host.admin, 0xee, 0, 512).status, Status::INVALID_LOG);
    // From the end of a log on there are zeros, and nothing beyond.
    for (page, size) in [(0x01, 64 * 64), (0x02, 512), (0x05, 4096)] {
        for (offset, status) in [(size, Status::OK), (size + 4, Status::INVALID_FIELD)] {
            let sqe = entry(op::GET_LOG_PAGE, u32::MAX, [page, 0, offset, 0, 0, 0]);
            let done = ask(&mut host.admin, sqe, &[], 4);
            assert_eq!(done.status, status, "{page:02x}h from {offset}");
            assert!(done.data.iter().all(|&byte| byte == 0));
        }
    }
    let short = entry(op::IDENTIFY, 1, [1, 0, 0, 0, 0, 0]);
    assert_eq!(ask(&mut host.admin, short, &[], 512).status, Status::SGL_LENGTH);
    // A queue of a controller that there is not; a name that is not the subsystem's.
    let nqn = host::discover(at, &Options::default()).expect("a name");
    let options = Options::default();
    for (name, queue, controller, wrong) in [
        (&nqn[..], 1, 77, 16 | 1 << 16),
        (&nqn[..], 0, 5, 16 | 1 << 16),
        ("nqn.2014-08.org.nvmexpress:uuid:0", 0, 0xffff, 256 | 1 << 16),
        (&nqn[..], 17, host.admin.controller, 512 | 1 << 16),
    ] {
        let mut queue_ = Queue::open(at, &Options::default()).expect("a connection");
        let done = queue_.connect(name, queue, controller, &options).expect("an answer");
        assert_eq!(done.status, Status::CONNECT_PARAMETERS, "{name} {queue} {controller}");
        assert!(done.result == wrong || queue == 17, "{:x}", done.result);
    }
}

#[test]
fn features_are_as_they_were_set_and_event_requests_are_held() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    // As Linux's struct nvme_id_ns_cs_indep has it: no NVM set, the endurance group, ready.
    let page = good(&mut host.admin, entry(op::IDENTIFY, 1, [8, 0, 0, 0, 0, 0]), &[], 4096);
    assert_eq!((u16_at(&page, 10), u16_at(&page, 12), page[14]), (0, 1, 1));
    let mut get =
        |which: u8| ask(&mut host.admin, entry(op::GET_FEATURES, 0, [which.into(), 0, 0, 0, 0, 0]), &[], 0);
    assert_eq!(get(feature::QUEUES).result, 15 | 15 << 16);
    assert_eq!(get(feature::WRITE_CACHE).result, 1);
    assert_eq!(get(0xd0).status, Status::INVALID_FIELD);
    let set = entry(op::SET_FEATURES, 0, [feature::WRITE_CACHE.into(), 0, 0, 0, 0, 0]);
    good(&mut host.admin, set, &[], 0);
    let get = entry(op::GET_FEATURES, 0, [feature::WRITE_CACHE.into(), 0, 0, 0, 0, 0]);
    assert_eq!(ask(&mut host.admin, get, &[], 0).result, 0);
    for _ in 0..4 {
        host.admin.send(entry(op::ASYNC_EVENT, 0, [0; 6]), &[], 0).expect("sent");
    }
    let fifth = host.admin.send(entry(op::ASYNC_EVENT, 0, [0; 6]), &[], 0).expect("sent");
    let done = host.admin.receive().expect("an answer");
    assert_eq!((done.cid, done.status), (fifth, Status::ASYNC_EVENT_LIMIT));
    assert_eq!(ask(&mut host.admin, entry(op::ABORT, 0, [0; 6]), &[], 0).result, 1);
}

#[test]
fn hosts_are_told_of_failures_and_of_the_end() {
    let dir = temp();
    // Blocks wear out after a few erases, so that the drive soon takes no more writes.
    let worn = with(SMALL, &["--set", "cell.endurance=3", "--timing", "off"]);
    let (server, at) = start(dir.path(), &worn);
    let mut host = connect(at);
    let page = good(&mut host.admin, entry(op::IDENTIFY, 0, [1, 0, 0, 0, 0, 0]), &[], 4096);
    assert_eq!((u32_at(&page, 92) >> 15 & 1, page[262]), (1, 63), "shutdown events, 64 errors");
    // An abort finds a request that is held, and nothing else.
    let held = host.admin.send(entry(op::ASYNC_EVENT, 0, [0; 6]), &[], 0).expect("sent");
    let abort = |cid: u16| entry(op::ABORT, 0, [u32::from(cid) << 16, 0, 0, 0, 0, 0]);
    let other = host.admin.send(abort(held.wrapping_add(9)), &[], 0).expect("sent");
    let done = host.admin.receive().expect("an answer");
    assert_eq!((done.cid, done.result), (other, 1));
    let found = host.admin.send(abort(held), &[], 0).expect("sent");
    let done = host.admin.receive().expect("an answer");
    assert_eq!((done.cid, done.status), (held, Status::ABORTED));
    let done = host.admin.receive().expect("an answer");
    assert_eq!((done.cid, done.status, done.result), (found, Status::OK, 0));
    // Errors are in the log, the newest first.
    let blocks_there = u64_at(&good(&mut host.admin, entry(op::IDENTIFY, 1, [0; 6]), &[], 4096), 0);
    let beyond = ask(&mut host.io, blocks(op::READ, blocks_there, 1), &[], 4096);
    assert_eq!(beyond.status, Status::LBA_RANGE);
    let page = log(&mut host.admin, 1, 0, 128).data;
    assert_eq!((u64_at(&page, 0), u16_at(&page, 8), u16_at(&page, 10)), (1, 1, beyond.cid));
    assert_eq!((u16_at(&page, 12), u64_at(&page, 16)), (Status::LBA_RANGE.0 << 1, blocks_there));
    assert_eq!((u32_at(&page, 24), u64_at(&page, 64)), (1, 0), "the namespace, and no second entry");
    assert_eq!(u64_at(&log(&mut host.admin, 2, 0, 512).data, 176), 1);
    // All warnings, and the shutdown notice.
    let set = entry(op::SET_FEATURES, 0, [feature::ASYNC_EVENTS.into(), 0x80ff, 0, 0, 0, 0]);
    good(&mut host.admin, set, &[], 0);
    let held = host.admin.send(entry(op::ASYNC_EVENT, 0, [0; 6]), &[], 0).expect("sent");
    let mut draw = Stream::new(5, "wear");
    let refused = (0..200_000).find_map(|_| {
        let done = write(&mut host.io, draw.word() % blocks_there, &[7; SECTOR], false);
        (done.status != Status::OK).then_some(done)
    });
    assert_eq!(refused.expect("it wears out").status, Status::READ_ONLY);
    let done = host.admin.receive().expect("an event");
    let (kind, page) = (done.result & 7, done.result >> 16 & 0xff);
    assert_eq!((done.cid, done.status, kind, page), (held, Status::OK, 1, 2), "{done:?}");
    let health = log(&mut host.admin, 2, 0, 512).data;
    assert_ne!(health[0] & 0b1001, 0, "a critical warning");
    assert_eq!(u64_at(&health, 176), 2);
    let page = log(&mut host.admin, 1, 0, 64).data;
    assert_eq!((u64_at(&page, 0), u16_at(&page, 12)), (2, Status::READ_ONLY.0 << 1));
    assert_eq!(u64_at(&log(&mut host.admin, 9, 1, 512).data, 144), 2, "also of the endurance group");
    // The end of the server is the last event; what came before is told first.
    let mut waiting = 2;
    for _ in 0..waiting {
        host.admin.send(entry(op::ASYNC_EVENT, 0, [0; 6]), &[], 0).expect("sent");
    }
    std::thread::sleep(Duration::from_millis(1500));
    let stopping = std::thread::spawn(move || server.stop());
    let mut last = 0;
    while waiting > 0 && last & 7 != 3 {
        last = host.admin.receive().expect("an event").result;
        waiting -= 1;
    }
    assert_eq!(last, 3, "the subsystem shuts down");
    stopping.join().expect("it stops");
}

/// A property of the controller.
fn property(admin: &mut Queue, at: u32) -> u64 {
    let mut get = entry(op::FABRICS, 0, [0, at, 0, 0, 0, 0]);
    get.0[4] = op::PROPERTY_GET;
    let done = ask(admin, get, &[], 0);
    check(&done).expect("a property");
    done.result
}

/// Sets CC.
fn configure(admin: &mut Queue, value: u32) {
    let mut set = entry(op::FABRICS, 0, [0, 0x14, value, 0, 0, 0]);
    set.0[4] = op::PROPERTY_SET;
    good(admin, set, &[], 0);
}

#[test]
fn what_was_answered_outlives_a_normal_shutdown() {
    let dir = temp();
    let args = with(SMALL, &["--image", "v.img", "--ctl", "ctl", "--nvme-tcp", ":0"]);
    let mut server = Served::start(dir.path(), &args);
    let mut host = connect(server.nvme());
    check(&write(&mut host.io, 100, &[7; SECTOR], false)).expect("a write");
    // CSTS.SHST says that it goes on for as long as the flush takes.
    let order = |words: &[&str]| {
        let args = with(&["ctl", "ctl"], words);
        let out = Command::new(served::program()).args(args).current_dir(dir.path()).output();
        assert!(out.expect("nandle starts").status.success(), "{words:?}");
    };
    order(&["latency", "300s", "--of", "flush"]);
    configure(&mut host.admin, 0x0046_4001);
    assert_eq!(property(&mut host.admin, 0x1c), 1 | 1 << 2);
    order(&["clear"]);
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while property(&mut host.admin, 0x1c) != 1 | 2 << 2 {
        assert!(std::time::Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.kill();
    let server = Served::start(dir.path(), &with(SMALL, &["--image", "v.img"]));
    assert_eq!(server.client().read(100 * SECTOR as u64, SECTOR as u32), [7; SECTOR]);
}

#[test]
fn a_reset_takes_settings_and_queues_away() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    let nqn = host::discover(at, &Options::default()).expect("a name");
    let settings = [(feature::WRITE_CACHE, 0, 1), (feature::ASYNC_EVENTS, 0xff, 0)];
    for (which, value, _) in settings {
        good(&mut host.admin, entry(op::SET_FEATURES, 0, [which.into(), value, 0, 0, 0, 0]), &[], 0);
    }
    configure(&mut host.admin, 0);
    // The I/O queue is closed, and made anew by Connect.
    assert_eq!(host.io.socket().read(&mut [0]).expect("closed"), 0);
    configure(&mut host.admin, 0x0046_0001);
    for (which, _, first) in settings {
        let get = entry(op::GET_FEATURES, 0, [which.into(), 0, 0, 0, 0, 0]);
        assert_eq!(ask(&mut host.admin, get, &[], 0).result, first, "feature {which:02x}h");
    }
    let mut io = Queue::open(at, &Options::default()).expect("a connection");
    check(&io.connect(&nqn, 1, host.admin.controller, &Options::default()).expect("an answer"))
        .expect("a queue");
    check(&write(&mut io, 0, &[1; SECTOR], false)).expect("a write");
}

#[test]
fn a_silent_host_loses_its_controller() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let options = Options { keep_alive_ms: 400, ..Options::default() };
    let mut host = Host::connect(at, &options).expect("a subsystem");
    // KAS: the timer is a multiple of a second.
    let page = good(&mut host.admin, entry(op::IDENTIFY, 0, [1, 0, 0, 0, 0, 0]), &[], 4096);
    let get = entry(op::GET_FEATURES, 0, [feature::KEEP_ALIVE.into(), 0, 0, 0, 0, 0]);
    assert_eq!((u16_at(&page, 320), ask(&mut host.admin, get, &[], 0).result), (10, 1000));
    let set = entry(op::SET_FEATURES, 0, [feature::KEEP_ALIVE.into(), 50, 0, 0, 0, 0]);
    good(&mut host.admin, set, &[], 0);
    assert_eq!(ask(&mut host.admin, get, &[], 0).result, 1000);
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(300));
        good(&mut host.admin, entry(op::KEEP_ALIVE, 0, [0; 6]), &[], 0);
    }
    check(&write(&mut host.io, 0, &[1; SECTOR], false)).expect("a write");
    let mut byte = [0];
    // Both queues are closed once the timer has run out.
    assert_eq!(host.io.socket().read(&mut byte).expect("closed"), 0);
    assert_eq!(host.admin.socket().read(&mut byte).expect("closed"), 0);
}

#[test]
fn counters_tell_what_was_written() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    for n in 0..64 {
        check(&write(&mut host.io, n * 4 + 1, &[n as u8; 4 * SECTOR], false)).expect("a write");
    }
    read(&mut host.io, 0, 256);
    good(&mut host.io, entry(op::FLUSH, 1, [0; 6]), &[], 0);
    let mut page = |which, group, bytes| {
        let done = log(&mut host.admin, which, group, bytes);
        check(&done).expect("a log page");
        done.data
    };
    let smart = page(0x02, 0, 512);
    assert_eq!((u64_at(&smart, 48), u64_at(&smart, 64), u64_at(&smart, 80)), (3, 1, 64));
    let ocp = page(0xc0, 0, 512);
    assert!(u64_at(&ocp, 0) >= 64 * 4 * SECTOR as u64, "{}", u64_at(&ocp, 0));
    assert_eq!(u64_at(&ocp, 0) % 16384, 0);
    assert_eq!(u64_at(&ocp, 136), 64, "every write began within a page");
    assert_eq!(ocp[496..500], [0xc5, 0xaf, 0x10, 0x28]);
    assert_eq!(u16_at(&ocp, 128), 0xffff, "there are no capacitors");
    let group = page(0x09, 1, 512);
    assert_eq!((u64_at(&group, 112), u64_at(&group, 80)), (64, 1));
    // Every page that is said to be there is there.
    let pages = page(0x00, 0, 1024);
    for which in (0..=255_u8).filter(|&w| pages[4 * usize::from(w)] & 1 == 1) {
        page(which, u32::from(which == 9), 512);
    }
    let effects = page(0x05, 0, 4096);
    assert_eq!(u32_at(&effects, 1024 + 4), 3);
}

#[test]
fn logs_tell_of_reads_that_were_rebuilt_and_repeated_and_of_how_much_is_left() {
    let dir = temp();
    let mut args = vec!["--device", "demo@1/8", "--timing", "off"];
    let sets = [
        "faults.read_rate=0.5",
        "superblock.parity=8",
        "op_ratio=0.5",
        "timing.read_retry.share=[0.5]",
        "timing.read_retry.ns=50000",
        "cell.endurance=1000",
        "recovery.plp=true",
    ];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let (_server, at) = start(dir.path(), &args);
    let mut host = connect(at);
    // Eight rows of pages, whose stripes are complete.
    for n in 0..256 {
        check(&write(&mut host.io, n * 16, &[n as u8; 16 * SECTOR], false)).expect("a write");
    }
    good(&mut host.io, entry(op::FLUSH, 1, [0; 6]), &[], 0);
    for n in 0..256 {
        ask(&mut host.io, blocks(op::READ, n * 16, 16), &[], 16 * SECTOR as u32);
    }
    let beyond = ask(&mut host.io, blocks(op::READ, 1 << 40, 1), &[], SECTOR as u32);
    assert_eq!(beyond.status, Status::LBA_RANGE);
    let ocp = log(&mut host.admin, 0xc0, 0, 512).data;
    assert!(u64_at(&ocp, 48) > 0, "reads were rebuilt");
    assert!(u64_at(&ocp, 64) > 0, "reads were repeated");
    assert_eq!(u16_at(&ocp, 128), 100, "capacitors do not age");
    // 320 MiB of flash, a thousand times.
    assert_eq!(u64_at(&ocp, 176), 335);
    let group = log(&mut host.admin, 0x09, 1, 512).data;
    assert_eq!(u64_at(&group, 32), 335);
    let smart = log(&mut host.admin, 0x02, 0, 512).data;
    assert_eq!(u64_at(&group, 144), u64_at(&smart, 176), "as many errors in both logs");
    assert!(u64_at(&smart, 176) > 0);
}

#[test]
fn placement_identifiers_reach_their_reclaim_units() {
    let dir = temp();
    let (_server, at) = start(
        dir.path(),
        &with(
            SMALL,
            &["--timing", "off", "--scheme", "fdp", "--set", "streams.count=4", "--set", "op_ratio=1.5"],
        ),
    );
    let mut host = connect(at);
    let status = entry(op::IO_MANAGEMENT_RECEIVE, 1, [1, 16 / 4 + 4 * 32 / 4 - 1, 0, 0, 0, 0]);
    let left = |queue: &mut Queue| {
        let data = good(queue, status, &[], 16 + 4 * 32);
        assert_eq!(u16_at(&data, 14), 4);
        (0..4).map(|n| u64_at(&data, 16 + 32 * n + 8)).collect::<Vec<_>>()
    };
    let whole = left(&mut host.io);
    let placed = |host: &mut Host, lba: u64, handle: u16| {
        let mut sqe = blocks(op::WRITE, lba, 32);
        sqe.0[50] |= 2 << 4;
        sqe.0[54..56].copy_from_slice(&handle.to_le_bytes());
        good(&mut host.io, sqe, &[handle as u8; 32 * SECTOR], 0);
        good(&mut host.io, entry(op::FLUSH, 1, [0; 6]), &[], 0);
    };
    placed(&mut host, 0, 2);
    let now = left(&mut host.io);
    assert_eq!((now[0], now[1], now[3]), (whole[0], whole[1], whole[3]));
    assert_eq!(whole[2] - now[2], 32);
    good(&mut host.io, entry(op::IO_MANAGEMENT_SEND, 1, [1, 0, 0, 0, 0, 0]), &2_u16.to_le_bytes(), 0);
    assert_eq!(left(&mut host.io), whole);
    let wrong =
        ask(&mut host.io, entry(op::IO_MANAGEMENT_SEND, 1, [1, 0, 0, 0, 0, 0]), &9_u16.to_le_bytes(), 0);
    assert_eq!(wrong.status, Status::INVALID_FIELD);
    // An identifier that there is not: the first handle, and an event if they were asked for.
    let events = entry(op::SET_FEATURES, 0, [feature::FDP_EVENTS.into(), 1 << 16, 1, 0, 0, 0]);
    good(&mut host.admin, events, &[3], 0);
    placed(&mut host, 64, 77);
    assert_eq!(whole[0] - left(&mut host.io)[0], 32);
    let log_of = |host: &mut Host, page: u8, host_events: u32, bytes: u32| {
        let dword = (bytes / 4 - 1) << 16 | host_events << 8 | u32::from(page);
        good(&mut host.admin, entry(op::GET_LOG_PAGE, 0, [dword, 1 << 16, 0, 0, 0, 0]), &[], bytes)
    };
    let events = log_of(&mut host, 0x23, 1, 128);
    assert_eq!((u32_at(&events, 0), events[64], u16_at(&events, 66)), (1, 3, 77));
    let configurations = log_of(&mut host, 0x20, 0, 96);
    assert_eq!((u16_at(&configurations, 16 + 8), configurations[16 + 64]), (4, 1));
    assert_eq!(u64_at(&configurations, 16 + 16), whole[0] * SECTOR as u64, "bytes of a reclaim unit");
    let usage = log_of(&mut host, 0x21, 0, 40);
    assert_eq!(u16_at(&usage, 0), 4);
    let statistics = log_of(&mut host, 0x22, 0, 64);
    assert_eq!(u64_at(&statistics, 0), 2 * 32 * SECTOR as u64);
    assert!(u64_at(&statistics, 16) >= u64_at(&statistics, 0));
    let get = entry(op::GET_FEATURES, 0, [feature::FDP.into(), 1, 0, 0, 0, 0]);
    assert_eq!(ask(&mut host.admin, get, &[], 0).result, 1);
}

#[test]
fn streams_are_enabled_by_their_directive() {
    let dir = temp();
    let (_server, at) = start(
        dir.path(),
        &with(
            SMALL,
            &[
                "--timing",
                "off",
                "--scheme",
                "multi-stream",
                "--set",
                "streams.count=4",
                "--set",
                "op_ratio=1.5",
            ],
        ),
    );
    let mut host = connect(at);
    let mut sqe = blocks(op::WRITE, 0, 1);
    sqe.0[50] |= 1 << 4;
    sqe.0[54] = 3;
    assert_eq!(ask(&mut host.io, sqe, &[1; SECTOR], 0).status, Status::INVALID_FIELD);
    good(&mut host.admin, entry(op::DIRECTIVE_SEND, 1, [0, 1, 1 << 8 | 1, 0, 0, 0]), &[], 0);
    let parameters = entry(op::DIRECTIVE_RECEIVE, 1, [7, 1 << 8 | 1, 0, 0, 0, 0]);
    let page = good(&mut host.admin, parameters, &[], 32);
    assert_eq!((u16_at(&page, 0), u32_at(&page, 16)), (3, 4));
    let allocate = entry(op::DIRECTIVE_RECEIVE, 1, [0, 1 << 8 | 3, 9, 0, 0, 0]);
    assert_eq!(ask(&mut host.admin, allocate, &[], 0).result, 3);
    good(&mut host.io, sqe, &[1; SECTOR], 0);
    sqe.0[54] = 4;
    assert_eq!(ask(&mut host.io, sqe, &[1; SECTOR], 0).status, Status::INVALID_FIELD);
}

#[test]
fn objects_are_named_by_the_vendor_commands() {
    let dir = temp();
    let device = ["--timing", "off", "--scheme", "flashalloc", "--set", "op_ratio=1.5"];
    let (_server, at) = start(dir.path(), &with(SMALL, &device));
    let mut host = connect(at);
    check(&host.flashalloc(&[extent(0, 64), extent(128, 64)]).expect("an answer")).expect("an object");
    assert_eq!(host.flashalloc(&[extent(190, 8)]).expect("an answer").status, Status::OVERLAP);
    assert_eq!(host.flashalloc(&[extent(1 << 40, 8)]).expect("an answer").status, Status::LBA_RANGE);
    let query = entry(op::FLASHALLOC_QUERY, 1, [(16 + 8 * 32) / 4 - 1, 0, 0, 0, 0, 0]);
    let live = good(&mut host.io, query, &[], 16 + 8 * 32);
    assert_eq!((u32_at(&live, 0), u32_at(&live, 4)), (1, 2));
    let listed = |n: usize| (u32_at(&live, 16 + 32 * n + 4), u64_at(&live, 16 + 32 * n + 8));
    let mut ranges = [listed(0), listed(1)];
    ranges.sort_unstable();
    assert_eq!(ranges, [(64, 0), (64, 128)]);
    // The paper's firmware: CDW10 the block, CDW14 a length in 4 KiB.
    good(&mut host.io, entry(op::FLASHALLOC_PLAIN, 1, [512, 0, 0, 0, 96, 0]), &[], 0);
    let live = good(&mut host.io, query, &[], 16 + 8 * 32);
    assert_eq!((u32_at(&live, 0), u32_at(&live, 4)), (2, 3));
    // A trim that covers an object ends it.
    let mut ranges = vec![0; 4];
    ranges.extend(96_u32.to_le_bytes());
    ranges.extend(512_u64.to_le_bytes());
    good(&mut host.io, entry(op::DATASET, 1, [0, 4, 0, 0, 0, 0]), &ranges, 0);
    assert_eq!(u32_at(&good(&mut host.io, query, &[], 16 + 8 * 32), 0), 1);
    // Over what an older object has, that one ends; and ended without a new one.
    let renew = |how: u32, at: u64| {
        let mut range = vec![0; 4];
        range.extend(32_u32.to_le_bytes());
        range.extend(at.to_le_bytes());
        (entry(op::FLASHALLOC, 1, [0, how, 0, 0, 0, 0]), range)
    };
    let (sqe, range) = renew(0, 16);
    assert_eq!(ask(&mut host.io, sqe, &range, 0).status, Status::OVERLAP);
    good(&mut host.io, renew(1, 16).0, &range, 0);
    let live = good(&mut host.io, query, &[], 16 + 8 * 32);
    assert_eq!((u32_at(&live, 0), u32_at(&live, 4), u64_at(&live, 24)), (1, 1, 16));
    assert_eq!(ask(&mut host.io, renew(2, 16).0, &range, 0).status, Status::INVALID_FIELD);
    good(&mut host.io, renew(3, 40).0, &renew(3, 40).1, 0);
    assert_eq!(u32_at(&good(&mut host.io, query, &[], 16 + 8 * 32), 0), 0);
    check(&host.flashalloc(&[extent(0, 64)]).expect("an answer")).expect("an object");
    // The same by the command line.
    let nandle = |ranges: &[&str]| {
        let to = at.to_string();
        let args = with(&["flashalloc", "--to", &to], ranges);
        let out = Command::new(env!("CARGO_BIN_EXE_nandle")).args(args).output().expect("it runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert_eq!(nandle(&["1024:64", "2048:8"]).0, Some(0));
    assert_eq!(u32_at(&good(&mut host.io, query, &[], 16 + 8 * 32), 0), 2);
    let (code, said) = nandle(&["1024:1"]);
    assert!(code == Some(1) && said.contains("already"), "{said}");
    let (code, said) = nandle(&["7"]);
    assert!(code == Some(2) && said.contains("expected LBA:LEN"), "{said}");
}

#[test]
fn a_recorded_trace_with_objects_replays_to_the_same_flash_operations() {
    let dir = temp();
    let device = with(SMALL, &["--scheme", "flashalloc", "--set", "op_ratio=1.5"]);
    let more = ["--timing", "off", "--record", "served.csv", "--json", "served.json"];
    let (server, at) = start(dir.path(), &with(&device, &more));
    let mut host = connect(at);
    let mut draw = Stream::new(12, "objects");
    for round in 0..6_u64 {
        let at = 256 * (round % 4);
        let mut trimmed = vec![0; 4];
        trimmed.extend(256_u32.to_le_bytes());
        trimmed.extend(at.to_le_bytes());
        good(&mut host.io, entry(op::DATASET, 1, [0, 4, 0, 0, 0, 0]), &trimmed, 0);
        check(&host.flashalloc(&[extent(at, 128), extent(at + 128, 128)]).expect("an answer"))
            .expect("an object");
        for n in 0..64 {
            check(&write(&mut host.io, at + 4 * n, &[n as u8; 4 * SECTOR], false)).expect("a write");
            check(&write(&mut host.io, 1024 + draw.below(512), &[1; SECTOR], false)).expect("a write");
        }
    }
    server.stop();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let served = json(&std::fs::read_to_string(dir.path().join("served.json")).expect("a summary"));
    let run = with(&with(&["run"], &device), &["--workload", "served.csv", "--json", "-"]);
    let replayed = json(&served::good(env!("CARGO_BIN_EXE_nandle"), &run, dir.path()));
    assert_eq!(served["streams"]["flashalloc_calls"], 6);
    for key in ["flash", "buffer", "gc", "wear", "waf"] {
        assert_eq!(served[key], replayed[key], "{key}");
    }
    assert_eq!(served["streams"]["flashalloc_calls"], replayed["streams"]["flashalloc_calls"]);
}

#[test]
fn what_was_written_with_fua_survives_a_kill() {
    let dir = temp();
    let args = with(SMALL, &["--image", "flash.img", "--timing", "off"]);
    let mut draw = Stream::new(8, "fua");
    let mut durable = HashMap::new();
    for round in 0..4_u64 {
        let (server, at) = start(dir.path(), &args);
        let mut host = connect(at);
        for (&lba, data) in &durable {
            assert!(
                read(&mut host.io, lba, 1) == *data,
                "round {round}: block {lba} is not what was durable"
            );
        }
        let id = server.id().to_string();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        });
        // Each block once a round: what was not acknowledged may be old or new.
        let mut lba = round;
        loop {
            let data = random(&mut draw, SECTOR);
            let mut sqe = blocks(op::WRITE, lba, 1);
            sqe.0[51] |= 1 << 6;
            match host.io.command(sqe, &data, 0) {
                Ok(done) => {
                    check(&done).expect("a write");
                    durable.insert(lba, data);
                }
                Err(_) => {
                    durable.remove(&lba);
                    break;
                }
            }
            lba = (lba + 5) % 1500;
        }
        killer.join().expect("no panic");
        server.kill();
        assert!(durable.len() > 20, "too little load");
    }
}

#[test]
fn hostile_connections_leave_the_others_alone() {
    let dir = temp();
    let (_server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut host = connect(at);
    let mut draw = Stream::new(9, "hostile");
    for round in 0..60 {
        let mut stream = std::net::TcpStream::connect(at).expect("a connection");
        let mut bytes = random(&mut draw, 512);
        if round % 2 == 0 {
            // An honest beginning.
            bytes[..128].fill(0);
            (bytes[0], bytes[2], bytes[4]) = (0, 128, 128);
            (bytes[128], bytes[129], bytes[130], bytes[131]) = (4 + (round % 4) as u8, 0, 72, 0);
            bytes[132..136].copy_from_slice(&(72 + draw.below(60) as u32).to_le_bytes());
        }
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.len() < 4096);
    }
    check(&write(&mut host.io, 0, &[3; SECTOR], false)).expect("a write");
    assert_eq!(read(&mut host.io, 0, 1), [3; SECTOR]);
}

#[test]
fn linux_connects_and_runs_file_systems() {
    if std::env::var_os("NANDLE_GUEST").is_none() {
        eprintln!("SKIPPED: Linux's initiator takes minutes: NANDLE_GUEST=1 runs it");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/nvme.sh");
    let status = Command::new("bash").args([script, env!("CARGO_BIN_EXE_nandle")]).status().expect("bash");
    // 77: it said why it cannot be run here.
    assert!(matches!(status.code(), Some(0 | 77)), "{status}");
}
