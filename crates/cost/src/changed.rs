//! What a recording would be if the program, or its file system, did something in another way.

use std::collections::BTreeMap;

use nandle_io::Op;
use nandle_trace::Request;

use crate::ext4::BLOCK;
use crate::kinds::Kind;
use crate::record::Recording;

/// What is done in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    None,
    /// So many flushes in a row are one: what they write several times is written once, and the journal commits once.
    Group(usize),
    /// Files are allocated beforehand and written with `O_DIRECT`: nothing of the file system changes, and a flush is a flush.
    Direct,
    /// Pages are not written elsewhere before they are written in place.
    Once,
}

impl Change {
    /// The recording as it would be; none if nothing would be another.
    pub fn of(self, recording: &Recording) -> Option<Recording> {
        let requests = &recording.requests;
        let changed = match self {
            Self::None => return None,
            Self::Group(flushes) => grouped(requests, flushes),
            Self::Direct => direct(requests),
            Self::Once => once(requests),
        };
        (changed != *requests).then(|| Recording { requests: changed, ..recording.clone() })
    }
}

fn is_write_of(request: &Request, kinds: &[Kind]) -> bool {
    request.op == Op::Write && kinds.iter().any(|&kind| request.stream == kind as u16)
}

/// Blocks that are to be written: where, and the request that wrote them last.
type Pending = BTreeMap<u64, Request>;

fn grouped(requests: &[Request], flushes: usize) -> Vec<Request> {
    let mut out = Vec::with_capacity(requests.len());
    let (mut pending, mut trims): (Pending, Vec<Request>) = (Pending::new(), Vec::new());
    // The largest of the commits: the journal's blocks, and its record.
    let mut commit: Vec<Request> = Vec::new();
    let mut one: Vec<Request> = Vec::new();
    let (mut count, mut last) = (0, None);
    let end = |out: &mut Vec<Request>,
               pending: &mut Pending,
               commit: &mut Vec<Request>,
               trims: &mut Vec<Request>,
               flush: Option<Request>| {
        for request in std::mem::take(pending).into_values() {
            match out.last_mut() {
                Some(before) if joins(before, &request) => before.bytes += request.bytes,
                _ => out.push(request),
            }
        }
        let record = commit.pop_if(|request| request.fua);
        out.append(commit);
        out.extend(flush);
        out.extend(record);
        out.append(trims);
    };
    let size = |commit: &[Request]| commit.iter().map(|request| request.bytes).sum::<u64>();
    for &request in requests {
        let is_record = request.fua && is_write_of(&request, &[Kind::Journal]);
        match request.op {
            Op::Write if request.stream == Kind::Journal as u16 => {
                one.push(request);
                if is_record {
                    if size(&one) > size(&commit) {
                        commit.clone_from(&one);
                    }
                    one.clear();
                    if count >= flushes {
                        end(&mut out, &mut pending, &mut commit, &mut trims, last.take());
                        count = 0;
                    }
                }
            }
            Op::Write if request.offset.is_multiple_of(BLOCK) && request.bytes.is_multiple_of(BLOCK) => {
                for block in 0..request.bytes / BLOCK {
                    let offset = request.offset + block * BLOCK;
                    pending.insert(offset, Request { offset, bytes: BLOCK, ..request });
                }
            }
            Op::Trim => trims.push(request),
            Op::Flush => {
                count += 1;
                last = Some(request);
                // The record of a commit comes behind its flush.
                if count >= flushes && one.is_empty() {
                    end(&mut out, &mut pending, &mut commit, &mut trims, last.take());
                    count = 0;
                }
            }
            _ => out.push(request),
        }
    }
    commit.append(&mut one);
    end(&mut out, &mut pending, &mut commit, &mut trims, last);
    out
}

/// Whether the second goes on where the first ends, and may be one with it.
fn joins(a: &Request, b: &Request) -> bool {
    let like = |r: &Request| (r.op, r.stream, r.object, r.fua);
    like(a) == like(b) && a.op == Op::Write && a.offset + a.bytes == b.offset && a.bytes + b.bytes <= 1 << 20
}

