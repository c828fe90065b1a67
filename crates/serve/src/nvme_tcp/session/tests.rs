//! Whatever a host sends, a session answers within its bounds; what the specification forbids ends it.

use proptest::prelude::*;

use super::*;
use crate::nvme_tcp::model::Model;
use crate::nvme_tcp::wire::{Encoder, build, put, u64_at};
use crate::{Shape, plan};

const SHAPE: Shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };

const BOTH: Digests = Digests { header: true, data: true };

fn subsystem() -> Subsystem {
    let mut model = Model::plain(SHAPE, "test", "test");
    (model.objects, model.handles, model.streams) = (true, 4, 3);
    Subsystem::new(model)
}

fn session() -> Session {
    Session::new(([127, 0, 0, 1], 4420).into())
}

/// Gives bytes to a session as it wants them; what it says to all of them.
fn feed(session: &mut Session, subsystem: &mut Subsystem, mut bytes: &[u8]) -> Vec<Action> {
    let mut out = vec![];
    while let wanted @ 1.. = session.want() {
        assert!(wanted <= MOST_WANTED, "{wanted}");
        let Some((now, rest)) = bytes.split_at_checked(wanted) else { break };
        bytes = rest;
        session.place().copy_from_slice(now);
        out.extend(session.take(subsystem));
        let granted: u64 = session.transfers.values().map(|t| u64::from(t.sqe.sgl_length())).sum();
        assert!(granted == session.granted && granted <= MOST_GRANTED);
    }
    out
}

fn initialise(digests: u8) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    (bytes[2], bytes[4], bytes[11]) = (128, 128, digests);
    bytes
}

fn capsule(sqe: &[u8; SQE], data: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    build(&mut out, pdu::COMMAND, 0, sqe, data, Digests::default(), 4);
    out
}

fn connect(subsystem: &Subsystem, queue: u16, controller: u16) -> Vec<u8> {
    let mut sqe = [0; SQE];
    (sqe[0], sqe[4], sqe[39], sqe[44]) = (op::FABRICS, op::CONNECT, SGL_IN_CAPSULE, 31);
    put(&mut sqe, 32, &1024_u32.to_le_bytes());
    put(&mut sqe, 42, &queue.to_le_bytes());
    let mut data = [0; 1024];
    put(&mut data, 16, &controller.to_le_bytes());
    put(&mut data, 256, subsystem.model.nqn.as_bytes());
    put(&mut data, 512, b"nqn.2014-08.org.nvmexpress:uuid:test");
    capsule(&sqe, &data)
}

/// Sets CC to this.
fn configure(value: u32) -> Vec<u8> {
    let mut set = [0; SQE];
    (set[0], set[44]) = (op::FABRICS, 0x14);
    put(&mut set, 48, &value.to_le_bytes());
    capsule(&set, &[])
}

/// A subsystem with a controller that is enabled, its admin queue and an I/O queue.
fn connected() -> (Subsystem, Session, Session) {
    let mut subsystem = subsystem();
    let (mut admin, mut io) = (session(), session());
    let bytes = [initialise(0), connect(&subsystem, 0, 0xffff), configure(0x0046_0001)].concat();
    feed(&mut admin, &mut subsystem, &bytes);
    let (id, _) = admin.queue().expect("a controller");
    let bytes = [initialise(0), connect(&subsystem, 1, id)].concat();
    feed(&mut io, &mut subsystem, &bytes);
    assert_eq!(io.queue(), Some((id, 1)));
    (subsystem, admin, io)
}

/// Carries out what can be, as the server would; nothing may panic.
fn carry_out(actions: Vec<Action>) {
    let mut encoder = Encoder::default();
    for action in actions {
        match action {
            Action::Send(out) => drop(encoder.encode(out)),
            Action::Submit(ticket, ios) => {
                let mut outcome = Ok(vec![]);
                for io in ios {
                    outcome = plan::steps(io, &SHAPE).map(|_| vec![]).map_err(Fault::Drive);
                }
                encoder.encode(Out::Done(ticket.done(outcome)));
            }
            Action::Look(..)
            | Action::NextUnits(..)
            | Action::Flush(..)
            | Action::CloseQueues(..)
            | Action::Close => {}
        }
    }
}

