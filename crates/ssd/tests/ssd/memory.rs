//! Goal: a drive that is lent the memory of its requests does the same as one that copies their data, and what was in
//! that memory before is seen by nobody.
//! Method: the same random commands to both, on drives with and without a buffer; data, times and digests are equal. The
//! memory of reads is lent full of a byte that is never written.
//!
//! Goal: a drive takes memory for the sectors that it stores, not for all of its flash, unless a copy elsewhere follows it.
//! Method: a few sectors are written again and again, in whole pages and in parts; when all is on flash, as many are kept.

use nandle_random::Stream;
use nandle_ssd::{Command, Completion, Op, Ssd, Status};

use crate::devices;

/// Bytes that are kept of a sector.
const UNIT: usize = 16;
/// Never written.
const STALE: u8 = 0xee;

#[test]
fn memory_that_is_lent_is_as_good_as_data_that_are_copied() {
    for buffer in [0, 1 << 20] {
        let mut config = devices::base();
        config.buffer.bytes = buffer;
        config.op_ratio = 0.6;
        let new = || Ssd::new(&config, UNIT, 1).expect("a valid device");
        let (mut copies, mut lends) = (new(), new());
        let sectors = copies.layout().logical_sectors;
        let draw = &mut Stream::new(7, "commands");
        let (mut expected, mut got) = (Vec::<Completion>::new(), Vec::new());
        let (mut lent, mut back) = (0, 0);
        for id in 0..20_000_u64 {
            let op = [Op::Write, Op::Write, Op::Read, Op::Read, Op::Trim, Op::Flush][draw.below(6) as usize];
            // Some reach beyond the end, and are refused.
            let (lsn, count) = (draw.below(sectors), 1 + draw.below(40));
            let (lsn, count) = if op == Op::Flush { (0, 0) } else { (lsn, count) };
            let data = vec![1 + (id % 200) as u8; if op == Op::Write { count as usize * UNIT } else { 0 }];
            let at = id * 2_000_000;
            copies.advance(at, &mut expected);
            lends.advance(at, &mut got);
            let command = Command { id, op, lsn, sectors: count, fua: false, stream: 0, data: &data };
            copies.submit(at, &command);
            if op.moves_data() {
                let mut memory =
                    if op == Op::Write { data.clone() } else { vec![STALE; draw.below(2000) as usize] };
                let place = memory.as_ptr();
                lends.submit_with(at, &Command { data: &[], ..command }, &mut memory);
                (lent, back) =
                    (lent + 1, back + u32::from(memory.capacity() > 0 && memory.as_ptr() != place));
            } else {
                lends.submit(at, &command);
            }
        }
        copies.advance(u64::MAX / 2, &mut expected);
        lends.advance(u64::MAX / 2, &mut got);
        assert_eq!(expected.len(), 20_000);
        assert!(expected == got, "with a buffer of {buffer} bytes");
        assert!(got.iter().any(|done| done.status == Status::OutOfRange));
        assert!(got.iter().all(|done| !done.data.contains(&STALE)));
        assert_eq!(copies.digest(), lends.digest());
        // A write's memory comes back with a later command; a read's left with its answer.
        assert!(4 * back > lent, "{back} of {lent}");
    }
}

#[test]
fn sectors_are_kept_while_somebody_may_ask_for_them() {
    for (buffer, slots) in [(0, 1), (1 << 16, 1), (1 << 16, 4)] {
        let mut config = devices::base();
        config.buffer.bytes = buffer;
        config.mapping.unit_bytes = config.geometry.page_bytes / slots;
        let new = || Ssd::new(&config, UNIT, 1).expect("a valid device");
        let (mut forgets, mut keeps) = (new(), new());
        keeps.keep_stale();
        const HOT: u64 = 1000;
        for drive in [&mut forgets, &mut keeps] {
            let draw = &mut Stream::new(7, "commands");
            let mut done = Vec::new();
            for id in 0..5_000_u64 {
                let count = 1 + draw.below(40);
                let lsn = draw.below(HOT - count + 1);
                let data = vec![1 + (id % 200) as u8; count as usize * UNIT];
                let at = id * 2_000_000;
                drive.advance(at, &mut done);
                drive.submit(
                    at,
                    &Command { id, op: Op::Write, lsn, sectors: count, fua: false, stream: 0, data: &data },
                );
            }
            let flush =
                Command { id: 5_000, op: Op::Flush, lsn: 0, sectors: 0, fua: false, stream: 0, data: &[] };
            drive.advance(5_000 * 2_000_000, &mut done);
            drive.submit(5_000 * 2_000_000, &flush);
            drive.advance(u64::MAX / 2, &mut done);
            assert_eq!(done.len(), 5_001);
        }
        assert_eq!(forgets.digest(), keeps.digest());
        assert_eq!(forgets.contents(0, HOT), keeps.contents(0, HOT));
        let kept = |drive: &Ssd| drive.flash().array().kept_sectors() as u64;
        assert_eq!(kept(&forgets), HOT, "with a buffer of {buffer} bytes");
        assert!(kept(&keeps) > HOT + HOT / 2, "{} of {HOT}", kept(&keeps));
    }
}
