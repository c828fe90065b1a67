//! Load on one queue of an NVMe/TCP controller: random requests of 4 KiB, so many at a time.
//!
//! `cargo run --release --example nvme_load -- HOST:PORT read|write DEPTH SECONDS [MIB]` prints one line of JSON:
//! requests a second, their number, and mean and median latency in microseconds.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nandle_host::initiator::{self, Host, Options};
use nandle_host::wire::op;
use nandle_lab::measure::Latency;
use nandle_random::Stream;

const BYTES: u32 = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pattern, depth, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("expected HOST:PORT read|write DEPTH SECONDS [MIB]".into());
    };
    let address: SocketAddr = address.parse()?;
    let write = match pattern.as_str() {
        "read" => false,
        "write" => true,
        other => return Err(format!("{other}: expected read or write").into()),
    };
    let (depth, seconds): (usize, f64) = (depth.parse()?, seconds.parse()?);
    let span = rest.first().map_or(Ok(64), |mib| mib.parse::<u64>())? << 20;
    let mut host = Host::connect(address, &Options::default())?;
    let blocks = BYTES / host.block_bytes()?;
    let mut draw = Stream::new(1, "places");
    let data = vec![0x5a; BYTES as usize];
    let mut under_way = HashMap::new();
    let mut latency = Latency::default();
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let start = Instant::now();
    loop {
        while under_way.len() < depth && Instant::now() < end {
            let lba = draw.below(span / u64::from(BYTES)) * u64::from(blocks);
            let sqe = initiator::blocks(if write { op::WRITE } else { op::READ }, lba, blocks);
            let (data, bytes) = if write { (data.as_slice(), 0) } else { (&[][..], BYTES) };
            let started = Instant::now();
            under_way.insert(host.io.send(sqe, data, bytes)?, started);
        }
        if under_way.is_empty() {
            break;
        }
        let done = host.io.receive()?;
        initiator::check(&done)?;
        let started: Instant = under_way.remove(&done.cid).ok_or("an answer to nothing")?;
        latency.record(u64::from(BYTES), started.elapsed().as_nanos() as u64);
    }
    let requests = latency.requests;
    println!(
        r#"{{"iops": {:.1}, "requests": {requests}, "us": {:.2}, "median_us": {:.2}}}"#,
        requests as f64 / start.elapsed().as_secs_f64(),
        latency.mean_ns() / 1e3,
        latency.percentile_ns(0.5) as f64 / 1e3,
    );
    Ok(())
}
