//! Identify's data structures, and the discovery log page.

use super::model::{
    KEEP_ALIVE_MS, MOST_CONTROLLERS, MOST_ENTRIES, MOST_ERRORS, MOST_EVENT_REQUESTS, MOST_VERIFIED, Model,
    ONE, Portal, VERSION, WARM_KELVIN,
};
use super::wire::{DISCOVERY_NQN, IN_CAPSULE, MOST_DATA, SQE, Sqe, Status, put};

const PAGE: usize = 4096;

/// The structure that Identify asks for (Base Specification, section 5.17).
///
/// # Errors
/// If there is none.
pub fn identify(model: &Model, sqe: &Sqe, controller: u16, discovery: bool) -> Result<Vec<u8>, Status> {
    let (cns, set) = (sqe.0[40], sqe.cdw(11) >> 24);
    let nsid = sqe.nsid();
    let one = |page| match nsid {
        1 => Ok(page),
        _ => Err(Status::INVALID_NAMESPACE),
    };
    match cns {
        0x01 => Ok(controller_page(model, controller, discovery)),
        _ if discovery => Err(Status::INVALID_FIELD),
        0x00 if nsid == u32::MAX => Ok(namespace(model)),
        0x00 | 0x11 => one(namespace(model)),
        // Lists of namespaces with larger identifiers than the one given.
        0x02 | 0x10 => list(nsid),
        0x07 | 0x1a if set == 0 => list(nsid),
        0x03 => one(descriptors(model)),
        // Parts of the NVM command set: no protection information; of limits beyond MDTS that of Verify.
        0x05 if set == 0 => one(vec![0; PAGE]),
        0x06 if set == 0 => {
            let mut page = vec![0; PAGE];
            page[0] = (MOST_VERIFIED / 4096).ilog2() as u8;
            Ok(page)
        }
        0x08 => one(independent()),
        // Endurance groups: count, identifiers.
        0x19 => {
            let mut page = vec![0; PAGE];
            if sqe.cdw(11) & 0xffff <= u32::from(ONE) {
                put(&mut page, 0, &1_u16.to_le_bytes());
                put(&mut page, 2, &ONE.to_le_bytes());
            }
            Ok(page)
        }
        // I/O command sets: the first combination is NVM alone.
        0x1c => {
            let mut page = vec![0; PAGE];
            page[0] = 1;
            Ok(page)
        }
        _ => Err(Status::INVALID_FIELD),
    }
}

fn list(above: u32) -> Result<Vec<u8>, Status> {
    if above >= u32::MAX - 1 {
        return Err(Status::INVALID_NAMESPACE);
    }
    let mut page = vec![0; PAGE];
    page[0] = u8::from(above == 0);
    Ok(page)
}

fn padded(page: &mut [u8], at: usize, width: usize, text: &str) {
    let bytes = text.bytes().chain(std::iter::repeat(b' ')).take(width).collect::<Vec<_>>();
    put(page, at, &bytes);
}

/// Figure 275: Identify Controller.
fn controller_page(model: &Model, id: u16, discovery: bool) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let serial: String = model.uuid.iter().take(10).map(|b| format!("{b:02x}")).collect();
    padded(&mut page, 4, 20, &serial);
    padded(&mut page, 24, 40, &format!("nandle {}", model.name));
    padded(&mut page, 64, 8, env!("CARGO_PKG_VERSION"));
    let byte = |page: &mut [u8], at: usize, value: u8| page[at] = value;
    let half = |page: &mut [u8], at: usize, value: u16| put(page, at, &value.to_le_bytes());
    let word = |page: &mut [u8], at: usize, value: u32| put(page, at, &value.to_le_bytes());
    // MDTS: in pages of 4 KiB.
    byte(&mut page, 77, (MOST_DATA / 4096).ilog2() as u8);
    half(&mut page, 78, id);
    word(&mut page, 80, VERSION);
    // CTRATT: host identifiers of 128 bits, endurance groups, FDP.
    word(&mut page, 96, 1 | 1 << 4 | u32::from(model.handles > 0) << 19);
    byte(&mut page, 111, if discovery { 2 } else { 1 });
    byte(&mut page, 259, (MOST_EVENT_REQUESTS - 1) as u8);
    // LPA: commands supported and effects, extended data.
    byte(&mut page, 261, 0b110);
    // KAS: the granularity of the keep alive timer, in units of 100 ms.
    half(&mut page, 320, (KEEP_ALIVE_MS / 100) as u16);
    half(&mut page, 514, MOST_ENTRIES);
    // SGLS: supported without alignment, keyed no, offsets in the capsule and transport descriptors.
    word(&mut page, 536, 1 | 1 << 20);
    let name = if discovery { DISCOVERY_NQN } else { &model.nqn };
    put(&mut page, 768, name.as_bytes());
    word(&mut page, 1792, (SQE as u32 + IN_CAPSULE) / 16);
    word(&mut page, 1796, 1);
    byte(&mut page, 1803, 1);
    if discovery {
        return page;
    }
    // CMIC: several hosts may have controllers of the subsystem.
    byte(&mut page, 76, 1 << 1);
    // OAES: normal shutdown of the subsystem.
    word(&mut page, 92, 1 << 15);
    // ELPE: entries of the error log, 0's based.
    byte(&mut page, 262, (MOST_ERRORS - 1) as u8);
    // OACS: directives.
    half(&mut page, 256, if model.streams > 0 || model.handles > 0 { 1 << 5 } else { 0 });
    // FRMW: one slot, read-only.
    byte(&mut page, 260, 0b11);
    half(&mut page, 266, WARM_KELVIN);
    half(&mut page, 268, WARM_KELVIN + 15);
    put(&mut page, 280, &u128::from(model.shape.bytes).to_le_bytes());
    half(&mut page, 340, ONE);
    byte(&mut page, 512, 0x66);
    byte(&mut page, 513, 0x44);
    word(&mut page, 516, 1);
    // ONCS: Compare, Dataset Management, Write Zeroes, Verify.
    half(&mut page, 520, 1 | 1 << 2 | 1 << 3 | 1 << 7);
    // VWC: there is a cache, and a flush may name all namespaces.
    byte(&mut page, 525, 0b111);
    word(&mut page, 540, 1);
    page
}

