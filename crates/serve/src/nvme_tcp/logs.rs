//! Log pages and other answers that are made of the drive's state.
//!
//! Counters begin when the drive is switched on, so with the start of the server: the flash keeps none
//! but the erase counts.

use nandle_ssd::nand::BlockCondition;
use nandle_ssd::schemes::Isolation;
use nandle_ssd::schemes::fdp::Fdp;
use nandle_ssd::space::State;
use nandle_ssd::{Op, Ssd};

use super::model::{EVENT_INVALID_PLACEMENT, Model, ONE};
use super::wire;
use super::wire::{MOST_DATA, Sqe, Status, op, put};

/// Log page identifiers.
pub mod page {
    #![allow(missing_docs)]
    pub const SUPPORTED: u8 = 0x00;
    pub const ERRORS: u8 = 0x01;
    pub const SMART: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const EFFECTS: u8 = 0x05;
    pub const ENDURANCE_GROUP: u8 = 0x09;
    pub const FDP_CONFIGURATIONS: u8 = 0x20;
    pub const FDP_USAGE: u8 = 0x21;
    pub const FDP_STATISTICS: u8 = 0x22;
    pub const FDP_EVENTS: u8 = 0x23;
    pub const DISCOVERY: u8 = 0x70;
    /// OCP Datacenter NVMe SSD Specification: SMART / health information extended.
    pub const OCP: u8 = 0xc0;
}

const PAGES: [u8; 12] = [
    page::SUPPORTED,
    page::ERRORS,
    page::SMART,
    page::FIRMWARE,
    page::CHANGED_NAMESPACES,
    page::EFFECTS,
    page::ENDURANCE_GROUP,
    page::OCP,
    page::FDP_CONFIGURATIONS,
    page::FDP_USAGE,
    page::FDP_STATISTICS,
    page::FDP_EVENTS,
];

/// The GUID of the OCP log, as it lies in the page.
const OCP_GUID: [u8; 16] =
    [0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf];

/// Something that the drive must be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A log page.
    Log {
        /// Which.
        page: u8,
        /// The endurance group, where one is meant (log specific identifier).
        group: u16,
        /// Log specific parameter.
        parameter: u8,
        /// First byte of it.
        offset: u64,
        /// Bytes of it.
        bytes: u32,
        /// Entries that the error log has had so far.
        errors: u64,
    },
    /// Reclaim unit handle status: so many bytes of it.
    Handles(u32),
    /// FlashAlloc's live instances: so many bytes of the list.
    Instances(u32),
}

impl Look {
    /// Of Get Log Page (Base Specification, section 5.16).
    ///
    /// # Errors
    /// If the data would not fit.
    pub fn log(sqe: &Sqe) -> Result<Self, Status> {
        let dwords = (u64::from(sqe.cdw(11) & 0xffff) << 16 | u64::from(sqe.cdw(10) >> 16)) + 1;
        let offset = u64::from(sqe.cdw(12)) | u64::from(sqe.cdw(13)) << 32;
        if !offset.is_multiple_of(4) || sqe.cdw(14) >> 23 & 1 == 1 {
            return Err(Status::INVALID_FIELD);
        }
        Ok(Self::Log {
            page: sqe.0[40],
            group: (sqe.cdw(11) >> 16) as u16,
            parameter: (sqe.cdw(10) >> 8 & 0x7f) as u8,
            offset,
            bytes: fitting(dwords * 4, sqe)?,
            errors: 0,
        })
    }

    /// The same, after so many errors.
    #[must_use]
    pub fn after(mut self, count: u64) -> Self {
        if let Self::Log { errors, .. } = &mut self {
            *errors = count;
        }
        self
    }

    /// Of I/O Management Receive and of FlashAlloc's query.
    ///
    /// # Errors
    /// If there is no such thing, or the data would not fit.
    pub fn io(sqe: &Sqe, model: &Model) -> Result<Self, Status> {
        if sqe.opcode() == op::FLASHALLOC_QUERY {
            let bytes = fitting((u64::from(sqe.cdw(10)) + 1) * 4, sqe)?;
            return if model.objects { Ok(Self::Instances(bytes)) } else { Err(Status::INVALID_OPCODE) };
        }
        let bytes = fitting((u64::from(sqe.cdw(11)) + 1) * 4, sqe)?;
        match sqe.cdw(10) & 0xff {
            1 if model.handles > 0 => Ok(Self::Handles(bytes)),
            1 => Err(Status::FDP_DISABLED),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// The log page's identifier.
    #[must_use]
    pub fn page(&self) -> u8 {
        if let Self::Log { page, .. } = self { *page } else { 0 }
    }

    /// Bytes of the answer.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Log { bytes, .. } | Self::Handles(bytes) | Self::Instances(bytes) => bytes.into(),
        }
    }