/// A command that asks for 256 KiB of data.
fn write_64_blocks(cid: u16) -> [u8; SQE] {
    let mut sqe = [0; SQE];
    (sqe[0], sqe[39], sqe[48]) = (op::WRITE, SGL_TRANSPORT, 63);
    put(&mut sqe, 2, &cid.to_le_bytes());
    put(&mut sqe, 4, &1_u32.to_le_bytes());
    put(&mut sqe, 32, &(64 * 4096_u32).to_le_bytes());
    sqe
}

fn data(cid: u16, tag: u16, from: u32, bytes: usize, last: bool) -> Vec<u8> {
    data_with(Digests::default(), cid, tag, from, bytes, last)
}

fn data_with(digests: Digests, cid: u16, tag: u16, from: u32, bytes: usize, last: bool) -> Vec<u8> {
    let mut body = [0; 16];
    put(&mut body, 0, &cid.to_le_bytes());
    put(&mut body, 2, &tag.to_le_bytes());
    put(&mut body, 4, &from.to_le_bytes());
    put(&mut body, 8, &(bytes as u32).to_le_bytes());
    let mut out = vec![];
    let flags = if last { flag::LAST } else { 0 };
    build(&mut out, pdu::H2C_DATA, flags, &body, &vec![7; bytes], digests, 4);
    out
}

fn fatal(actions: &[Action]) -> Option<(Fatal, u32)> {
    actions.iter().find_map(|action| match action {
        Action::Send(Out::Terminate(fatal, field, _)) => Some((*fatal, *field)),
        _ => None,
    })
}

