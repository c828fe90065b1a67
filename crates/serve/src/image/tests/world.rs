//! A drive under random load in an image, and a client that knows what every sector may hold.

use std::collections::HashMap;
use std::path::Path;

use nandle_lab::config::Drive;
use nandle_random::Stream;
use nandle_ssd::nand::Silicon;
use nandle_ssd::{Command, Op, Ssd, Status};

use super::disk::Disk;
use crate::Error;
use crate::image::{self, How, Image, Opened, Unfinished, read_header};

const SECTOR: usize = 4096;

/// What may be read of each sector: numbers of writes, 0 = zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    pub durable: u64,
    pub newest: u64,
    /// It was found to be unreadable.
    pub gone: bool,
}

/// What a client remembers.
#[derive(Clone, Default)]
pub struct Client {
    pub ranges: Vec<Range>,
    /// Each sector's trims: reading zeros stands for one of them.
    trims: HashMap<u64, Vec<u64>>,
    /// Answered, not yet durable.
    answered: Vec<(u64, u64)>,
    number: u64,
}

/// What is under way: the sectors that are changed, whether the answer makes them durable, and what a flush covers.
struct Pending {
    wrote: Option<(u64, u64, u64)>,
    fua: bool,
    covers: Vec<(u64, u64)>,
}

pub struct World {
    pub drive: Drive,
    pub disk: Disk,
    pub client: Client,
    pub how: How,
    pub draw: Stream,
    /// What was durable, by how many steps the disk had done, if its steps are kept.
    pub promises: Vec<(usize, Vec<u64>)>,
}

fn contents(lsn: u64, number: u64) -> Vec<u8> {
    [lsn.to_le_bytes(), number.to_le_bytes()].concat().repeat(SECTOR / 16)
}

/// What was found when an image was switched on.
#[derive(Debug, Default)]
pub struct Found {
    pub damage: usize,
    pub unreadable: u64,
}

impl World {
    pub fn new(drive: Drive, how: How, seed: u64) -> Self {
        let ranges = vec![Range::default(); drive.layout.logical_sectors as usize];
        Self {
            drive,
            disk: Disk::default(),
            client: Client { ranges, ..Client::default() },
            how,
            draw: Stream::new(seed, "world"),
            promises: vec![],
        }
    }

    /// A new drive in a new image.
    pub fn create(&mut self) -> (Ssd, Image) {
        let mut ssd = Ssd::new(&self.drive.config, SECTOR, 1).expect("a drive");
        ssd.keep_changes();
        ssd.keep_stale();
        let opened = image::create(
            Box::new(self.disk.clone()),
            Path::new("disk"),
            &self.drive,
            self.how,
            Unfinished::default(),
        );
        let image =
            opened.expect("a new image").image.filled(&self.drive, 1, ssd.flash().array()).expect("written");
        (ssd, image)
    }

    pub fn open(&self, damaged_ok: bool) -> Result<Opened, Error> {
        let header = read_header(&self.disk).expect("read").map_err(Error::Input)?;
        let how = How { damaged_ok, ..self.how };
        image::open_in(Box::new(self.disk.clone()), Path::new("disk"), &header, &self.drive, how)
    }

    /// Switches the drive on and judges everything that it holds.
    pub fn switch_on(&mut self, opened: Opened, what: &str) -> Result<(Ssd, Image, Found), Error> {
        let Opened { mut image, array, damage, .. } = opened;
        let mut ssd =
            Ssd::power_on(&self.drive.config, Silicon(*array.expect("not empty")), 1).expect("it powers on");
        ssd.check();
        let mut changes = vec![];
        ssd.take_changes(&mut changes);
        image.follow(ssd.flash().array(), &changes)?;
        let mut found = Found { damage: damage.len(), unreadable: 0 };
        for lsn in 0..self.client.ranges.len() as u64 {
            let at = ssd.now();
            ssd.submit(
                at,
                &Command { id: lsn, op: Op::Read, lsn, sectors: 1, fua: false, stream: 0, data: &[] },
            );
            let mut done = vec![];
            while done.is_empty() {
                let next = ssd.next_event().expect("something is under way");
                ssd.advance(next, &mut done);
            }
            if done[0].status == Status::Ok {
                self.client.judge(lsn, &done[0].data, what);
            } else {
                assert_eq!(done[0].status, Status::MediaError, "{what}");
                let range = &mut self.client.ranges[lsn as usize];
                assert!(
                    found.damage > 0 || range.gone,
                    "{what}: sector {lsn} is unreadable, but nothing was damaged"
                );
                *range = Range { gone: true, durable: range.newest, ..*range };
                found.unreadable += 1;
            }
        }
        self.client.answered.clear();
        Ok((ssd, image, found))
    }

