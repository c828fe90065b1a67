//! Goal: the judge complains about each kind of wrong answer, and about no right one.
//! Method: completions made by hand, each right one next to wrong ones that differ in one thing.

use super::*;

/// A drive of 64 sectors that never fails and knows no objects.
fn rules() -> Rules {
    Rules {
        sectors: 64,
        protected: false,
        most_ranges: None,
        wears_out: false,
        loses_data: false,
        loses_writes: false,
    }
}

/// An oracle, and the host that tells it what it submits.
struct Host {
    oracle: Oracle,
    id: u64,
}

impl Host {
    fn new(rules: Rules) -> Self {
        Self { oracle: Oracle::new(rules), id: 0 }
    }

    /// Submits a request: its id, and the contents if it is a write.
    fn submit(&mut self, op: Op, lsn: u64, sectors: u64, data: &[u8]) -> (u64, Vec<u8>) {
        self.id += 1;
        let contents = if op == Op::Write { self.oracle.contents(lsn, sectors) } else { data.to_vec() };
        let command = Command { id: self.id, op, lsn, sectors, fua: false, stream: 0, data: &contents };
        self.oracle.submitted(&command);
        (self.id, contents)
    }

    /// A write and its answer: what it wrote.
    fn write(&mut self, lsn: u64, sectors: u64) -> Vec<u8> {
        let (id, contents) = self.submit(Op::Write, lsn, sectors, &[]);
        self.answer(id, Status::Ok);
        contents
    }

    fn answer(&mut self, id: u64, status: Status) {
        self.complete(id, status, &[], &[]);
    }

    fn complete(&mut self, id: u64, status: Status, data: &[u8], unreadable: &[(u64, u64)]) {
        let (data, unreadable) = (data.to_vec(), unreadable.to_vec());
        self.oracle.completed(&Completion { id, at: 0, status, data, unreadable });
    }

    /// The whole drive after a power cut: nothing but `pieces`.
    fn cut(&mut self, pieces: &[(u64, &[u8])]) {
        let mut all = vec![0; 64 * UNIT];
        for (lsn, bytes) in pieces {
            all[*lsn as usize * UNIT..][..bytes.len()].copy_from_slice(bytes);
        }
        self.oracle.power_cut(&all, &[]);
    }

    fn is_content(&self) {
        assert_eq!(self.oracle.verdict(), Ok(()));
    }

    /// There is this complaint, and no other.
    fn complains(&self, fault: &Fault) {
        let found: Vec<_> = self.oracle.complaints().iter().map(|c| c.fault.clone()).collect();
        assert_eq!(found, std::slice::from_ref(fault));
        let (of_contents, other) = (self.oracle.mismatches(), self.oracle.wrong_completions());
        assert_eq!((of_contents, other), if self.oracle.first[0].of_contents() { (1, 0) } else { (0, 1) });
        let said = self.oracle.verdict().expect_err("a complaint");
        assert!(said.contains(&fault.to_string()), "{said}");
    }
}

/// Zeros for so many sectors.
fn nothing(sectors: usize) -> Vec<u8> {
    vec![0; sectors * UNIT]
}

fn status(op: Op, found: Status, expected: Status) -> Fault {
    Fault::Status { op, found, expected: Allowed::only(expected) }
}

#[test]
fn a_request_is_answered_once() {
    let mut host = Host::new(rules());
    let (id, _) = host.submit(Op::Flush, 0, 0, &[]);
    host.answer(id, Status::Ok);
    host.oracle.at_rest();
    host.is_content();
    let mut twice = Host { oracle: host.oracle.clone(), ..host };
    twice.answer(id, Status::Ok);
    twice.complains(&Fault::NotUnderWay { status: Status::Ok });
    host.answer(99, Status::OutOfRange);
    host.complains(&Fault::NotUnderWay { status: Status::OutOfRange });
}

#[test]
fn what_ended_with_the_power_is_not_answered() {
    let mut host = Host::new(rules());
    let (id, _) = host.submit(Op::Write, 0, 1, &[]);
    host.cut(&[]);
    host.oracle.at_rest();
    host.is_content();
    host.answer(id, Status::Ok);
    host.complains(&Fault::NotUnderWay { status: Status::Ok });
}

