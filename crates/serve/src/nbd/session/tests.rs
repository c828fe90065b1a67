use super::*;
use nandle_io::Op;
use proptest::prelude::*;

const SHAPE: Shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 12288, queue_depth: 32 };

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = wire::IHAVEOPT.to_be_bytes().to_vec();
    out.extend(number.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

/// Feeds bytes as the session wants them; what is left over is not fed.
fn feed(session: &mut Session, mut bytes: &[u8]) -> Vec<Action> {
    let mut out = vec![];
    while let wanted @ 1.. = session.want()
        && let Some((now, rest)) = bytes.split_at_checked(wanted)
    {
        out.extend(session.take(now.to_vec()));
        bytes = rest;
    }
    out
}

fn sent(actions: &[Action]) -> Vec<u8> {
    let each =
        actions.iter().filter_map(|a| if let Action::Send(bytes) = a { Some(&bytes[..]) } else { None });
    each.flatten().copied().collect()
}

fn go(name: &[u8]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name);
    data.extend([0, 0]);
    data
}

fn transmitting(structured: bool) -> Session {
    let (mut session, _) = Session::new(SHAPE, "test");
    feed(&mut session, &3_u32.to_be_bytes());
    if structured {
        feed(&mut session, &option(option::STRUCTURED_REPLY, &[]));
    }
    feed(&mut session, &option(option::GO, &go(b"")));
    assert!(session.is_transmitting());
    session
}

fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    wire::request_bytes(&Request { flags, command, cookie: 7, offset, length })
}

/// The error of a simple reply.
fn refusal(actions: &[Action]) -> u32 {
    assert!(!actions.iter().any(|a| matches!(a, Action::Submit(..))), "{actions:?}");
    wire::u32_at(&sent(actions), 4).expect("a reply")
}

