//! What is run: traces, and the device for each.

use std::path::Path;

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;
use nandle_ssd::Op;
use nandle_ssd::nand::CellKind;
use nandle_trace::Request;

use super::super::{preset, traces};

/// Table I's traces.
pub const WORKLOADS: [&str; 9] = ["prxy", "proj", "fin", "mds", "hm", "prn", "tpce", "tpcc", "exch"];
/// The policies: the baseline, the related ones, and the paper's.
pub const POLICIES: [&str; 4] = [STRICT, LSB_FIRST, SIZE_BASED, PAPA];
pub(super) const STRICT: &str = "strict";
pub(super) const LSB_FIRST: &str = "lsb-first";
pub(super) const SIZE_BASED: &str = "size-based";
pub(super) const PAPA: &str = "papa";
/// Write cache of the full-size device, where there is one; the paper does not say how large.
const CACHE_BYTES: u64 = 32 << 20;
pub(super) const SECTOR: u64 = 4096;
pub(super) const PAGE: u64 = 16_384;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Blocks and requests are divided by this; 1 = the paper's size.
    pub scale: u32,
    /// How many blocks a plane has.
    pub size: Size,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Over-provisioning; the paper does not say.
    pub op_ratio: f64,
    /// Bits per cell: the paper's device is TLC.
    pub cell: CellKind,
    /// Collect ahead of need, or only in emergencies: the paper describes the latter (section V-D) and
    /// mentions the former (VI-B2).
    pub ahead: bool,
    /// Share of the device's pages, of whatever type, at which collection begins in the background; VI-B2 has a
    /// threshold, and not where it lies. 0: in emergencies alone.
    pub threshold: f64,
    /// Share of the twins' half pages that come two by two, over a page border; none: the twins' own.
    pub misaligned: Option<f64>,
    /// Requests of the twins a second; the paper does not say.
    pub rate: f64,
    /// Seed of workloads and devices.
    pub seed: u64,
}

/// How large a device is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Table II's blocks.
    Published,
    /// The trace's pages are this share of the logical device.
    Pages(f64),
    /// What both runs of the trace write is this share of the device's pages.
    Writes(f64),
    /// This share of Table II's blocks; what lies in the others is never touched.
    Free(f64),
}

/// QLC's fourth page type, which the paper does not have: read and program times continue Table II's.
const TSB_NS: [u64; 2] = [200_000, 8_000_000];
/// Of real traces' devices. Assumed: the middle of 50, 70 and 100%, which the table of what is not published has.
pub(super) const FILL: f64 = 0.7;
/// Assumed: LSB pages are a third of all, so these shares leave them two thirds of the writes or fewer.
pub(super) const WRITES: [f64; 3] = [0.5, 0.6, 0.8];
/// Of Table II's blocks. Half is what the paper's sentence about exch asks for; the others lie beside it.
pub(super) const FREE: [f64; 3] = [0.75, 0.5, 0.4];
/// What is written, of the device's pages, and below which share of free pages it collects: so that the baseline reaches
/// that in every trace, as Fig 13 has it. The last was chosen for Fig 11's MSB share.
pub(super) const COLLECTED: [(f64, f64); 4] = [(0.6, 0.4), (0.6, 0.45), (0.6, 0.5), (1.0, 0.5)];
/// Table II's.
const PAGES_PER_BLOCK: u32 = 384;
/// The twins' requests a second.
const RATE: f64 = 300.0;
/// Blocks of a plane beside those that hold the logical device and its over-provisioning: the ones that are written and
/// those that collection keeps, as many on a small device as on a large one.
const BESIDE: u64 = 6;

impl Plan {
    /// The paper's size.
    pub fn full(seed: u64) -> Self {
        Self {
            scale: 1,
            size: Size::Published,
            pages_per_block: PAGES_PER_BLOCK,
            op_ratio: 0.1,
            cell: CellKind::Tlc,
            ahead: false,
            threshold: 0.0,
            misaligned: None,
            rate: RATE,
            seed,
        }
    }

    /// A 64th of the paper's size.
    pub fn quick(seed: u64) -> Self {
        Self { scale: 64, op_ratio: 0.3, ..Self::full(seed) }
    }

    /// A device as large as a trace asks for, in small blocks.
    pub(super) fn sized(size: Size, pages_per_block: u32, seed: u64) -> Self {
        Self { size, pages_per_block, op_ratio: 0.1, ..Self::quick(seed) }
    }

    /// For the real traces, which are short.
    pub fn short(seed: u64) -> Self {
        Self::sized(Size::Pages(FILL), 12, seed)
    }