#[test]
fn a_request_without_an_answer_is_missed() {
    let mut host = Host::new(rules());
    host.submit(Op::Read, 0, 64, &[]);
    host.is_content();
    host.oracle.at_rest();
    host.complains(&Fault::NeverAnswered);
    assert_eq!((host.oracle.checked(), host.oracle.expected()), (0, 64));
}

#[test]
fn ids_under_way_are_unique() {
    let mut host = Host::new(rules());
    let (id, _) = host.submit(Op::Flush, 0, 0, &[]);
    host.id = id - 1;
    host.submit(Op::Flush, 0, 0, &[]);
    host.complains(&Fault::IdInUse);
}

#[test]
fn out_of_range_is_said_exactly_beyond_the_end_or_of_no_length() {
    for op in [Op::Read, Op::Write, Op::Trim] {
        for (lsn, sectors, beyond) in
            [(0, 64, false), (63, 1, false), (0, 0, true), (63, 2, true), (64, 1, true), (u64::MAX, 2, true)]
        {
            let returned = if op == Op::Read && !beyond { sectors as usize } else { 0 };
            let (right, wrong) =
                if beyond { (Status::OutOfRange, Status::Ok) } else { (Status::Ok, Status::OutOfRange) };
            let mut host = Host::new(rules());
            let (id, _) = host.submit(op, lsn, sectors, &[]);
            host.complete(id, right, &nothing(returned), &[]);
            host.is_content();
            let mut host = Host::new(rules());
            let (id, _) = host.submit(op, lsn, sectors, &[]);
            host.answer(id, wrong);
            host.complains(&status(op, wrong, right));
        }
    }
}

#[test]
fn a_legal_request_is_not_refused() {
    let refusals = [
        Status::ReadOnly,
        Status::Overlap,
        Status::TooManyRanges,
        Status::NoCleanBlocks,
        Status::Unsupported,
    ];
    for op in [Op::Read, Op::Write, Op::Trim, Op::Flush] {
        for refusal in refusals.into_iter().chain([Status::MediaError]) {
            let mut host = Host::new(rules());
            let (id, _) = host.submit(op, 0, if op == Op::Flush { 0 } else { 1 }, &[]);
            host.answer(id, refusal);
            host.complains(&status(op, refusal, Status::Ok));
        }
    }
}

#[test]
fn a_drive_that_is_read_only_stays_so() {
    let mut host = Host::new(Rules { wears_out: true, ..rules() });
    let (id, _) = host.submit(Op::Write, 0, 1, &[]);
    host.answer(id, Status::ReadOnly);
    host.is_content();
    let (id, _) = host.submit(Op::Write, 0, 1, &[]);
    host.answer(id, Status::ReadOnly);
    let (id, _) = host.submit(Op::Trim, 0, 1, &[]);
    host.answer(id, Status::Ok);
    host.is_content();
    let mut again = Host { oracle: host.oracle.clone(), id: host.id };
    // The power may find good blocks enough.
    again.cut(&[]);
    again.write(0, 1);
    again.is_content();
    host.write(0, 1);
    host.complains(&status(Op::Write, Status::Ok, Status::ReadOnly));
    // A read is never refused.
    let mut host = Host::new(Rules { wears_out: true, ..rules() });
    let (id, _) = host.submit(Op::Read, 0, 1, &[]);
    host.answer(id, Status::ReadOnly);
    host.complains(&status(Op::Read, Status::ReadOnly, Status::Ok));
}

/// FlashAlloc's ranges.
fn listed(ranges: &[(u64, u32)]) -> Vec<u8> {
    ranges.iter().flat_map(|&(lsn, n)| [&[0; 4][..], &n.to_le_bytes(), &lsn.to_le_bytes()].concat()).collect()
}

