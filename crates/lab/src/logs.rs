//! Results in the words of other tools: fio's JSON tree, and the log pages that nvme-cli prints.

use serde_json::{Map, Value, json};

use crate::measure::Summary;
use crate::measure::summary::Requests;
use crate::run::{Loaded, Outcome};

/// fio's version whose JSON layout this is.
const FIO_LAYOUT: &str = "fio-3.36";
/// Upper ends of fio's latency classes, in ns, us or ms.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The tree that `fio --output-format=json` prints, of one job. The host's queue is part of the
/// device's time here: `clat` is the whole latency and `slat` has no samples.
#[must_use]
pub fn fio(outcome: &Outcome, seconds_since_1970: u64) -> Value {
    let s = &outcome.summary;
    let h = &s.host;
    let runtime_ms = s.simulated_ns / 1_000_000;
    let mut job = json!({
        "jobname": s.workload,
        "groupid": 0,
        "error": i32::from(!s.complete),
        "eta": 0,
        "elapsed": s.simulated_ns.div_ceil(1_000_000_000),
        "job options": { "name": s.workload, "device": s.device, "scheme": s.scheme, "randseed": s.seed.to_string() },
        "read": direction(&h.read, runtime_ms),
        "write": direction(&h.write, runtime_ms),
        "trim": direction(&(&h.trim).into(), runtime_ms),
        "sync": { "total_ios": h.flush.requests, "lat_ns": with_percentiles(&h.flush) },
        "job_runtime": runtime_ms,
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
    });
    // A bucket of the histograms is in one class: that of its end.
    let buckets: Vec<(u64, u64)> =
        outcome.meter.latency[..3].iter().flat_map(|latency| latency.tally.recorded()).collect();
    let total = buckets.iter().map(|b| b.1).sum::<u64>().max(1) as f64;
    let percent = |low: u64, high: u64| {
        let within: u64 = buckets.iter().filter(|b| (low..high).contains(&b.0)).map(|b| b.1).sum();
        within as f64 * 100.0 / total
    };
    let classes = |unit: u64| {
        let mut out = Map::new();
        let mut low = if unit == 1 { 0 } else { unit };
        for class in CLASSES {
            out.insert(class.to_string(), json!(percent(low, class * unit)));
            low = class * unit;
        }
        out
    };
    let (ns, us, mut ms) = (classes(1), classes(1_000), classes(1_000_000));
    ms.insert("2000".into(), json!(percent(1_000_000_000, 2_000_000_000)));
    ms.insert(">=2000".into(), json!(percent(2_000_000_000, u64::MAX)));
    // Depths are not sampled.
    let depths =
        |names: [&str; 7]| names.map(|name| (name.to_owned(), json!(0.0))).into_iter().collect::<Map<_, _>>();
    let levels = depths(["1", "2", "4", "8", "16", "32", ">=64"]);
    let batches = depths(["0", "4", "8", "16", "32", "64", ">=64"]);
    for (key, value) in
        [("iodepth_level", levels), ("iodepth_submit", batches.clone()), ("iodepth_complete", batches)]
    {
        job[key] = Value::Object(value);
    }
    for (key, value) in [("latency_ns", ns), ("latency_us", us), ("latency_ms", ms)] {
        job[key] = Value::Object(value);
    }
    for (key, value) in [
        ("latency_depth", 0.0),
        ("latency_target", 0.0),
        ("latency_percentile", 100.0),
        ("latency_window", 0.0),
    ] {
        job[key] = json!(value);
    }
    json!({
        "fio version": format!("{FIO_LAYOUT}-nandle-{}", s.version),
        "timestamp": seconds_since_1970,
        "timestamp_ms": seconds_since_1970 * 1000,
        "time": "",
        "global options": {},
        "jobs": [job],
        "disk_util": [],
        "nandle": s,
    })
}

fn direction(r: &Requests, runtime_ms: u64) -> Value {
    let empty = json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 });
    json!({
        "io_bytes": r.bytes,
        "io_kbytes": r.bytes / 1024,
        "bw_bytes": r.bw_bytes as u64,
        "bw": r.bw_bytes as u64 / 1024,
        "iops": r.iops,
        "runtime": if r.requests > 0 { runtime_ms } else { 0 },
        "total_ios": r.requests,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": empty,
        "clat_ns": with_percentiles(r),
        "lat_ns": moments(r),
        "bw_min": 0, "bw_max": 0, "bw_agg": 100.0, "bw_mean": r.bw_bytes / 1024.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": 0, "iops_max": 0, "iops_mean": r.iops, "iops_stddev": 0.0, "iops_samples": 0,
    })
}

fn moments(r: &Requests) -> Value {
    let l = &r.lat_ns;
    json!({ "min": l.min, "max": l.max, "mean": l.mean, "stddev": l.stddev, "N": r.requests })
}

fn with_percentiles(r: &Requests) -> Value {
    let mut value = moments(r);
    if r.requests > 0 {
        value["percentile"] = json!(r.lat_ns.percentile);
    }
    value
}

/// Percent of spare blocks below which a drive warns.
const SPARE_THRESHOLD: u64 = 10;

/// A log page of an NVMe device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// SMART / Health Information (02h), as `nvme smart-log -o json` prints it.
    NvmeSmart,
    /// OCP Datacenter NVMe SSD specification's SMART extended log (C0h), as `nvme ocp smart-add-log -o json`.
    OcpC0,
    /// FDP Statistics (22h), as `nvme fdp stats -o json`.
    FdpStats,
}