    /// Random load, until so many events have been carried out, or the image cannot be written.
    pub fn work(&mut self, ssd: &mut Ssd, image: &mut Image, events: u64) -> Result<(), Error> {
        let (mut pending, mut id) = (HashMap::new(), 1 << 32);
        let (mut done, mut changes) = (vec![], vec![]);
        for _ in 0..events {
            while ssd.outstanding() < 8 {
                id += 1;
                self.send(ssd, id, &mut pending);
            }
            let next = ssd.next_event().expect("something is under way");
            ssd.advance(next, &mut done);
            ssd.take_changes(&mut changes);
            image.follow(ssd.flash().array(), &changes)?;
            changes.clear();
            let durable = |p: &Pending| p.fua || p.wrote.is_none();
            if done.iter().any(|c| pending.get(&c.id).is_some_and(durable)) {
                image.make_durable()?;
            }
            let mut promised = false;
            for completion in done.drain(..) {
                assert_eq!(completion.status, Status::Ok);
                let Some(Pending { wrote, fua, covers }) = pending.remove(&completion.id) else { continue };
                if let Some((lsn, sectors, number)) = wrote {
                    for lsn in lsn..lsn + sectors {
                        if fua {
                            self.client.make_durable(lsn, number);
                        } else {
                            self.client.answered.push((lsn, number));
                        }
                    }
                }
                covers.iter().for_each(|&(lsn, number)| self.client.make_durable(lsn, number));
                promised = true;
            }
            let steps = self.disk.state().log.as_ref().map(Vec::len);
            if let Some(steps) = steps
                && promised
            {
                self.promises.push((steps, self.client.ranges.iter().map(|r| r.durable).collect()));
            }
        }
        Ok(())
    }

    fn send(&mut self, ssd: &mut Ssd, id: u64, pending: &mut HashMap<u64, Pending>) {
        let client = &mut self.client;
        client.number += 1;
        let (sectors, kind) = (1 + self.draw.below(6), self.draw.below(24));
        let lsn = self.draw.below(client.ranges.len() as u64 - sectors);
        let number = client.number;
        let (op, fua) = match kind {
            0 | 1 => (Op::Flush, false),
            2..=4 => (Op::Trim, false),
            _ => (Op::Write, kind == 5),
        };
        let (lsn, sectors) = if op == Op::Flush { (0, 0) } else { (lsn, sectors) };
        let mut data = vec![];
        for sector in lsn..lsn + sectors {
            if op == Op::Write {
                data.extend(contents(sector, number));
            } else {
                client.trims.entry(sector).or_default().push(number);
            }
            let range = &mut client.ranges[sector as usize];
            range.newest = number;
        }
        let covers = if op == Op::Flush { std::mem::take(&mut client.answered) } else { vec![] };
        let wrote = (op != Op::Flush).then_some((lsn, sectors, number));
        pending.insert(id, Pending { wrote, fua, covers });
        let at = ssd.now();
        ssd.submit(at, &Command { id, op, lsn, sectors, fua, stream: 0, data: &data });
    }
}

impl Client {
    fn make_durable(&mut self, lsn: u64, number: u64) {
        let range = &mut self.ranges[lsn as usize];
        range.durable = range.durable.max(number);
    }

    /// Whether a sector may hold this; from now on it holds nothing older.
    pub fn judge(&mut self, lsn: u64, data: &[u8], what: &str) {
        let range = self.ranges[lsn as usize];
        let number = u64::from_le_bytes(data[8..16].try_into().expect("8 bytes"));
        let number = if data.iter().all(|&byte| byte == 0) {
            let trims = self.trims.get(&lsn).map_or(&[][..], |trims| trims);
            let trim = trims.iter().rev().copied().find(|&n| n <= range.newest && n >= range.durable);
            assert!(
                trim.is_some() || range.durable == 0,
                "{what}: sector {lsn} holds nothing; it may hold writes {range:?}"
            );
            // Which of its trims it was is not known: the oldest that it may be.
            trims.iter().copied().find(|&n| n >= range.durable).unwrap_or(0)
        } else {
            assert!(
                data == contents(lsn, number),
                "{what}: sector {lsn} holds a mixture, or another's contents"
            );
            assert!(
                (range.durable..=range.newest).contains(&number),
                "{what}: sector {lsn} holds write {number}, which is older than promised: {range:?}"
            );
            number
        };
        self.ranges[lsn as usize].durable = self.ranges[lsn as usize].durable.max(number);
    }
}