#[test]
fn calls_get_the_answers_that_their_ranges_deserve() {
    let known = || Host::new(Rules { most_ranges: Some(2), ..rules() });
    for op in [Op::FlashAlloc, Op::FlashFree] {
        for (host, sectors, data, right) in [
            (Host::new(rules()), 4, vec![], Status::Unsupported),
            (known(), 4, vec![], Status::Ok),
            (known(), 65, vec![], Status::OutOfRange),
            (known(), 0, vec![], Status::OutOfRange),
            (known(), 0, listed(&[(0, 4), (8, 4)]), Status::Ok),
            (known(), 0, listed(&[(0, 4), (8, 4)])[1..].to_vec(), Status::OutOfRange),
            (known(), 0, listed(&[(0, 4), (62, 4)]), Status::OutOfRange),
            (known(), 0, listed(&[(8, 4), (4, 5)]), Status::Overlap),
            (known(), 0, listed(&[(0, 1), (4, 1), (8, 1)]), Status::TooManyRanges),
        ] {
            for answer in rules::ALL {
                let mut host = Host { oracle: host.oracle.clone(), id: 0 };
                let (id, _) = host.submit(op, 0, sectors, &data);
                host.answer(id, answer);
                let no_blocks = answer == Status::NoCleanBlocks && right == Status::Ok;
                if answer == right || no_blocks && op == Op::FlashAlloc {
                    host.is_content();
                } else {
                    assert_eq!(host.oracle.wrong_completions(), 1, "{op:?} {data:?} {answer:?}");
                }
            }
        }
    }
}

#[test]
fn an_overlap_needs_an_object_before() {
    let mut host = Host::new(Rules { most_ranges: Some(2), ..rules() });
    let (id, _) = host.submit(Op::FlashAlloc, 0, 8, &[]);
    host.answer(id, Status::Ok);
    let (id, _) = host.submit(Op::FlashAlloc, 7, 8, &[]);
    host.answer(id, Status::Overlap);
    host.is_content();
    let (id, _) = host.submit(Op::FlashAlloc, 32, 8, &[]);
    host.answer(id, Status::Overlap);
    assert_eq!(host.oracle.wrong_completions(), 1);
    // Nor does a power cut make one.
    host.cut(&[]);
    let (id, _) = host.submit(Op::FlashAlloc, 48, 8, &[]);
    host.answer(id, Status::Overlap);
    assert_eq!(host.oracle.wrong_completions(), 2);
}

#[test]
fn a_read_returns_what_was_asked_for_and_others_nothing() {
    for length in [0, UNIT, 2 * UNIT - 1, 3 * UNIT] {
        let mut host = Host::new(rules());
        let (id, _) = host.submit(Op::Read, 0, 2, &[]);
        host.complete(id, Status::Ok, &vec![0; length], &[]);
        host.complains(&Fault::Length { found: length as u64, expected: 2 * UNIT as u64 });
        assert_eq!((host.oracle.checked(), host.oracle.expected()), (0, 2));
    }
    let mut host = Host::new(rules());
    let (id, contents) = host.submit(Op::Write, 0, 2, &[]);
    host.complete(id, Status::Ok, &contents, &[]);
    host.complains(&Fault::Length { found: 16, expected: 0 });
    let mut host = Host::new(rules());
    let (id, _) = host.submit(Op::Read, 63, 2, &[]);
    host.complete(id, Status::OutOfRange, &nothing(2), &[]);
    host.complains(&Fault::Length { found: 16, expected: 0 });
}

#[test]
fn a_read_returns_the_last_write() {
    let read = |found: &dyn Fn(&mut Host) -> Vec<u8>| {
        let mut host = Host::new(rules());
        host.write(4, 2);
        let bytes = found(&mut host);
        let (id, _) = host.submit(Op::Read, 4, 1, &[]);
        host.complete(id, Status::Ok, &bytes, &[]);
        host
    };
    let last = read(&|host| host.write(4, 1));
    last.is_content();
    assert_eq!((last.oracle.checked(), last.oracle.expected()), (1, 1));
    let expected = (2, 2);
    let older = read(&|host| {
        host.write(4, 1);
        sectors::contents(4..5, 1)
    });
    older.complains(&Fault::Contents { found: Found::Write(1), expected });
    let none = read(&|host| {
        host.write(4, 1);
        nothing(1)
    });
    none.complains(&Fault::Contents { found: Found::Nothing, expected });
    let other = read(&|host| {
        host.write(4, 1);
        host.write(5, 1)
    });
    other.complains(&Fault::Contents { found: Found::Foreign, expected });
    // Under way, old and new are both right.
    read(&|host| host.submit(Op::Write, 4, 1, &[]).1).is_content();
    read(&|host| {
        host.submit(Op::Write, 4, 1, &[]);
        sectors::contents(4..5, 1)
    })
    .is_content();
    // After a trim, nothing is.
    let trim = |host: &mut Host| {
        let (id, _) = host.submit(Op::Trim, 4, 1, &[]);
        host.answer(id, Status::Ok);
    };
    read(&|host| {
        trim(host);
        nothing(1)
    })
    .is_content();
    let trimmed = read(&|host| {
        trim(host);
        sectors::contents(4..5, 1)
    });
    trimmed.complains(&Fault::Contents { found: Found::Write(1), expected });
}