    /// The part of a structure that was asked for; zeros beyond its end.
    ///
    /// # Errors
    /// If it would begin beyond the end.
    pub fn cut(&self, whole: &[u8]) -> Result<Vec<u8>, Status> {
        let (from, bytes) = match *self {
            Self::Log { offset, bytes, .. } => (usize::try_from(offset).unwrap_or(usize::MAX), bytes),
            Self::Handles(bytes) | Self::Instances(bytes) => (0, bytes),
        };
        let rest = whole.get(from..).ok_or(Status::INVALID_FIELD)?;
        let mut out = rest[..rest.len().min(bytes as usize)].to_vec();
        out.resize(bytes as usize, 0);
        Ok(out)
    }

    /// What the drive says.
    ///
    /// # Errors
    /// If there is nothing of the kind.
    pub fn answer(&self, ssd: &Ssd, model: &Model) -> Result<Vec<u8>, Status> {
        let whole = match *self {
            Self::Handles(_) => handles(ssd, model),
            Self::Instances(_) => instances(ssd),
            Self::Log { page, group, errors, .. } => {
                let fdp = (page::FDP_CONFIGURATIONS..=page::FDP_EVENTS).contains(&page);
                if (fdp || page == page::ENDURANCE_GROUP) && group != ONE {
                    return Err(Status::INVALID_FIELD);
                }
                match page {
                    page::SUPPORTED => supported(model),
                    page::SMART => smart(ssd, errors),
                    page::FIRMWARE => firmware(),
                    page::CHANGED_NAMESPACES => vec![0; 4096],
                    page::EFFECTS => effects(model),
                    page::ENDURANCE_GROUP => endurance_group(ssd, errors),
                    page::OCP => ocp(ssd, model),
                    _ if fdp && model.handles == 0 => return Err(Status::FDP_DISABLED),
                    page::FDP_CONFIGURATIONS => configurations(ssd, model),
                    page::FDP_USAGE => usage(model),
                    page::FDP_STATISTICS => statistics(ssd),
                    _ => return Err(Status::INVALID_LOG),
                }
            }
        };
        self.cut(&whole)
    }

    /// FDP Events: the placement identifiers that there are not, oldest first.
    ///
    /// # Errors
    /// Without FDP.
    pub fn events(&self, model: &Model, invalid: &[u16]) -> Result<Vec<u8>, Status> {
        let Self::Log { group, parameter, .. } = *self else { return Err(Status::INVALID_FIELD) };
        if model.handles == 0 {
            return Err(Status::FDP_DISABLED);
        }
        if group != ONE {
            return Err(Status::INVALID_FIELD);
        }
        let mut whole = vec![0; 64];
        // Those of the host; the controller has none of its own.
        if parameter & 1 == 1 {
            put(&mut whole, 0, &(invalid.len() as u32).to_le_bytes());
            for identifier in invalid {
                let mut event = [0; 64];
                event[0] = EVENT_INVALID_PLACEMENT;
                // The placement identifier and the namespace are valid.
                event[1] = 0b11;
                put(&mut event, 2, &identifier.to_le_bytes());
                put(&mut event, 12, &1_u32.to_le_bytes());
                whole.extend(event);
            }
        }
        self.cut(&whole)
    }
}

/// Bytes that a command asks for, if its descriptor has room for them.
fn fitting(bytes: u64, sqe: &Sqe) -> Result<u32, Status> {
    if bytes > u64::from(MOST_DATA) {
        return Err(Status::INVALID_FIELD);
    }
    if bytes > u64::from(sqe.sgl_length()) {
        return Err(Status::SGL_LENGTH);
    }
    Ok(bytes as u32)
}

fn supported(model: &Model) -> Vec<u8> {
    let mut out = vec![0; 1024];
    for page in PAGES {
        let fdp = (page::FDP_CONFIGURATIONS..=page::FDP_EVENTS).contains(&page);
        out[4 * usize::from(page)] = u8::from(!fdp || model.handles > 0);
    }
    out
}

fn firmware() -> Vec<u8> {
    let mut out = vec![0; 512];
    out[0] = 1;
    let revision = format!("{:8.8}", env!("CARGO_PKG_VERSION"));
    put(&mut out, 8, revision.as_bytes());
    out
}

