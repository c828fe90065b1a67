//! Driving a drive by hand.

use nandle_ssd::{Command, Completion, Op, Ssd};

/// Submits one request and runs until it is complete; its latency in nanoseconds.
pub fn one(ssd: &mut Ssd, op: Op, lsn: u64, sectors: u64) -> u64 {
    let start = ssd.now();
    let mut done = vec![];
    ssd.submit(start, &Command { id: 0, op, lsn, sectors, fua: false, stream: 0, data: &[] });
    while done.is_empty() {
        let next = ssd.next_event().expect("the request is under way");
        ssd.advance(next, &mut done);
    }
    done[0].at - start
}

/// Keeps `depth` requests of `next` outstanding until `count` are complete; the time that took and
/// the latencies.
pub fn closed(
    ssd: &mut Ssd,
    depth: u32,
    count: u64,
    mut next: impl FnMut(u64) -> (Op, u64, u64),
) -> (u64, Vec<u64>) {
    let start = ssd.now();
    let mut submitted_at = vec![0; count as usize];
    let mut latencies = Vec::with_capacity(count as usize);
    let mut done: Vec<Completion> = vec![];
    let mut submitted = 0;
    while latencies.len() < count as usize {
        while submitted < count && ssd.outstanding() < depth {
            let (op, lsn, sectors) = next(submitted);
            submitted_at[submitted as usize] = ssd.now();
            let now = ssd.now();
            ssd.submit(now, &Command { id: submitted, op, lsn, sectors, fua: false, stream: 0, data: &[] });
            submitted += 1;
        }
        let event = ssd.next_event().expect("the device is stuck");
        ssd.advance(event, &mut done);
        latencies.extend(done.drain(..).map(|c| c.at - submitted_at[c.id as usize]));
    }
    (ssd.now() - start, latencies)
}

/// Runs until nothing is under way.
pub fn settle(ssd: &mut Ssd) {
    let mut done = vec![];
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
}

/// Pages programmed in all.
pub fn programs(ssd: &Ssd) -> u64 {
    ssd.flash().counters().programs.iter().flatten().sum()
}

/// A counter of the drive's schemes.
#[allow(dead_code)]
pub fn counter(ssd: &Ssd, name: &str) -> u64 {
    ssd.scheme_counter(name).unwrap_or_else(|| panic!("no scheme counts {name}"))
}