#[test]
fn unreadable_sectors_are_named_in_order_and_only_where_some_may_be_lost() {
    let read = |loses_data: bool, status: Status, unreadable: &[(u64, u64)]| {
        let mut host = Host::new(Rules { loses_data, ..rules() });
        let mut contents = host.write(8, 8);
        contents[UNIT..2 * UNIT].fill(0);
        let (id, _) = host.submit(Op::Read, 8, 8, &[]);
        host.complete(id, status, &contents, unreadable);
        host
    };
    let right = read(true, Status::MediaError, &[(9, 1)]);
    assert_eq!(right.oracle.complaints(), []);
    assert_eq!((right.oracle.checked(), right.oracle.unreadable(), right.oracle.expected()), (7, 1, 8));
    let said = right.oracle.verdict().expect_err("seven of eight");
    assert!(said.contains("only 7 of 8"), "{said}");
    let fault = status(Op::Read, Status::MediaError, Status::Ok);
    read(false, Status::MediaError, &[(9, 1)]).complains(&fault);
    read(true, Status::MediaError, &[]).complains(&Fault::NothingUnreadable);
    read(true, Status::Ok, &[(9, 1)]).complains(&Fault::Unreadable { sectors: 1 });
    for (ranges, wrong) in [
        (&[(7, 1)][..], 1),
        (&[(15, 2)], 2),
        (&[(9, 0)], 0),
        (&[(12, 1), (9, 2)], 2),
        (&[(9, 3), (11, 1)], 1),
        (&[(9, u64::MAX)], u64::MAX),
    ] {
        read(true, Status::MediaError, ranges).complains(&Fault::Unreadable { sectors: wrong });
    }
}

#[test]
fn what_a_drive_was_writing_is_lost_only_if_it_says_so() {
    let lost = Status::MediaError;
    for (op, sectors) in [(Op::Write, 4), (Op::Flush, 0)] {
        // Where no program fails, that is no answer.
        let mut host = Host::new(rules());
        let (id, _) = host.submit(op, 4, sectors, &[]);
        host.answer(id, lost);
        host.complains(&status(op, lost, Status::Ok));

        let fails = || Host::new(Rules { loses_writes: true, ..rules() });
        let mut host = fails();
        host.write(4, 4);
        let (id, _) = host.submit(op, 4, sectors, &[]);
        host.answer(id, lost);
        let (id, _) = host.submit(Op::Read, 4, 4, &[]);
        host.complete(id, lost, &nothing(4), &[(4, 4)]);
        assert_eq!(host.oracle.complaints(), []);
        assert_eq!(host.oracle.unreadable(), 4);

        let mut host = fails();
        host.write(4, 4);
        let (id, _) = host.submit(Op::Read, 4, 4, &[]);
        host.complete(id, lost, &nothing(4), &[(4, 4)]);
        host.complains(&status(Op::Read, lost, Status::Ok));
    }
}

#[test]
fn a_power_cut_takes_nothing_that_was_flushed() {
    let flushed = || {
        let mut host = Host::new(rules());
        let first = host.write(4, 1);
        let (id, _) = host.submit(Op::Flush, 0, 0, &[]);
        // Acknowledged behind the flush: it may survive.
        let second = host.write(4, 1);
        host.answer(id, Status::Ok);
        (host, first, second)
    };
    for second in [false, true] {
        let (mut host, first, newer) = flushed();
        host.cut(&[(4, if second { &newer } else { &first })]);
        host.is_content();
    }
    let (mut host, ..) = flushed();
    host.cut(&[]);
    host.complains(&Fault::Lost { found: Found::Nothing, expected: (1, 3) });
    let (mut host, ..) = flushed();
    host.cut(&[(4, &sectors::contents(4..5, 4))]);
    host.complains(&Fault::Lost { found: Found::Write(4), expected: (1, 3) });
    // What is protected needs no flush.
    let mut host = Host::new(Rules { protected: true, ..rules() });
    host.write(4, 1);
    host.cut(&[]);
    host.complains(&Fault::Lost { found: Found::Nothing, expected: (1, 1) });
}