fn effects(model: &Model) -> Vec<u8> {
    // Supported; changes contents.
    const PLAIN: u8 = 1;
    const CONTENT: u8 = 0b11;
    let mut out = vec![0; 4096];
    let admin = [
        op::GET_LOG_PAGE,
        op::IDENTIFY,
        op::ABORT,
        op::SET_FEATURES,
        op::GET_FEATURES,
        op::ASYNC_EVENT,
        op::KEEP_ALIVE,
        op::DIRECTIVE_SEND,
        op::DIRECTIVE_RECEIVE,
    ];
    for opcode in admin {
        out[4 * usize::from(opcode)] = PLAIN;
    }
    for opcode in [op::FLUSH, op::READ, op::COMPARE, op::VERIFY] {
        out[1024 + 4 * usize::from(opcode)] = PLAIN;
    }
    for opcode in [op::WRITE, op::WRITE_ZEROES, op::DATASET] {
        out[1024 + 4 * usize::from(opcode)] = CONTENT;
    }
    if model.handles > 0 {
        out[1024 + 4 * usize::from(op::IO_MANAGEMENT_RECEIVE)] = PLAIN;
        out[1024 + 4 * usize::from(op::IO_MANAGEMENT_SEND)] = PLAIN;
    }
    if model.objects {
        for opcode in [op::FLASHALLOC, op::FLASHALLOC_QUERY, op::FLASHALLOC_PLAIN] {
            out[1024 + 4 * usize::from(opcode)] = PLAIN;
        }
    }
    out
}

/// What the blocks are like.
struct Blocks {
    bad: u64,
    free: u64,
    all: u64,
    least: u32,
    most: u32,
    sum: u64,
}

fn blocks(ssd: &Ssd) -> Blocks {
    let (geometry, array) = (ssd.flash().geometry(), ssd.flash().array());
    let mut out = Blocks { bad: 0, free: 0, all: 0, least: u32::MAX, most: 0, sum: 0 };
    for block in (0..geometry.planes()).flat_map(|plane| geometry.blocks_of(plane)) {
        out.all += 1;
        if array.condition(block) != BlockCondition::Good {
            out.bad += 1;
            continue;
        }
        let erases = array.erases(block);
        out.free += u64::from(ssd.flash().blocks().state(block) == State::Free);
        out.least = out.least.min(erases);
        out.most = out.most.max(erases);
        out.sum += u64::from(erases);
    }
    out.least = out.least.min(out.most);
    out
}

/// Shares that several pages tell, in percent.
struct Health {
    warning: u8,
    spare: u8,
    used: u8,
}

const SPARE_THRESHOLD: u8 = 10;

fn health(ssd: &Ssd) -> Health {
    let blocks = blocks(ssd);
    let geometry = ssd.flash().geometry();
    let block = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
    let needed = ssd.layout().logical_bytes.div_ceil(block);
    let spare = blocks.all.saturating_sub(needed).max(1);
    let left = spare.saturating_sub(blocks.bad);
    let endurance = u64::from(ssd.config().cell.endurance);
    let good = (blocks.all - blocks.bad).max(1);
    let used = if endurance == 0 { 0 } else { (100 * blocks.sum / (good * endurance)).min(255) };
    let spare = (100 * left / spare) as u8;
    let low = u8::from(spare < SPARE_THRESHOLD);
    Health { warning: low | u8::from(ssd.is_read_only()) << 3, spare, used: used as u8 }
}

fn put_u128(page: &mut [u8], at: usize, value: u64) {
    put(page, at, &u128::from(value).to_le_bytes());
}

/// Bytes that pages of flash have room for: programmed, read.
fn media(ssd: &Ssd) -> (u64, u64) {
    let page = u64::from(ssd.config().geometry.page_bytes);
    let sum = |table: &[[u64; 4]]| table.iter().flatten().sum::<u64>() * page;
    (sum(&ssd.counters().programs), sum(&ssd.counters().reads))
}