    /// The device for a trace.
    ///
    /// # Errors
    /// If it is scaled to nothing.
    pub fn device(&self, policy: &str, cached: bool, trace: &[Request]) -> Result<Drive, Error> {
        let mut config = preset("papa-tlc", None, &[])?.config;
        config.op_ratio = self.op_ratio;
        config.geometry.pages_per_block = self.pages_per_block;
        let row = u64::from(config.geometry.planes() * self.pages_per_block);
        match self.size {
            Size::Published => config.geometry.blocks_per_plane /= self.scale,
            Size::Pages(share) => {
                let logical = pages_of(trace).max(1) as f64 / share;
                let blocks = (logical * (1.0 + self.op_ratio) / row as f64).ceil() as u64 + BESIDE;
                config.op_ratio = (blocks * row) as f64 / logical - 1.0;
                config.geometry.blocks_per_plane = blocks as u32;
            }
            Size::Free(share) => {
                let pages = config.geometry.blocks_per_plane * PAGES_PER_BLOCK / self.scale;
                let blocks = f64::from(pages) * share / f64::from(self.pages_per_block);
                config.geometry.blocks_per_plane = blocks as u32;
            }
            Size::Writes(share) => {
                let writes = 2 * trace.iter().filter(|r| r.op == Op::Write).map(page_count).sum::<u64>();
                config.geometry.blocks_per_plane = (writes as f64 / share / row as f64).ceil() as u32;
            }
        }
        config.cell.kind = self.cell;
        config.timing.read_ns.push(TSB_NS[0]);
        config.timing.program_ns.push(TSB_NS[1]);
        config.timing.read_ns.truncate(self.cell.bits() as usize);
        config.timing.program_ns.truncate(self.cell.bits() as usize);
        config.buffer.bytes = if cached { CACHE_BYTES / u64::from(self.scale) } else { 0 };
        config.gc.types_ahead = self.ahead;
        config.gc.soft = self.threshold;
        config.scheme.allocation = policy.into();
        let layout = config.validate().map_err(invalid)?;
        Ok(Drive::new(config, layout))
    }

    /// What traces are drawn for: Table II's device, or that of the plan.
    fn drawn_for(&self) -> Result<Drive, Error> {
        match self.size {
            Size::Published => self.device(PAPA, false, &[]),
            _ => Self::full(self.seed).device(PAPA, false, &[]),
        }
    }

    /// One pass of a twin.
    ///
    /// # Errors
    /// If there is no such workload.
    pub fn trace(&self, workload: &str) -> Result<Vec<Request>, Error> {
        let drive = self.drawn_for()?;
        let name = match self.misaligned {
            Some(share) => format!("{workload}:misaligned={share}"),
            None => workload.to_owned(),
        };
        let mut asked = Asked { workload: name, seed: self.seed, ..Asked::default() };
        let whole = asked.prepare(&drive)?.phases.last().and_then(|(phase, _)| phase.requests);
        asked.requests = whole.map(|n| (n / u64::from(self.scale)).max(1));
        let mut trace = traces::requests(&asked, &drive)?;
        for request in &mut trace {
            request.time_ns = (request.time_ns as f64 * RATE / self.rate) as u64;
        }
        Ok(if self.size == Size::Published { trace } else { side_by_side(trace) })
    }

    /// One pass of a real trace, fitted to the device.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn real(&self, path: &Path) -> Result<Vec<Request>, Error> {
        let drive = self.drawn_for()?;
        let asked = Asked { workload: path.to_string_lossy().into(), seed: self.seed, ..Asked::default() };
        let trace = traces::requests(&asked, &drive)?;
        Ok(if self.size == Size::Published { trace } else { side_by_side(trace) })
    }
}

/// Pages that a request touches.
fn pages_touched(r: &Request) -> std::ops::Range<u64> {
    r.offset / PAGE..(r.offset + r.bytes).div_ceil(PAGE)
}

fn page_count(r: &Request) -> u64 {
    pages_touched(r).count() as u64
}

/// Pages up to the last that a trace touches.
fn pages_of(trace: &[Request]) -> u64 {
    trace.iter().map(|r| pages_touched(r).end).max().unwrap_or(0)
}

/// The trace with the pages that it writes side by side, in their order. Reads of others, of which a new device has
/// nothing to read, are left out or cut.
fn side_by_side(trace: Vec<Request>) -> Vec<Request> {
    let writes = trace.iter().filter(|r| r.op == Op::Write && r.bytes > 0);
    let mut written: Vec<u64> = writes.flat_map(pages_touched).collect();
    written.sort_unstable();
    written.dedup();
    let place = |page: u64| written.binary_search(&page).ok();
    let moved = |mut r: Request| {
        let first = pages_touched(&r).find(|&page| place(page).is_some())?;
        let last = pages_touched(&r)
            .skip_while(|&page| page < first)
            .take_while(|&page| place(page).is_some())
            .last()?;
        let (from, to) = (r.offset.max(first * PAGE), (r.offset + r.bytes).min((last + 1) * PAGE));
        r.offset = place(first)? as u64 * PAGE + from % PAGE;
        r.bytes = to - from;
        Some(r)
    };
    trace.into_iter().filter(|r| r.op.moves_data() && r.bytes > 0).filter_map(moved).collect()
}

pub(super) fn invalid(error: nandle_ssd::ConfigError) -> Error {
    Error::Input(error.to_string())
}