#[test]
fn large_data_are_asked_for_and_taken_in_order() {
    let (mut subsystem, _, mut io) = connected();
    let said = feed(&mut io, &mut subsystem, &capsule(&write_64_blocks(5), &[]));
    assert_eq!(said, [Action::Send(Out::Ready { cid: 5, tag: 0, bytes: 64 * 4096 })]);
    assert_eq!(feed(&mut io, &mut subsystem, &data(5, 0, 0, 200_000, false)), []);
    let said = feed(&mut io, &mut subsystem, &data(5, 0, 200_000, 62_144, true));
    let [Action::Submit(_, ios)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(ios[..], [Io::write(0, vec![7; 64 * 4096])]);
}

#[test]
fn data_that_were_not_asked_for_end_the_connection() {
    for (bytes, expected) in [
        (data(5, 1, 0, 4096, false), (Fatal::Field, 10)),
        (data(6, 0, 0, 4096, false), (Fatal::Field, 8)),
        (data(5, 0, 4096, 4096, false), (Fatal::Range, 12)),
        (data(5, 0, 0, 300_000, true), (Fatal::Range, 12)),
        (data(5, 0, 0, 4096, true), (Fatal::Field, 1)),
        (initialise(0), (Fatal::Sequence, 0)),
        (vec![9, 0, 24, 0, 24, 0, 0, 0], (Fatal::Field, 0)),
        (vec![4, 0, 72, 0, 255, 255, 255, 255], (Fatal::Field, 4)),
    ] {
        let (mut subsystem, _, mut io) = connected();
        feed(&mut io, &mut subsystem, &capsule(&write_64_blocks(5), &[]));
        let said = feed(&mut io, &mut subsystem, &bytes);
        assert_eq!(fatal(&said), Some(expected));
        assert_eq!((said.last(), io.want()), (Some(&Action::Close), 0));
    }
}

#[test]
fn no_more_is_asked_for_than_there_is_room_for() {
    let (mut subsystem, _, mut io) = connected();
    let mut asked = 0;
    for cid in 0..200 {
        asked += feed(&mut io, &mut subsystem, &capsule(&write_64_blocks(cid), &[])).len();
    }
    assert_eq!(asked as u64, MOST_GRANTED / (64 * 4096));
    // A transfer that is complete makes room for one more.
    let said = feed(&mut io, &mut subsystem, &data(0, 0, 0, 64 * 4096, true));
    assert!(matches!(said[..], [Action::Submit(..), Action::Send(Out::Ready { cid: 64, .. })]), "{said:?}");
}

#[test]
fn digests_are_checked() {
    let (mut subsystem, admin, _) = connected();
    let (id, _) = admin.queue().expect("a controller");
    let mut connect_sqe = [0; SQE];
    let plain = connect(&subsystem, 2, id);
    connect_sqe.copy_from_slice(&plain[HEAD..HEAD + SQE]);
    let mut bytes = vec![];
    build(&mut bytes, pdu::COMMAND, 0, &connect_sqe, &plain[72..], BOTH, 4);
    let end = bytes.len();
    for (at, expected) in [(10, Some((Fatal::HeaderDigest, 0))), (end - 1, None), (100, None)] {
        let mut io = session();
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        let said = feed(&mut io, &mut subsystem, &[initialise(3), wrong].concat());
        assert_eq!(fatal(&said), expected, "byte {at}");
        let transient = |a: &Action| matches!(a, Action::Send(Out::Done(d)) if d.status == Status::TRANSIENT);
        assert_eq!(said.iter().any(transient), expected.is_none(), "byte {at}");
    }
    let mut io = session();
    feed(&mut io, &mut subsystem, &[initialise(3), bytes].concat());
    assert_eq!(io.queue(), Some((id, 2)));
    // Of data that come in two parts, each has its own.
    for wrong in [None, Some(0), Some(1)] {
        let mut command = vec![];
        build(&mut command, pdu::COMMAND, 0, &write_64_blocks(5), &[], BOTH, 4);
        let said = feed(&mut io, &mut subsystem, &command);
        let [Action::Send(Out::Ready { tag, .. })] = said[..] else { panic!("{said:?}") };
        let mut parts = [(0, 200_000, false), (200_000, 62_144, true)]
            .map(|(from, bytes, last)| data_with(BOTH, 5, tag, from, bytes, last));
        if let Some(part) = wrong {
            parts[part][1000] ^= 1;
        }
        let said = feed(&mut io, &mut subsystem, &parts.concat());
        match (&said[..], wrong) {
            ([Action::Submit(_, ios)], None) => assert_eq!(ios[..], [Io::write(0, vec![7; 64 * 4096])]),
            ([Action::Send(Out::Done(done))], Some(_)) => assert_eq!(done.status, Status::TRANSIENT),
            _ => panic!("{said:?}"),
        }
    }
    let mut header = data_with(BOTH, 5, 0, 0, 4096, false);
    header[9] ^= 1;
    assert_eq!(fatal(&feed(&mut io, &mut subsystem, &header)), Some((Fatal::HeaderDigest, 0)));
}

#[test]
fn what_is_refused_is_refused_when_it_is_over_and_where_its_header_says_so() {
    let (mut subsystem, _, mut io) = connected();
    feed(&mut io, &mut subsystem, &capsule(&write_64_blocks(5), &[]));
    let bytes = data(5, 0, 4096, 4096, false);
    assert_eq!(feed(&mut io, &mut subsystem, &bytes[..bytes.len() - 1]), []);
    assert_eq!(io.want(), 4096);
    let said = feed(&mut io, &mut subsystem, &bytes[24..]);
    let [Action::Send(Out::Terminate(kind, 12, offender)), Action::Close] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*kind, &offender[..]), (Fatal::Range, &bytes[..24]));
    // Data that begin where they cannot.
    for (offset, length) in [(0, 100), (26, 100), (20, 100), (104, 100), (255, 255)] {
        let (mut subsystem, _, mut io) = connected();
        let mut bytes = data(5, 0, 0, 231, false);
        bytes.truncate(length as usize);
        (bytes[3], bytes[4]) = (offset, length);
        assert_eq!(fatal(&feed(&mut io, &mut subsystem, &bytes)), Some((Fatal::Field, 3)), "{offset}");
    }
}

/// The error log (figure 206): of each entry status, logical block and namespace, the newest first.
fn error_log(admin: &mut Session, subsystem: &mut Subsystem) -> Vec<(Status, u64, u32)> {
    let mut sqe = [0; SQE];
    (sqe[0], sqe[40]) = (op::GET_LOG_PAGE, 1);
    put(&mut sqe, 32, &4096_u32.to_le_bytes());
    put(&mut sqe, 42, &1023_u16.to_le_bytes());
    let said = feed(admin, subsystem, &capsule(&sqe, &[]));
    let [Action::Send(Out::Done(Done { data, .. }))] = &said[..] else { panic!("{said:?}") };
    let there = data.chunks(64).filter(|entry| u64_at(entry, 0) > 0);
    there.map(|e| (Status(u16_at(e, 12) >> 1), u64_at(e, 16), u32_at(e, 24))).collect()
}