/// Figure 208: SMART / Health Information.
fn smart(ssd: &Ssd, errors: u64) -> Vec<u8> {
    let mut out = vec![0; 512];
    let (stats, health) = (ssd.stats(), health(ssd));
    // Thousands of 512 bytes, rounded up.
    let units = |bytes: u64| bytes.div_ceil(512 * 1000);
    out[0] = health.warning;
    put(&mut out, 1, &(273 + 35_u16).to_le_bytes());
    (out[3], out[4], out[5]) = (health.spare, SPARE_THRESHOLD, health.used);
    // The one endurance group is the whole drive.
    out[6] = health.warning;
    put_u128(&mut out, 32, units(stats.bytes[Op::Read as usize]));
    put_u128(&mut out, 48, units(stats.bytes[Op::Write as usize]));
    put_u128(&mut out, 64, stats.requests[Op::Read as usize]);
    put_u128(&mut out, 80, stats.requests[Op::Write as usize]);
    let busy: u64 = ssd.flash().busy_ns().0.iter().copied().max().unwrap_or(0);
    put_u128(&mut out, 96, busy / 60_000_000_000);
    put_u128(&mut out, 112, 1);
    put_u128(&mut out, 128, ssd.now() / 3_600_000_000_000);
    put_u128(&mut out, 160, stats.unreadable_sectors);
    put_u128(&mut out, 176, errors);
    out
}

/// The critical warnings of the health log.
pub(super) fn critical_warning(ssd: &Ssd) -> u8 {
    health(ssd).warning
}

/// Units of 10^9 bytes that the flash takes until its blocks are worn out; 0 if they never are.
fn endurance_estimate(ssd: &Ssd) -> u64 {
    let config = ssd.config();
    u64::from(config.cell.endurance) * config.geometry.raw_bytes() / 1_000_000_000
}

/// Figure 217: Endurance Group Information; bytes in units of 10^9, rounded up.
fn endurance_group(ssd: &Ssd, errors: u64) -> Vec<u8> {
    let mut out = vec![0; 512];
    let (stats, health) = (ssd.stats(), health(ssd));
    let units = |bytes: u64| bytes.div_ceil(1_000_000_000);
    out[0] = health.warning;
    (out[3], out[4], out[5]) = (health.spare, SPARE_THRESHOLD, health.used);
    put_u128(&mut out, 32, endurance_estimate(ssd));
    put_u128(&mut out, 48, units(stats.bytes[Op::Read as usize]));
    put_u128(&mut out, 64, units(stats.bytes[Op::Write as usize]));
    put_u128(&mut out, 80, units(media(ssd).0));
    put_u128(&mut out, 96, stats.requests[Op::Read as usize]);
    put_u128(&mut out, 112, stats.requests[Op::Write as usize]);
    put_u128(&mut out, 128, stats.unreadable_sectors);
    put_u128(&mut out, 144, errors);
    put_u128(&mut out, 160, ssd.layout().logical_bytes);
    out
}

/// OCP Datacenter NVMe SSD Specification 2.0, section 4.8.6: log page C0h.
fn ocp(ssd: &Ssd, model: &Model) -> Vec<u8> {
    let mut out = vec![0; 512];
    let blocks = blocks(ssd);
    let (written, read) = media(ssd);
    put_u128(&mut out, 0, written);
    put_u128(&mut out, 16, read);
    put(&mut out, 32, &blocks.bad.to_le_bytes()[..6]);
    let health = health(ssd);
    put(&mut out, 38, &u16::from(health.spare).to_le_bytes());
    put(&mut out, 46, &100_u16.to_le_bytes());
    put(&mut out, 48, &ssd.counters().rebuilt.to_le_bytes());
    put(&mut out, 56, &ssd.stats().unreadable_sectors.to_le_bytes());
    put(&mut out, 64, &ssd.counters().read_retries.to_le_bytes());
    out[80] = health.used;
    put(&mut out, 88, &blocks.most.to_le_bytes());
    put(&mut out, 92, &blocks.least.to_le_bytes());
    out[103] = 2;
    out[120] = (100 * blocks.free / blocks.all.max(1)) as u8;
    // Capacitors do not age; without them it says so.
    let capacitors = if ssd.config().recovery.plp { 100 } else { 0xffff_u16 };
    put(&mut out, 128, &capacitors.to_le_bytes());
    put(&mut out, 136, &ssd.stats().unaligned_writes.to_le_bytes());
    put(&mut out, 152, &model.blocks().to_le_bytes());
    put_u128(&mut out, 176, endurance_estimate(ssd));
    put(&mut out, 494, &3_u16.to_le_bytes());
    put(&mut out, 496, &OCP_GUID);
    out
}

fn unit_bytes(ssd: &Ssd) -> u64 {
    let pages = ssd.scheme::<Fdp>().map_or(0, Fdp::unit_pages);
    pages * u64::from(ssd.flash().geometry().page_bytes)
}