fn direct(requests: &[Request]) -> Vec<Request> {
    let stays = |request: &&Request| !is_write_of(request, &[Kind::Journal, Kind::Metadata]);
    requests.iter().filter(stays).copied().collect()
}

fn once(requests: &[Request]) -> Vec<Request> {
    let mut out: Vec<Request> = Vec::with_capacity(requests.len());
    // Whether anything else was written since the last flush, or such pages.
    let (mut others, mut copies) = (false, false);
    for &request in requests {
        if is_write_of(&request, &[Kind::Doublewrite]) {
            copies = true;
            continue;
        }
        if request.op == Op::Flush {
            // It was there for them alone.
            if copies && !others {
                copies = false;
                continue;
            }
            (others, copies) = (false, false);
        }
        others |= request.op == Op::Write;
        out.push(request);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(op: Op, block: u64, blocks: u64, kind: Kind) -> Request {
        let (offset, bytes) = (block * BLOCK, blocks * BLOCK);
        Request { time_ns: 0, offset, bytes, object: 0, stream: kind as u16, op, fua: false }
    }

    fn flush() -> Request {
        request(Op::Flush, 0, 0, Kind::Other)
    }

    /// A commit of the journal: the flush and the record.
    fn commit(at: u64, blocks: u64) -> [Request; 3] {
        let record = Request { fua: true, ..request(Op::Write, at + blocks, 1, Kind::Journal) };
        [request(Op::Write, at, blocks, Kind::Journal), flush(), record]
    }

    #[test]
    fn flushes_in_a_row_write_a_block_and_a_commit_once() {
        let mut requests = Vec::new();
        for n in 0..4 {
            // The same block of a log four times, another of a table each time.
            requests.push(request(Op::Write, 100, 1, Kind::Log));
            requests.push(request(Op::Write, 200 + n, 1, Kind::Table));
            requests.extend(commit(n * 10, 2 + n % 2));
        }
        let found = grouped(&requests, 4);
        let [journal, flush, record] = commit(10, 3);
        let expected = [
            request(Op::Write, 100, 1, Kind::Log),
            request(Op::Write, 200, 4, Kind::Table),
            journal,
            flush,
            record,
        ];
        assert_eq!(found, expected);
        // One by one all is as it was, but for what a flush orders.
        let bytes = |requests: &[Request]| requests.iter().map(|request| request.bytes).sum::<u64>();
        assert_eq!(bytes(&grouped(&requests, 1)), bytes(&requests));
        // What is not full at the end is written.
        assert_eq!(bytes(&grouped(&requests, 100)), bytes(&expected));
    }

    #[test]
    fn flushes_without_commits_are_grouped_too() {
        let requests: Vec<Request> =
            (0..6).flat_map(|_| [request(Op::Write, 7, 1, Kind::Log), flush()]).collect();
        let found = grouped(&requests, 3);
        let once = [request(Op::Write, 7, 1, Kind::Log), flush()];
        assert_eq!(found, [once, once].concat());
    }

    #[test]
    fn without_the_file_system_data_and_flushes_stay() {
        let data = request(Op::Write, 100, 1, Kind::Log);
        let requests = [&[data][..], &commit(0, 2), &[request(Op::Write, 9, 1, Kind::Metadata)]].concat();
        assert_eq!(direct(&requests), [data, flush()]);
    }

    #[test]
    fn without_copies_their_flush_goes_too() {
        let (copy, page, log) = (
            request(Op::Write, 64, 8, Kind::Doublewrite),
            request(Op::Write, 300, 4, Kind::Table),
            request(Op::Write, 7, 1, Kind::Log),
        );
        assert_eq!(once(&[copy, flush(), page, flush(), log, copy, flush()]), [page, flush(), log, flush()]);
    }
}