#[test]
fn every_command_that_fails_is_in_the_error_log() {
    let (mut subsystem, mut admin, mut io) = connected();
    let write = |kind: u8, offset: u64, bytes: u32| {
        let mut sqe = write_64_blocks(3);
        (sqe[39], sqe[40]) = (kind, 9);
        put(&mut sqe, 24, &offset.to_le_bytes());
        put(&mut sqe, 32, &bytes.to_le_bytes());
        sqe
    };
    // Ranges whose first is beyond the end: CDW10 and 11 name no logical block.
    let mut ranges = write(SGL_IN_CAPSULE, 0, 16);
    (ranges[0], ranges[40], ranges[44]) = (op::DATASET, 0, 4);
    let mut property = [0; SQE];
    (property[0], property[4], property[44]) = (op::FABRICS, op::PROPERTY_GET, 0x77);
    for (sqe, data, expected) in [
        (write(SGL_IN_CAPSULE, 8192, 4096), 4096, (Status::SGL_OFFSET, 9, 1)),
        (write(SGL_IN_CAPSULE, 0, 8192), 4096, (Status::SGL_LENGTH, 9, 1)),
        (write(0x40, 0, 4096), 4096, (Status::SGL_TYPE, 9, 1)),
        (write(SGL_TRANSPORT, 0, MOST_DATA + 4096), 0, (Status::INVALID_FIELD, 9, 1)),
        (ranges, 16, (Status::LBA_RANGE, 0, 1)),
        (property, 0, (Status::INVALID_FIELD, 0, 0)),
    ] {
        let session = if expected.2 == 0 { &mut admin } else { &mut io };
        let said = feed(session, &mut subsystem, &capsule(&sqe, &vec![0xff; data]));
        let [Action::Send(Out::Done(done))] = &said[..] else { panic!("{said:?}") };
        assert_eq!(done.status, expected.0);
        assert_eq!(error_log(&mut admin, &mut subsystem)[0], expected);
    }
    assert_eq!(error_log(&mut admin, &mut subsystem).len(), 6);
    // Data whose digest is wrong, in the capsule and on request.
    let mut checked = session();
    let (id, _) = admin.queue().expect("a controller");
    let hello = connect(&subsystem, 2, id);
    let first = |bytes: &[u8]| -> [u8; SQE] { *bytes[HEAD..].first_chunk().expect("a command") };
    let with_digests = |sqe: &[u8; SQE], data: &[u8]| {
        let mut out = vec![];
        build(&mut out, pdu::COMMAND, 0, sqe, data, BOTH, 4);
        out
    };
    let bytes = [initialise(3), with_digests(&first(&hello), &hello[HEAD + SQE..])].concat();
    feed(&mut checked, &mut subsystem, &bytes);
    assert_eq!(checked.queue(), Some((id, 2)));
    let mut inside = with_digests(&write(SGL_IN_CAPSULE, 0, 4096), &[0; 4096]);
    *inside.last_mut().expect("a digest") ^= 1;
    feed(&mut checked, &mut subsystem, &inside);
    let said = feed(&mut checked, &mut subsystem, &with_digests(&write_64_blocks(3), &[]));
    let [Action::Send(Out::Ready { tag, .. })] = said[..] else { panic!("{said:?}") };
    let mut outside = data_with(BOTH, 3, tag, 0, 64 * 4096, true);
    *outside.last_mut().expect("a digest") ^= 1;
    feed(&mut checked, &mut subsystem, &outside);
    let log = error_log(&mut admin, &mut subsystem);
    assert_eq!(log.len(), 8);
    assert_eq!(log[..2], [(Status::TRANSIENT, 0, 1), (Status::TRANSIENT, 9, 1)]);
}

#[test]
fn what_cannot_be_read_and_what_may_not_be_stored_have_their_own_words() {
    let (mut subsystem, _, mut io) = connected();
    for (opcode, expected) in [
        (op::READ, 0x281),
        (op::COMPARE, 0x281),
        (op::VERIFY, 0x281),
        (op::WRITE, 0x280),
        (op::WRITE_ZEROES, 0x280),
        (op::FLUSH, 0x280),
    ] {
        let mut sqe = write_64_blocks(3);
        (sqe[0], sqe[39], sqe[48]) = (opcode, SGL_IN_CAPSULE, 0);
        put(&mut sqe, 32, &4096_u32.to_le_bytes());
        let said = feed(&mut io, &mut subsystem, &capsule(&sqe, &[0; 4096]));
        let Ok([Action::Submit(ticket, _)]) = <[Action; 1]>::try_from(said) else { panic!("{opcode}") };
        let done = ticket.done(Err(Fault::Drive(nandle_io::Status::MediaError)));
        assert_eq!(done.status.code(), expected, "{opcode}");
    }
}

