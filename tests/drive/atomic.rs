//! Goal: a write that crosses no border of mapping units is seen whole or not at all, by reads beside it and after a power
//! cut, on every device; a drive promises as much as that, in NVMe's own fields, and no more.
//! Method: an oracle that knows nothing but which write each sector was written by: of a write of which one sector is
//! there, none may be older. Small devices of every scheme are driven event by event and cut, powered on from the
//! checkpoint and by a full scan. The same oracle on writes that cross borders must find torn ones, or it could not fail.
//! Identify's fields are those of the NVM Command Set Specification. With NANDLE_NIGHTLY=1 each event is a cut.

use crate::devices;
use crate::served;

use nandle_lab::config::Wanted;
use nandle_random::Stream;
use nandle_serve::nvme_tcp::host::{Host, Options, entry};
use nandle_serve::nvme_tcp::wire::{op, u16_at};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

/// Bytes kept for each sector: the number of the write, from 1.
const UNIT: usize = 8;

/// A write: its first sector, and the one behind its last.
type Extent = (u64, u64);

/// Host and drive.
struct Bench {
    ssd: Ssd,
    draw: Stream,
    writes: Vec<Extent>,
    reads: std::collections::HashMap<u64, Extent>,
    done: Vec<Completion>,
    next: u64,
    /// Sectors of the pieces that writes stay within.
    piece: u64,
}

fn stamps(data: &[u8]) -> Vec<usize> {
    data.chunks(UNIT)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize)
        .collect()
}

impl Bench {
    fn new(config: &DeviceConfig, name: &str, piece: u64) -> Self {
        let ssd = Ssd::new(config, UNIT, 3).expect("a valid device");
        let draw = Stream::new(3, name);
        Self { ssd, draw, writes: vec![], reads: Default::default(), done: vec![], next: 0, piece }
    }

    fn request(&mut self) {
        let draw = &mut self.draw;
        let pieces = self.ssd.layout().logical_sectors / self.piece;
        let hot = draw.chance(0.5);
        let first = draw.below(if hot { (pieces / 8).max(1) } else { pieces }) * self.piece;
        // Whole pieces, and parts of them.
        let (from, to) = match draw.below(3) {
            0 => (0, self.piece),
            _ => {
                let from = draw.below(self.piece);
                (from, from + 1 + draw.below(self.piece - from))
            }
        };
        let (lsn, sectors, kind) = (first + from, to - from, draw.below(100));
        let op = match kind {
            0..=14 => Op::Read,
            15..=94 => Op::Write,
            _ => Op::Flush,
        };
        let (lsn, sectors) = if op == Op::Flush { (0, 0) } else { (lsn, sectors) };
        let mut data = vec![];
        match op {
            Op::Write => {
                self.writes.push((lsn, lsn + sectors));
                data = (self.writes.len() as u64).to_le_bytes().repeat(sectors as usize);
            }
            Op::Read => {
                self.reads.insert(self.next, (lsn, lsn + sectors));
            }
            _ => {}
        }
        let fua = op == Op::Write && draw.chance(0.1);
        let command = Command { id: self.next, op, lsn, sectors, fua, stream: 0, data: &data };
        self.next += 1;
        let now = self.ssd.now();
        self.ssd.submit(now, &command);
    }

    /// Writes of which a part is seen and a part is older, in what was read from `first` on.
    fn torn(&self, first: u64, seen: &[usize]) -> usize {
        let mut whole = std::collections::BTreeSet::new();
        whole.extend(seen.iter().copied().filter(|&stamp| stamp > 0));
        let is_torn = |&stamp: &usize| {
            let (from, to) = self.writes[stamp - 1];
            let inside =
                (from.max(first) - first) as usize..(to.min(first + seen.len() as u64) - first) as usize;
            seen[inside].iter().any(|&other| other < stamp)
        };
        whole.iter().copied().filter(is_torn).count()
    }

    /// The next event; how many reads saw a torn write.
    fn step(&mut self) -> usize {
        let depth = 1 + self.draw.below(8) as u32;
        while self.ssd.outstanding() < depth {
            self.request();
        }
        let next = self.ssd.next_event().expect("the device is stuck");
        self.ssd.advance(next, &mut self.done);
        let done = std::mem::take(&mut self.done);
        let read = |completion: &Completion| {
            let (from, _) = self.reads.get(&completion.id).copied()?;
            Some(self.torn(from, &stamps(&completion.data)))
        };
        let torn = done.iter().filter_map(read).sum();
        for completion in &done {
            self.reads.remove(&completion.id);
        }
        torn
    }

    /// Cuts the power of a clone: how many writes are torn.
    fn cut(&self) -> usize {
        let config = self.ssd.config();
        let silicon = self.ssd.clone().cut_power();
        let found =
            [Ssd::power_on(config, silicon.clone(), 3), Ssd::power_on_by_full_scan(config, silicon, 3)];
        let torn = found.map(|ssd| {
            let ssd = ssd.expect("valid");
            let (contents, _) = ssd.contents(0, ssd.layout().logical_sectors);
            self.torn(0, &stamps(&contents))
        });
        assert_eq!(torn[0], torn[1], "with and without the checkpoint");
        torn[0]
    }
}

