//! Memory that a drive takes, and memory that there is: asked before any of it is taken, since a program that runs out
//! of it is ended without a word.

use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::Error;
use crate::config::Drive;
use crate::resources::kib;
use crate::units::bytes;

/// Bytes for each page of flash: its out-of-band area and its sequence number.
const PAGE: u64 = 12;
/// For each sector whose contents are kept: where they are.
const PLACE: u64 = 4;
/// For each logical page: its entry, and whether it was written.
const ENTRY: u64 = 5;
/// For each logical page of a drive with a write buffer: whether, and where, it is in it.
const BUFFERED: u64 = 4;
/// For each block, with all that is kept by block.
const BLOCK: u64 = 256;
/// Code, threads, requests under way.
const BESIDE: u64 = 32 << 20;

/// Bytes that a drive takes before it is written, keeping `unit` bytes a sector: without those bytes themselves.
#[must_use]
pub fn tables(drive: &Drive, unit: usize) -> u64 {
    let (g, buffer) = (drive.config.unit_geometry(), &drive.config.buffer);
    let sectors = if unit > 0 { g.pages() * u64::from(g.sectors_per_page()) } else { 0 };
    let buffered = if unit > 0 { buffer.bytes / u64::from(g.sector_bytes) * unit as u64 } else { 0 };
    let index = if buffer.bytes > 0 { BUFFERED } else { 0 };
    let map = (ENTRY + index) * u64::from(drive.layout.logical_pages);
    BESIDE + PAGE * g.pages() + PLACE * sectors + map + BLOCK * g.blocks() + buffered
}

/// The least memory that anything leaves this process, beside what it has, and what that is; none if nothing is known.
#[must_use]
pub fn available() -> Option<(u64, &'static str)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let (mapped, resident) = (kib(&status, "VmSize:").unwrap_or(0), kib(&status, "VmRSS:").unwrap_or(0));
    let limit = getrlimit(Resource::As).current.map(|most| (most.saturating_sub(mapped), "ulimit -v"));
    let group = group_limit().map(|most| (most.saturating_sub(resident), "memory.max of its control group"));
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib(&text, "MemAvailable:"));
    let machine = machine.map(|most| (most, "MemAvailable"));
    [limit, group, machine].into_iter().flatten().min()
}

/// Refuses what needs more memory than there is.
///
/// # Errors
/// If it does: how much that is, and how much there is.
pub fn check(what: &str, need: u64) -> Result<(), Error> {
    match available() {
        Some((most, whose)) if need > most => Err(Error::input(format!(
            "{what} needs {need} bytes of memory ({}), and {most} are to be had ({whose}); expected a smaller device, or \
             more memory",
            bytes(need)
        ))),
        _ => Ok(()),
    }
}

/// The smallest limit of this process' control group and those above it.
fn group_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    // Version 2 has one line, 0::PATH; version 1 one for each controller.
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let here = Path::new(root).join(path.trim_start_matches('/'));
        let limits = here.ancestors().take_while(|dir| dir.starts_with(root));
        let limit = |dir: &Path| std::fs::read_to_string(dir.join(file)).ok()?.trim().parse::<u64>().ok();
        limits.filter_map(limit).min()
    };
    groups.lines().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Wanted;

    #[test]
    fn what_there_is_is_known_here_and_what_is_too_much_is_refused() {
        let (most, _) = available().expect("a Linux machine tells");
        assert!(most > 1 << 20, "{most}");
        check("this", 1).expect("a byte");
        let error = check("this", 1 << 60).expect_err("too much");
        assert!(error.is_input() && error.to_string().contains(&(1_u64 << 60).to_string()), "{error}");
    }

    #[test]
    fn tables_grow_with_the_drive() {
        let drive = |blocks: u32| {
            let sets = [format!("geometry.blocks_per_plane={blocks}")];
            Wanted { device: "demo", scheme: None, sets: &sets }.load().expect("a drive")
        };
        let (small, large) = (drive(100), drive(200));
        for unit in [0, 8] {
            let (small, large) = (tables(&small, unit) - BESIDE, tables(&large, unit) - BESIDE);
            assert!(large > small * 19 / 10 && large < small * 21 / 10, "{small}, {large}");
        }
    }
}