#[test]
fn a_flush_that_is_refused_leaves_its_work_to_the_next() {
    let mut host = Host::new(Rules { wears_out: true, ..rules() });
    let contents = host.write(4, 1);
    let (id, _) = host.submit(Op::Flush, 0, 0, &[]);
    host.answer(id, Status::ReadOnly);
    let mut early = Host { oracle: host.oracle.clone(), id };
    early.cut(&[]);
    early.is_content();
    let (id, _) = host.submit(Op::Flush, 0, 0, &[]);
    host.answer(id, Status::Ok);
    let mut kept = Host { oracle: host.oracle.clone(), id };
    kept.cut(&[(4, &contents)]);
    kept.is_content();
    host.cut(&[]);
    host.complains(&Fault::Lost { found: Found::Nothing, expected: (1, 1) });
}

#[test]
fn what_a_power_cut_left_is_the_truth() {
    let mut host = Host::new(rules());
    let old = host.write(4, 1);
    host.cut(&[]);
    host.is_content();
    // It was gone, and stays gone.
    let (id, _) = host.submit(Op::Read, 4, 1, &[]);
    host.complete(id, Status::Ok, &old, &[]);
    host.complains(&Fault::Contents { found: Found::Write(1), expected: (2, 2) });
}

#[test]
fn the_whole_drive_is_read_back() {
    for sectors in [0, 63, 65] {
        let mut host = Host::new(rules());
        host.oracle.power_cut(&nothing(sectors), &[]);
        host.complains(&Fault::ReadBack { found: (sectors * UNIT) as u64, expected: 64 * UNIT as u64 });
        assert_eq!((host.oracle.checked(), host.oracle.expected()), (sectors.min(64) as u64, 64));
    }
    for (loses_data, ranges, wrong) in [
        (true, &[(4, 2)][..], None),
        (false, &[(4, 2)], Some(2)),
        (true, &[(4, 2), (3, 1)], Some(1)),
        (true, &[(60, 5)], Some(5)),
    ] {
        let mut host = Host::new(Rules { loses_data, ..rules() });
        host.oracle.power_cut(&nothing(64), ranges);
        match wrong {
            None => host.is_content(),
            Some(sectors) => host.complains(&Fault::Unreadable { sectors }),
        }
    }
}

#[test]
fn a_drive_that_shows_itself_read_only_may_have_lost_what_no_answer_told() {
    for (loses_writes, shown) in [(true, true), (true, false), (false, true)] {
        for cut in [true, false] {
            let mut host = Host::new(Rules { loses_writes, ..rules() });
            host.write(4, 4);
            if shown {
                host.oracle.shows_losses();
            }
            let mut fault = Fault::Unreadable { sectors: 4 };
            if cut {
                host.oracle.power_cut(&nothing(64), &[(4, 4)]);
            } else {
                let (id, _) = host.submit(Op::Read, 4, 4, &[]);
                host.complete(id, Status::MediaError, &nothing(4), &[(4, 4)]);
                fault = status(Op::Read, Status::MediaError, Status::Ok);
            }
            match loses_writes && shown {
                true => assert_eq!((host.oracle.complaints(), host.oracle.unreadable()), (&[][..], 4)),
                false => host.complains(&fault),
            }
        }
    }
}

#[test]
fn requests_beyond_the_drive_take_no_memory() {
    let mut host = Host::new(rules());
    for op in [Op::Read, Op::Write, Op::Trim] {
        let (id, contents) = host.submit(op, 60, 1 << 60, &[]);
        assert!(contents.is_empty());
        assert_eq!(host.oracle.pending[&id].floors.each().count(), 0);
        host.answer(id, Status::OutOfRange);
    }
    host.is_content();
    assert_eq!(host.oracle.touched(0, 64), None);
}

#[test]
fn what_was_touched_is_known() {
    let mut host = Host::new(rules());
    host.write(4, 3);
    let (id, _) = host.submit(Op::Trim, 7, 1, &[]);
    host.answer(id, Status::Ok);
    host.write(63, 1);
    assert_eq!(host.oracle.touched(0, 64), Some((4, 4)));
    assert_eq!(host.oracle.touched(0, 3), Some((4, 3)));
    assert_eq!(host.oracle.touched(7, 64), Some((7, 1)));
    assert_eq!(host.oracle.touched(8, 64), Some((63, 1)));
    assert_eq!(host.oracle.touched(64, 64), None);
}