#[test]
fn the_greeting_is_that_of_the_specification() {
    let (_, greeting) = Session::new(SHAPE, "test");
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn export_name_pads_with_zeros_unless_told_not_to() {
    for (flags, length) in [(1_u32, 8 + 2 + 124), (3, 8 + 2)] {
        let (mut session, _) = Session::new(SHAPE, "test");
        feed(&mut session, &flags.to_be_bytes());
        let out = sent(&feed(&mut session, &option(option::EXPORT_NAME, b"nandle")));
        assert_eq!((out.len(), wire::u64_at(&out, 0)), (length, Some(1 << 30)));
        assert!(session.is_transmitting());
    }
    let (mut session, _) = Session::new(SHAPE, "test");
    feed(&mut session, &3_u32.to_be_bytes());
    assert_eq!(feed(&mut session, &option(option::EXPORT_NAME, b"other")), [Action::Close]);
}

#[test]
fn options_are_answered_one_by_one() {
    let (mut session, _) = Session::new(SHAPE, "test");
    feed(&mut session, &3_u32.to_be_bytes());
    let kind = |actions: &[Action]| {
        let out = sent(actions);
        assert_eq!(wire::u64_at(&out, 0), Some(wire::OPTION_REPLY_MAGIC));
        wire::u32_at(&out, 12)
    };
    assert_eq!(kind(&feed(&mut session, &option(option::LIST, &[]))), Some(reply::SERVER));
    assert_eq!(kind(&feed(&mut session, &option(option::LIST, b"x"))), Some(reply::ERR_INVALID));
    assert_eq!(kind(&feed(&mut session, &option(0x1234, b"data"))), Some(reply::ERR_UNSUP));
    assert_eq!(kind(&feed(&mut session, &option(5, &[]))), Some(reply::ERR_UNSUP), "no TLS");
    assert_eq!(kind(&feed(&mut session, &option(option::INFO, &go(b"other")))), Some(reply::ERR_UNKNOWN));
    assert_eq!(
        kind(&feed(&mut session, &option(option::INFO, b"\0\0\0\x09x\0\0"))),
        Some(reply::ERR_INVALID)
    );
    assert_eq!(kind(&feed(&mut session, &option(77, &vec![0; 100_000]))), Some(reply::ERR_TOO_BIG));
    let info = feed(&mut session, &option(option::INFO, &go(b"nandle")));
    assert!(!session.is_transmitting());
    // Sector, page rounded up to a power of two, 32 MiB.
    let sizes = [512_u32, 16384, 32 << 20].map(u32::to_be_bytes).concat();
    assert!(sent(&info).windows(12).any(|w| w == sizes));
    assert_eq!(kind(&feed(&mut session, &option(option::ABORT, &[]))), Some(reply::ACK));
    assert_eq!(session.want(), 0);
}

#[test]
fn requests_become_io() {
    let mut session = transmitting(false);
    let mut io = |bytes: Vec<u8>| match &feed(&mut session, &bytes)[..] {
        [Action::Submit(_, io)] => io.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(io(request(command::READ, 0, 5, 10)), Io::read(5, 10));
    let mut write = request(command::WRITE, flag::FUA, 4096, 3);
    write.extend(b"abc");
    assert_eq!(io(write), Io::write(4096, b"abc".to_vec()).fua(true));
    assert_eq!(io(request(command::TRIM, 0, 0, u32::MAX)), Io::trim(0, u32::MAX.into()));
    assert_eq!(io(request(command::FLUSH, 0, 0, 0)), Io::flush());
    let zero = |may_trim| Io::zeros(0, 8192, may_trim);
    assert_eq!(io(request(command::WRITE_ZEROES, flag::FAST_ZERO, 0, 8192)), zero(true));
    assert_eq!(io(request(command::WRITE_ZEROES, flag::NO_HOLE, 0, 8192)), zero(false));
}

#[test]
fn nonsense_is_refused_and_the_conversation_goes_on() {
    let mut session = transmitting(false);
    let mut answer = |bytes: Vec<u8>| refusal(&feed(&mut session, &bytes));
    assert_eq!(answer(request(99, 0, 0, 0)), 22, "unknown command");
    assert_eq!(answer(request(command::READ, 0, 0, MOST_BYTES + 1)), 22, "huge read");
    assert_eq!(answer(request(command::READ, flag::NO_HOLE, 0, 1)), 22, "flag of another command");
    assert_eq!(answer(request(command::FLUSH, 0, 0, 5)), 22, "flush with a length");
    assert_eq!(answer(request(command::WRITE_ZEROES, flag::NO_HOLE | flag::FAST_ZERO, 0, 5)), 95);
    let mut write = request(command::WRITE, 0, 0, MOST_BYTES + 1);
    write.extend(vec![0; MOST_BYTES as usize + 1]);
    assert_eq!(answer(write), 22, "huge write");
    assert!(matches!(
        feed(&mut session, &request(command::FLUSH, 0, 0, 0))[..],
        [Action::Submit(_, Io { op: Op::Flush, .. })]
    ));
    assert_eq!(feed(&mut session, &[0; 28]), [Action::Close], "no magic");
}

#[test]
fn answers_have_the_shape_that_was_agreed_on() {
    let ticket = |structured, command| {
        let mut session = transmitting(structured);
        match feed(&mut session, &request(command, 0, 4096, if command == command::FLUSH { 0 } else { 2 }))
            .pop()
        {
            Some(Action::Submit(ticket, _)) => ticket,
            other => panic!("{other:?}"),
        }
    };
    let simple = ticket(false, command::READ).answer(Ok(vec![1, 2]));
    assert_eq!(simple, (b"\x67\x44\x66\x98\0\0\0\0\0\0\0\0\0\0\0\x07".to_vec(), vec![1, 2]));
    let (head, data) = ticket(true, command::READ).answer(Ok(vec![1, 2]));
    assert_eq!(head, b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x07\0\0\0\x0a\0\0\0\0\0\0\x10\0");
    assert_eq!(data, [1, 2]);
    // proto.md: the length of a chunk of data "MUST be at least 9".
    let (head, data) = ticket(true, command::READ).answer(Ok(vec![]));
    assert_eq!(head, b"\x66\x8e\x33\xef\0\x01\0\0\0\0\0\0\0\0\0\x07\0\0\0\0");
    assert!(data.is_empty());
    let (head, data) = ticket(true, command::TRIM).answer(Ok(vec![]));
    assert_eq!((head.len(), data.len(), wire::u16_at(&head, 6)), (20, 0, Some(wire::chunk::NONE)));
    let (head, _) = ticket(true, command::READ).answer(Err(Fault::Image));
    assert_eq!((wire::u16_at(&head, 6), wire::u32_at(&head, 20)), (Some(wire::chunk::ERROR), Some(5)));
    assert_eq!(wire::u32_at(&head, 16), Some(head.len() as u32 - 20));
}

#[test]
fn block_status_is_answered_to_those_who_asked_for_it() {
    let context = |number, queries: &[&[u8]]| {
        let mut data = 6_u32.to_be_bytes().to_vec();
        data.extend(b"nandle");
        data.extend((queries.len() as u32).to_be_bytes());
        for query in queries {
            data.extend((query.len() as u32).to_be_bytes());
            data.extend(*query);
        }
        option(number, &data)
    };
    let kinds = |actions: &[Action]| {
        let out = sent(actions);
        let mut kinds = vec![];
        let mut at = 0;
        while let Some(length) = wire::u32_at(&out, at + 16) {
            kinds.push(wire::u32_at(&out, at + 12).expect("a reply"));
            at += 20 + length as usize;
        }
        kinds
    };
    let (mut session, _) = Session::new(SHAPE, "test");
    feed(&mut session, &3_u32.to_be_bytes());
    let early = feed(&mut session, &context(option::SET_META_CONTEXT, &[CONTEXT]));
    assert_eq!(kinds(&early), [reply::ERR_INVALID], "structured replies come first");
    feed(&mut session, &option(option::STRUCTURED_REPLY, &[]));
    for (number, queries, expected) in [
        (option::LIST_META_CONTEXT, &[][..], &[reply::META_CONTEXT, reply::ACK][..]),
        (option::LIST_META_CONTEXT, &[b"base:".as_slice()][..], &[reply::META_CONTEXT, reply::ACK]),
        (option::LIST_META_CONTEXT, &[b"qemu:".as_slice()][..], &[reply::ACK]),
        (option::SET_META_CONTEXT, &[b"x".as_slice()][..], &[reply::ACK]),
        (option::SET_META_CONTEXT, &[b"x".as_slice(), CONTEXT][..], &[reply::META_CONTEXT, reply::ACK]),
    ] {
        assert_eq!(kinds(&feed(&mut session, &context(number, queries))), expected, "{number} {queries:?}");
    }
    let cut = option(option::SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x05");
    assert_eq!(kinds(&feed(&mut session, &cut)), [reply::ERR_INVALID]);
    feed(&mut session, &context(option::SET_META_CONTEXT, &[CONTEXT]));
    feed(&mut session, &option(option::GO, &go(b"")));
    let status = |session: &mut Session, flags, offset, length| {
        feed(session, &request(command::BLOCK_STATUS, flags, offset, length)).pop().expect("an action")
    };
    match status(&mut session, flag::REQ_ONE, 4096, 8192) {
        Action::Status { ticket, offset: 4096, bytes: 8192, most: 1 } => {
            let answer = ticket.extents(&[(4096, true), (512, false)]);
            assert_eq!(wire::u16_at(&answer, 6), Some(wire::chunk::BLOCK_STATUS));
            let body = [20_u32, 1, 4096, 0, 512, 3].map(u32::to_be_bytes).concat();
            assert_eq!(answer[16..], body);
        }
        other => panic!("{other:?}"),
    }
    for (offset, length) in [(0, 0), (1 << 30, 1), (u64::MAX, 4096)] {
        assert!(matches!(status(&mut session, 0, offset, length), Action::Send(_)), "{offset} {length}");
    }
    // Without the context the command is refused.
    let mut session = transmitting(true);
    assert!(matches!(status(&mut session, 0, 0, 4096), Action::Send(_)));
}

/// Bytes that get past the first gates more often than pure noise does.
fn likely() -> impl Strategy<Value = Vec<u8>> {
    let data = || proptest::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        data(),
        Just(3_u32.to_be_bytes().to_vec()),
        (0_u32..12, data()).prop_map(|(number, data)| option(number, &data)),
        (0_u32..12, any::<u32>()).prop_map(|(number, length)| {
            let mut out = option(number, &[]);
            out[12..].copy_from_slice(&length.to_be_bytes());
            out
        }),
        data().prop_map(|name| option(option::GO, &go(&name))),
        Just(option(option::GO, &go(b""))),
        (0_u16..9, any::<u16>(), any::<u64>(), 0_u32..64).prop_map(|(c, f, o, l)| request(c, f & 31, o, l)),
        (0_u16..9, any::<u16>(), any::<u64>(), any::<u32>()).prop_map(|(c, f, o, l)| request(c, f, o, l)),
    ]
}

proptest! {
    #[test]
    fn whatever_is_sent_is_bounded_and_answered(pieces in proptest::collection::vec(likely(), 0..30), begin: bool) {
        let (mut session, _) = Session::new(SHAPE, "test");
        if begin {
            session = transmitting(true);
        }
        let bytes: Vec<u8> = pieces.concat();
        let mut rest = &bytes[..];
        loop {
            let wanted = session.want();
            prop_assert!(wanted <= MOST_WANTED);
            let Some((now, after)) = rest.split_at_checked(wanted) else { break };
            if wanted == 0 {
                break;
            }
            for action in session.take(now.to_vec()) {
                if let Action::Submit(ticket, io) = action {
                    let _ = crate::plan::steps(io, &SHAPE);
                    let _ = ticket.answer(Err(Fault::Gone));
                }
            }
            rest = after;
        }
    }
}

#[test]
fn failures_differ_where_nbd_can_tell() {
    let of = |command, status| {
        let request = Request { flags: 0, command, cookie: 7, offset: 0, length: 1 };
        let (head, _) = Ticket::of(&request, true).answer(Err(Fault::Drive(status)));
        (wire::u16_at(&head, 6), wire::u32_at(&head, 20))
    };
    let error = |errno: Errno| (Some(wire::chunk::ERROR), Some(errno as u32));
    for status in Status::ALL.into_iter().filter(|&status| status != Status::Ok) {
        let expected = match status {
            Status::OutOfRange => Errno::NoSpc,
            Status::ReadOnly => Errno::Perm,
            Status::MediaError => Errno::Io,
            _ => Errno::NotSup,
        };
        assert_eq!(of(command::WRITE, status), error(expected), "{status}");
    }
    assert_eq!(of(command::READ, Status::OutOfRange), error(Errno::Inval));
}