/// TP4146: FDP Configurations, with one configuration.
fn configurations(ssd: &Ssd, model: &Model) -> Vec<u8> {
    let handles = usize::from(model.handles);
    let size = (64 + 4 * handles).next_multiple_of(8);
    let mut out = vec![0; 16 + size];
    put(&mut out, 4, &(16 + size as u32).to_le_bytes());
    let one = &mut out[16..];
    put(one, 0, &(size as u16).to_le_bytes());
    // Valid; a volatile write cache; the reclaim group takes no bit of an identifier.
    one[2] = 1 << 7 | 1 << 4;
    put(one, 4, &1_u32.to_le_bytes());
    put(one, 8, &model.handles.to_le_bytes());
    put(one, 10, &(model.handles - 1).to_le_bytes());
    put(one, 12, &1_u32.to_le_bytes());
    put(one, 16, &unit_bytes(ssd).to_le_bytes());
    let kind = if ssd.config().streams.isolation == Isolation::Persistently { 2 } else { 1 };
    for handle in 0..handles {
        one[64 + 4 * handle] = kind;
    }
    out
}

/// TP4146: Reclaim Unit Handle Usage: the namespace has them all.
fn usage(model: &Model) -> Vec<u8> {
    let mut out = vec![0; 8 + 8 * usize::from(model.handles)];
    put(&mut out, 0, &model.handles.to_le_bytes());
    for handle in out[8..].chunks_exact_mut(8) {
        handle[0] = 1;
    }
    out
}

/// TP4146: FDP Statistics: host bytes and media bytes written, media bytes erased.
fn statistics(ssd: &Ssd) -> Vec<u8> {
    let mut out = vec![0; 64];
    let geometry = &ssd.config().geometry;
    let block = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
    put_u128(&mut out, 0, ssd.stats().bytes[Op::Write as usize]);
    put_u128(&mut out, 16, media(ssd).0);
    put_u128(&mut out, 32, ssd.counters().erases * block);
    out
}

/// TP4146: Reclaim Unit Handle Status.
fn handles(ssd: &Ssd, model: &Model) -> Vec<u8> {
    let mut out = vec![0; 16];
    put(&mut out, 14, &model.handles.to_le_bytes());
    let geometry = ssd.flash().geometry();
    let blocks = u64::from(geometry.page_bytes / geometry.sector_bytes);
    let handles = ssd.scheme::<Fdp>().into_iter().flat_map(|fdp| fdp.handles(ssd.flash()));
    for (number, handle) in handles.enumerate() {
        let mut one = [0; 32];
        put(&mut one, 0, &(number as u16).to_le_bytes());
        put(&mut one, 2, &(number as u16).to_le_bytes());
        put(&mut one, 8, &(handle.available_pages * blocks).to_le_bytes());
        out.extend(one);
    }
    out
}

/// FlashAlloc's query, our own layout: the number of live instances (4 bytes), of ranges (4), 8 bytes of
/// zero; then 32 bytes a range: instance (4), its logical blocks (4), first logical block (8), pages
/// that the instance may still write (8), its blocks of flash (4), flags (4; bit 0: the drive began it).
fn instances(ssd: &Ssd) -> Vec<u8> {
    let instances = ssd.objects();
    let mut out = vec![0; 16];
    put(&mut out, 0, &(instances.len() as u32).to_le_bytes());
    let ranges: usize = instances.iter().map(|i| i.ranges.len()).sum();
    put(&mut out, 4, &(ranges as u32).to_le_bytes());
    for (number, instance) in instances.iter().enumerate() {
        for &(first, blocks) in &instance.ranges {
            out.extend((number as u32).to_le_bytes());
            out.extend((blocks as u32).to_le_bytes());
            out.extend(first.to_le_bytes());
            out.extend(instance.pages_left.to_le_bytes());
            out.extend(instance.blocks.to_le_bytes());
            out.extend(u32::from(instance.auto).to_le_bytes());
        }
    }
    out
}

/// The placement identifiers that a reclaim unit handle update names.
pub(super) fn placements(sqe: &Sqe, data: &[u8]) -> Result<Vec<u16>, Status> {
    let count = (sqe.cdw(10) >> 16) as usize + 1;
    if data.len() < 2 * count {
        return Err(Status::SGL_LENGTH);
    }
    Ok((0..count).map(|n| wire::u16_at(data, 2 * n)).collect())
}