/// NVM Command Set Specification, figure 97: Identify Namespace.
fn namespace(model: &Model) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let shape = &model.shape;
    for at in [0, 8, 16] {
        put(&mut page, at, &model.blocks().to_le_bytes());
    }
    // NSFEAT: preferred write and deallocate granularity and optimal write size are told, 0's based.
    page[24] = 1 << 4;
    let blocks = (shape.page_bytes / shape.sector_bytes).max(1);
    let whole = u16::try_from(blocks - 1).unwrap_or(u16::MAX).to_le_bytes();
    put(&mut page, 64, &whole);
    put(&mut page, 72, &whole);
    // NAWUN, NAWUPF and their boundaries, the mapping units: 0's based. The controller's own fields know no boundaries,
    // and promise a block.
    let (normal, power_fail) = model.atomic;
    if normal > 0 {
        page[24] |= 1 << 1;
        for (at, count) in [(34, normal), (36, power_fail.max(1)), (40, blocks), (44, blocks)] {
            put(&mut page, at, &u16::try_from(count - 1).unwrap_or(u16::MAX).to_le_bytes());
        }
    }
    // NMIC: several controllers.
    page[30] = 1;
    // DLFEAT: deallocated blocks read as zeros, Write Zeroes may deallocate.
    page[33] = 0b1001;
    put(&mut page, 102, &ONE.to_le_bytes());
    put(&mut page, 104, &model.uuid);
    page[130] = shape.sector_bytes.ilog2() as u8;
    page
}

/// Figure 277: namespace identification descriptors.
fn descriptors(model: &Model) -> Vec<u8> {
    let mut page = Vec::with_capacity(PAGE);
    for kind in [2, 3] {
        page.extend([kind, 16, 0, 0]);
        page.extend(model.uuid);
    }
    // The NVM command set.
    page.extend([4, 1, 0, 0, 0]);
    page.resize(PAGE, 0);
    page
}

/// Figure 280: I/O command set independent Identify Namespace.
fn independent() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[1] = 1;
    put(&mut page, 12, &ONE.to_le_bytes());
    // NSTAT: ready.
    page[14] = 1;
    page
}

/// Figure 264: the discovery log page, with one entry.
#[must_use]
pub fn discovery_log(model: &Model, portal: &Portal) -> Vec<u8> {
    let mut page = vec![0; 2048];
    put(&mut page, 0, &1_u64.to_le_bytes());
    put(&mut page, 8, &1_u64.to_le_bytes());
    let entry = &mut page[1024..];
    // TCP, IPv4 or IPv6, an NVM subsystem, no secure channel and flow control may be off.
    entry[..4].copy_from_slice(&[3, if portal.is_ipv4() { 1 } else { 2 }, 2, 1 << 2 | 2]);
    put(entry, 4, &1_u16.to_le_bytes());
    put(entry, 6, &0xffff_u16.to_le_bytes());
    put(entry, 8, &32_u16.to_le_bytes());
    padded(entry, 32, 32, &portal.port().to_string());
    put(entry, 256, model.nqn.as_bytes());
    padded(entry, 512, 256, &portal.ip().to_string());
    page
}

const _: () = assert!(MOST_CONTROLLERS < 0xfff0);
