//! A client that writes at random and keeps for each sector the range from its last durable write to its
//! newest one.

use std::collections::HashMap;
use std::time::Instant;

use nandle_random::Stream;
use nandle_serve::nbd::wire::{command, flag};

use super::Client;

const SECTOR: usize = 4096;
/// Errors of an answer: the server ends; what it has cannot be written or read.
const SHUT_DOWN: u32 = 108;
const IO: u32 = 5;

/// What may be read of each sector: write numbers, 0 = zeros.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    durable: u64,
    newest: u64,
}

struct Pending {
    /// First sector, sectors, write number (the same for a trim).
    wrote: Option<(u64, u64, u64)>,
    fua: bool,
    /// What a flush makes durable.
    covers: Vec<(u64, u64)>,
}

/// Writes at random until the server is gone; keeps what must survive.
pub struct Writer {
    pub client: Client,
    ranges: Vec<Range>,
    /// Answered, not yet durable: sector, number.
    answered: Vec<(u64, u64)>,
    /// Every trim's number: reading zeros stands for one of them.
    trims: HashMap<u64, Vec<u64>>,
    pending: HashMap<u64, Pending>,
    number: u64,
    /// Answers so far.
    pub answers: u64,
    /// Sectors with requests on a connection that was dropped: they may still be carried out.
    limbo: Vec<(u64, u64)>,
    /// The server may fail and say so.
    pub may_fail: bool,
}

fn contents(lsn: u64, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(SECTOR);
    while out.len() < SECTOR {
        out.extend(lsn.to_le_bytes());
        out.extend(number.to_le_bytes());
    }
    out
}

impl Writer {
    pub fn new(client: Client, sectors: u64) -> Self {
        Self {
            client,
            ranges: vec![Range::default(); sectors as usize],
            answered: vec![],
            trims: HashMap::new(),
            pending: HashMap::new(),
            number: 0,
            answers: 0,
            limbo: vec![],
            may_fail: false,
        }
    }

    pub fn work(&mut self, draw: &mut Stream, until: Instant) -> std::io::Result<()> {
        while Instant::now() < until {
            while self.pending.len() < 16 {
                self.send(draw)?;
            }
            self.receive()?;
        }
        Ok(())
    }

    fn send(&mut self, draw: &mut Stream) -> std::io::Result<()> {
        let total = self.ranges.len() as u64;
        let sectors = 1 + draw.below(8);
        let lsn = draw.below(total - sectors);
        let fua = draw.below(6) == 0;
        let kind = draw.below(24);
        // Two writes of one sector at a time have no order that a client could count on.
        if kind > 0 && self.is_open(lsn, sectors) {
            return Ok(());
        }
        let flags = if fua && kind > 0 { flag::FUA } else { 0 };
        let (offset, length) = (lsn * SECTOR as u64, (sectors as usize * SECTOR) as u32);
        let (cookie, pending) = if kind == 0 {
            let covers = std::mem::take(&mut self.answered);
            let cookie = self.client.send(command::FLUSH, 0, 0, 0, &[])?;
            (cookie, Pending { wrote: None, fua: false, covers })
        } else {
            self.number += 1;
            let number = self.number;
            for lsn in lsn..lsn + sectors {
                self.ranges[lsn as usize].newest = number;
            }
            let trim = kind < 4;
            let pending = Pending { wrote: Some((lsn, sectors, number)), fua, covers: vec![] };
            let cookie = if trim {
                for lsn in lsn..lsn + sectors {
                    self.trims.entry(lsn).or_default().push(number);
                }
                self.client.send(command::TRIM, flags, offset, length, &[])?
            } else {
                let data: Vec<u8> = (lsn..lsn + sectors).flat_map(|lsn| contents(lsn, number)).collect();
                self.client.send(command::WRITE, flags, offset, length, &data)?
            };
            (cookie, pending)
        };
        self.pending.insert(cookie, pending);
        Ok(())
    }

    fn receive(&mut self) -> std::io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (cookie, error, _) = self.client.receive()?;
        if error == SHUT_DOWN || error == IO && self.may_fail {
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        assert_eq!(error, 0);
        self.answers += 1;
        let done = self.pending.remove(&cookie).expect("a request of ours");
        for (lsn, number) in done.covers {
            let range = &mut self.ranges[lsn as usize];
            range.durable = range.durable.max(number);
        }
        if let Some((lsn, sectors, number)) = done.wrote {
            for lsn in lsn..lsn + sectors {
                if done.fua {
                    let range = &mut self.ranges[lsn as usize];
                    range.durable = range.durable.max(number);
                } else {
                    self.answered.push((lsn, number));
                }
            }
        }
        Ok(())
    }