/// What was seen of a device: cuts, torn writes after them, reads that saw torn writes.
fn seen(name: &str, config: &DeviceConfig, piece: u64) -> (u64, usize, usize) {
    let nightly = std::env::var_os("NANDLE_NIGHTLY").is_some_and(|v| v == "1");
    let mut bench = Bench::new(config, name, piece);
    let (mut cuts, mut torn, mut read) = (0, 0, 0);
    let pages = config.unit_geometry().pages();
    while bench.ssd.counters().programs.iter().flatten().sum::<u64>() < pages {
        read += bench.step();
    }
    for event in 0..1500 {
        read += bench.step();
        if nightly || event / 10 % 12 == 0 {
            torn += bench.cut();
            cuts += 1;
        }
    }
    (cuts, torn, read)
}

/// Every small device, and some whose units are not pages, as promising as they can be.
fn all_devices() -> Vec<(String, DeviceConfig)> {
    let mut all: Vec<(String, DeviceConfig)> =
        devices::small_devices().into_iter().map(|(name, config)| (name.to_owned(), config)).collect();
    for mapping in devices::mappings() {
        let mut config = devices::base();
        config.op_ratio = 1.5;
        config.buffer.bytes = 32 << 10;
        config.scheme.mapping = mapping.clone();
        if config.validate().is_ok() {
            all.push((mapping, config));
        }
    }
    for (unit, buffer) in [(1024, 0), (8192, 0), (8192, 32 << 10)] {
        let mut config = devices::base();
        config.mapping.unit_bytes = unit;
        config.buffer.bytes = buffer;
        all.push((format!("units of {unit}, buffer {buffer}"), config));
    }
    for (_, config) in &mut all {
        config.recovery.checkpoint_interval = 24;
        let unit = config.unit_bytes();
        (config.atomic.write_bytes, config.atomic.power_fail_bytes) = (unit, unit);
    }
    all
}

#[test]
fn no_write_within_a_unit_is_ever_torn() {
    let devices = std::sync::Mutex::new(all_devices().into_iter());
    let cuts = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((name, config)) = devices.lock().expect("no panic").next() else { return };
                    let piece = u64::from(config.atomic.power_fail_bytes / config.geometry.sector_bytes);
                    let (done, torn, read) = seen(&name, &config, piece);
                    assert_eq!(
                        (torn, read),
                        (0, 0),
                        "{name}: {done} cuts; torn writes, and those that reads saw"
                    );
                    cuts.fetch_add(done, std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
    });
    assert!(cuts.into_inner() > 3000);
}

#[test]
fn writes_across_units_are_torn_and_found() {
    for (name, unit) in [("page", 0), ("units of 1 KiB", 1024)] {
        let mut config = devices::base();
        config.mapping.unit_bytes = unit;
        let piece = 4 * u64::from(config.unit_bytes() / config.geometry.sector_bytes);
        let (cuts, torn, _) = seen(name, &config, piece);
        assert!(torn > 10, "{name}: {torn} torn writes after {cuts} cuts");
    }
}

#[test]
fn a_drive_promises_what_it_keeps_and_no_more() {
    let load = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Wanted { device: "demo-page", sets: &sets, ..Wanted::default() }
            .load()
            .map(drop)
            .map_err(|e| e.to_string())
    };
    assert_eq!(load(&["atomic.write_bytes=16384", "atomic.power_fail_bytes=16384"]), Ok(()));
    for (sets, part) in [
        (&["atomic.write_bytes=32768"][..], "up to a mapping unit (16384; mapping.unit_bytes)"),
        (&["atomic.write_bytes=6000"], "whole sectors (4096)"),
        (&["atomic.power_fail_bytes=8192"], "at least atomic.power_fail_bytes, 8192"),
        (&["mapping.unit_bytes=4096", "atomic.write_bytes=16384"], "up to a mapping unit (4096"),
    ] {
        let said = load(sets).expect_err("refused");
        assert!(said.contains(part), "{sets:?}: {said}");
    }
}

#[test]
fn hosts_are_told() {
    // NVM Command Set Specification 1.0, figure 97: NSFEAT, NAWUN, NAWUPF, NABSN, NABO, NABSPF, in blocks, 0's based.
    let fields = |args: &[&str]| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server =
            served::Served::start(dir.path(), &[served::SMALL, &["--nvme-tcp", ":0"], args].concat());
        let mut host = Host::connect(server.nvme(), &Options::default()).expect("a subsystem");
        let page = host.admin.command(entry(op::IDENTIFY, 1, [0; 6]), &[], 4096).expect("an answer").data;
        (page[24] >> 1 & 1, [34, 36, 40, 42, 44].map(|at| u16_at(&page, at)))
    };
    assert_eq!(fields(&[]), (0, [0; 5]));
    let sets = ["--set", "atomic.write_bytes=16384", "--set", "atomic.power_fail_bytes=8192"];
    assert_eq!(fields(&sets), (1, [3, 1, 3, 0, 3]));
}