impl std::str::FromStr for Page {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "nvme-smart" => Ok(Self::NvmeSmart),
            "ocp-c0" => Ok(Self::OcpC0),
            "fdp-stats" => Ok(Self::FdpStats),
            _ => Err("expected nvme-smart, ocp-c0 or fdp-stats".into()),
        }
    }
}

/// A log page of the device at the end of a run, counting the measured part. What the model has no
/// notion of (temperature, end-to-end protection, PCIe) is 0.
///
/// # Errors
/// If the run's configuration cannot be read back.
pub fn page(page: Page, run: &Loaded) -> Result<Value, crate::Error> {
    let config = crate::config::parse(&run.config).map_err(|e| {
        crate::Error::input(format!("{}: {}", run.path.join("config.resolved.toml").display(), e.message()))
    })?;
    let s = &run.summary;
    Ok(match page {
        Page::NvmeSmart => nvme_smart(s, &config),
        Page::OcpC0 => ocp_c0(s, &config),
        Page::FdpStats => fdp_stats(s, &config),
    })
}

fn percent_used(s: &Summary, config: &nandle_ssd::DeviceConfig) -> u64 {
    match config.cell.endurance {
        0 => 0,
        endurance => ((s.wear.erase_mean * 100.0 / f64::from(endurance)) as u64).min(255),
    }
}

/// Spare blocks that are left, in percent: as many go bad as over-provisioning has.
fn spare_left(s: &Summary, config: &nandle_ssd::DeviceConfig) -> u64 {
    let bad = s.wear.bad_blocks as f64 / config.geometry.blocks().max(1) as f64;
    let spare = (s.op_ratio / (1.0 + s.op_ratio)).max(1e-9);
    (100.0 * (1.0 - bad / spare)).clamp(0.0, 100.0) as u64
}

fn nvme_smart(s: &Summary, config: &nandle_ssd::DeviceConfig) -> Value {
    // Thousands of 512-byte units, rounded up.
    let units = |bytes: u64| bytes.div_ceil(512_000);
    let spare = spare_left(s, config);
    let warning = u64::from(spare < SPARE_THRESHOLD) | u64::from(s.faults.read_only) << 3;
    json!({
        "critical_warning": warning,
        "temperature": 0,
        "avail_spare": spare,
        "spare_thresh": SPARE_THRESHOLD,
        "percent_used": percent_used(s, config),
        "endurance_grp_critical_warning_summary": warning,
        "data_units_read": units(s.host.read.bytes),
        "data_units_written": units(s.host.write.bytes),
        "host_read_commands": s.host.read.requests,
        "host_write_commands": s.host.write.requests,
        "controller_busy_time": s.simulated_ns / 60_000_000_000,
        "power_cycles": 1 + s.recovery.cuts,
        "power_on_hours": s.simulated_ns / 3_600_000_000_000,
        "unsafe_shutdowns": s.recovery.cuts,
        "media_errors": s.faults.unreadable_sectors,
        "num_err_log_entries": s.host.rejected,
        "warning_temp_time": 0,
        "critical_comp_time": 0,
        "thm_temp1_trans_count": 0,
        "thm_temp2_trans_count": 0,
        "thm_temp1_total_time": 0,
        "thm_temp2_total_time": 0,
    })
}

fn ocp_c0(s: &Summary, config: &nandle_ssd::DeviceConfig) -> Value {
    let page = u64::from(config.geometry.page_bytes);
    // Capacitors carry a drive that has them through a power cut: only without them it is incomplete.
    let plp = config.recovery.plp;
    let (incomplete, carried) = if plp { (0, s.recovery.cuts) } else { (s.recovery.cuts, 0) };
    json!({
        "Physical media units written": { "hi": 0, "lo": s.flash.bytes_programmed },
        "Physical media units read": { "hi": 0, "lo": s.flash.reads.total * page },
        "Bad user nand blocks - Raw": s.wear.bad_blocks,
        "Bad user nand blocks - Normalized": spare_left(s, config),
        "Bad system nand blocks - Raw": 0,
        "Bad system nand blocks - Normalized": 100,
        "XOR recovery count": s.flash.rebuilt,
        "Uncorrectable read error count": s.faults.unreadable_sectors,
        "Soft ecc error count": s.flash.read_retries,
        "End to end detected errors": 0,
        "End to end corrected errors": 0,
        "System data percent used": percent_used(s, config),
        "Refresh counts": 0,
        "Max User data erase counts": s.wear.erase_max,
        "Min User data erase counts": s.wear.erase_min,
        "Number of Thermal throttling events": 0,
        "Current throttling status": 0,
        "PCIe correctable error count": 0,
        "Incomplete shutdowns": incomplete,
        "Percent free blocks": (s.op_effective_ratio.max(0.0) / (1.0 + s.op_effective_ratio.max(0.0)) * 100.0) as u64,
        "Capacitor health": if plp { 100 } else { 0xFFFF },
        "Unaligned I/O": s.host.unaligned_writes,
        "Security Version Number": 0,
        "NUSE - Namespace utilization": s.device_bytes.logical / u64::from(config.geometry.sector_bytes),
        "PLP start count": carried.to_string(),
        "Endurance estimate": u64::from(config.cell.endurance) * s.device_bytes.raw / 1_000_000_000,
        "Log page version": 2,
        "Log page GUID": "0xafd514c97c6f4f9ca4f2bfea2810afc5",
    })
}

fn fdp_stats(s: &Summary, config: &nandle_ssd::DeviceConfig) -> Value {
    let block = u64::from(config.geometry.page_bytes) * u64::from(config.geometry.pages_per_block);
    json!({
        "hbmw": s.host.write.bytes,
        "mbmw": s.flash.bytes_programmed,
        "mbe": s.flash.erases * block,
    })
}