    /// Reads everything; how many sectors held something. From now on what was read is durable.
    pub fn judge(&mut self, client: &mut Client, what: &str) -> u64 {
        let (mut held, chunk) = (0, 256);
        for first in (0..self.ranges.len()).step_by(chunk) {
            let n = chunk.min(self.ranges.len() - first);
            let data = client.read((first * SECTOR) as u64, (n * SECTOR) as u32);
            for (i, sector) in data.chunks_exact(SECTOR).enumerate() {
                held += u64::from(self.judge_sector((first + i) as u64, sector, what));
            }
        }
        held
    }

    /// The same of a drive of which something was damaged: how many sectors are errors.
    pub fn judge_damaged(&mut self, client: &mut Client, what: &str) -> u64 {
        let mut lost = 0;
        for lsn in 0..self.ranges.len() as u64 {
            match client.ask(command::READ, 0, lsn * SECTOR as u64, SECTOR as u32, &[]) {
                Ok(sector) => drop(self.judge_sector(lsn, &sector, what)),
                Err(IO) => lost += 1,
                Err(error) => panic!("{what}: sector {lsn}: error {error}"),
            }
        }
        lost
    }

    /// Whether a sector holds something, which must be what it may hold.
    fn judge_sector(&mut self, lsn: u64, sector: &[u8], what: &str) -> bool {
        let range = self.ranges[lsn as usize];
        let number = u64::from_le_bytes(sector[8..16].try_into().expect("eight bytes"));
        if number == 0 {
            assert!(sector.iter().all(|&byte| byte == 0), "{what}: sector {lsn} is torn");
            let trimmed = self.trims.get(&lsn).into_iter().flatten().any(|&t| t >= range.durable);
            assert!(range.durable == 0 || trimmed, "{what}: sector {lsn} lost write {}", range.durable);
            // From now on zeros are what it holds: no older write may come back.
            self.ranges[lsn as usize] = Range::default();
        } else {
            assert!(sector == contents(lsn, number), "{what}: sector {lsn} is torn or another's");
            assert!(
                (range.durable..=range.newest).contains(&number),
                "{what}: sector {lsn} is write {number}, {range:?} allowed"
            );
            self.ranges[lsn as usize] = Range { durable: number, newest: number };
        }
        self.trims.remove(&lsn);
        number != 0
    }

    /// Whether what some of the sectors hold is not settled.
    fn is_open(&self, lsn: u64, sectors: u64) -> bool {
        let pending = self.pending.values().filter_map(|p| p.wrote).map(|(at, n, _)| (at, n));
        pending.chain(self.limbo.iter().copied()).any(|(at, n)| at < lsn + sectors && lsn < at + n)
    }

    /// Waits for what is under way.
    pub fn drain(&mut self) -> std::io::Result<()> {
        while !self.pending.is_empty() {
            self.receive()?;
        }
        Ok(())
    }

    /// Waits for what is under way; a server that is stopped in order keeps all that was answered.
    pub fn finish(&mut self) -> std::io::Result<()> {
        self.drain()?;
        for (lsn, number) in std::mem::take(&mut self.answered) {
            let range = &mut self.ranges[lsn as usize];
            range.durable = range.durable.max(number);
        }
        Ok(())
    }

    /// The server was killed and started again: what was not durable is lost or not ([`Self::judge`]).
    pub fn switched_on_again(&mut self, client: Client) {
        self.client = client;
        self.pending.clear();
        self.answered.clear();
        self.limbo.clear();
    }

    /// Goes on with another connection, whatever was under way on the old one.
    pub fn reconnect(&mut self, client: Client) {
        self.client = client;
        let open = self.pending.drain().filter_map(|(_, p)| p.wrote).map(|(lsn, n, _)| (lsn, n));
        self.limbo.extend(open);
    }

    /// Reads some sectors whose last write was answered: they must hold just that.
    pub fn check(&mut self, draw: &mut Stream, sectors: u32, what: &str) {
        for _ in 0..sectors {
            let lsn = draw.below(self.ranges.len() as u64);
            if self.is_open(lsn, 1) {
                continue;
            }
            let newest = self.ranges[lsn as usize].newest;
            let sector = self.client.read(lsn * SECTOR as u64, SECTOR as u32);
            let trimmed = self.trims.get(&lsn).is_some_and(|trims| trims.contains(&newest));
            let expected = if newest == 0 || trimmed { vec![0; SECTOR] } else { contents(lsn, newest) };
            assert!(sector == expected, "{what}: sector {lsn} does not hold write {newest}");
        }
    }
}