#[test]
fn a_queue_from_before_a_reset_is_gone_and_its_end_is_not_that_of_the_next() {
    let (mut subsystem, mut admin, mut io) = connected();
    let (id, _) = admin.queue().expect("a controller");
    let said = feed(&mut admin, &mut subsystem, &configure(0));
    assert!(said.contains(&Action::CloseQueues(id)), "{said:?}");
    feed(&mut admin, &mut subsystem, &configure(0x0046_0001));
    let mut next = session();
    let bytes = [initialise(0), connect(&subsystem, 1, id)].concat();
    feed(&mut next, &mut subsystem, &bytes);
    assert_eq!(next.queue(), Some((id, 1)));
    let mut flush = [0; SQE];
    put(&mut flush, 4, &1_u32.to_le_bytes());
    let said = feed(&mut io, &mut subsystem, &capsule(&flush, &[]));
    assert_eq!(said, [Action::Send(Out::Done(Done::new(0, Status::SEQUENCE)))]);
    subsystem.left(id, 1, io.resets());
    // The number is taken still.
    let mut third = session();
    let bytes = [initialise(0), connect(&subsystem, 1, id)].concat();
    let said = feed(&mut third, &mut subsystem, &bytes);
    assert!(matches!(&said[..], [_, Action::Send(Out::Done(d))] if d.status == Status::SEQUENCE), "{said:?}");
    let said = feed(&mut next, &mut subsystem, &capsule(&flush, &[]));
    assert!(matches!(said[..], [Action::Submit(..)]), "{said:?}");
}

#[test]
fn a_shutdown_is_complete_with_its_flush_unless_that_fails() {
    let (mut subsystem, mut admin, _) = connected();
    let (id, _) = admin.queue().expect("a controller");
    let mut get = [0; SQE];
    (get[0], get[4], get[44]) = (op::FABRICS, op::PROPERTY_GET, 0x1c);
    let status = |admin: &mut Session, subsystem: &mut Subsystem| {
        let said = feed(admin, subsystem, &capsule(&get, &[]));
        let [Action::Send(Out::Done(done))] = &said[..] else { panic!("{said:?}") };
        done.result
    };
    // CSTS: bit 0 ready, bit 1 fatal, bits 3:2 shutdown status.
    for (good, after) in [(true, 0b1001), (false, 0b0111)] {
        let said = feed(&mut admin, &mut subsystem, &configure(0x0046_4001));
        assert_eq!(said[0], Action::Flush(id));
        assert_eq!(status(&mut admin, &mut subsystem), 0b0101);
        subsystem.flushed(id, good);
        assert_eq!(status(&mut admin, &mut subsystem), after);
        feed(&mut admin, &mut subsystem, &configure(0));
        feed(&mut admin, &mut subsystem, &configure(0x0046_0001));
        assert_eq!(status(&mut admin, &mut subsystem), 1);
    }
    // An abrupt one leaves what is there.
    let said = feed(&mut admin, &mut subsystem, &configure(0x0046_8001));
    assert_eq!((said.len(), status(&mut admin, &mut subsystem)), (1, 0b1001));
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut subsystem = subsystem();
        carry_out(feed(&mut session(), &mut subsystem, &bytes));
    }

    #[test]
    fn any_commands_are_survived(
        sqes in prop::collection::vec((any::<[u8; 32]>(), any::<[u8; 32]>(), 0..64_u8, any::<bool>()), 1..40),
        data in prop::collection::vec(any::<u8>(), 0..600),
        to_admin: bool,
    ) {
        let (mut subsystem, mut admin, mut io) = connected();
        let session = if to_admin { &mut admin } else { &mut io };
        for (first, second, opcode, sensible) in sqes {
            let mut sqe = [0; SQE];
            sqe[..32].copy_from_slice(&first);
            sqe[32..].copy_from_slice(&second);
            if sensible {
                // A known opcode, the namespace, few bytes and blocks.
                let known = [opcode & 0x1f, opcode & 0x1f, 0xc1, 0xc2];
                (sqe[0], sqe[1]) = (known[usize::from(opcode >> 4) % 4], 0x40);
                put(&mut sqe, 4, &1_u32.to_le_bytes());
                put(&mut sqe, 33, &[0; 3]);
                put(&mut sqe, 43, &[0; 5]);
                sqe[39] = if opcode & 1 == 0 { SGL_IN_CAPSULE } else { SGL_TRANSPORT };
            }
            carry_out(feed(session, &mut subsystem, &capsule(&sqe, &data)));
        }
    }
}
