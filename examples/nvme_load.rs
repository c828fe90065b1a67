//! Load on NVMe/TCP controllers: random requests of one size, so many at a time on each of some connections.
//!
//! `cargo run --release --example nvme_load -- HOST:PORT read|write DEPTH SECONDS [MIB [KIB [CONNECTIONS]]]` prints one
//! line of JSON: requests a second, their number, and mean and median latency in microseconds. Requests are of 4 KiB
//! within the first 64 MiB, from one connection, unless told otherwise.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nandle_host::initiator::{self, Host, Options};
use nandle_host::wire::op;
use nandle_lab::measure::Latency;
use nandle_random::Stream;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What every connection asks for.
#[derive(Clone, Copy)]
struct Load {
    address: SocketAddr,
    write: bool,
    depth: usize,
    time: Duration,
    span: u64,
    bytes: u32,
}

impl Load {
    /// Latencies of one connection's requests.
    fn run(self, seed: u64) -> Result<Latency, Failed> {
        let Self { address, write, depth, time, span, bytes } = self;
        let mut host = Host::connect(address, &Options::default())?;
        let blocks = bytes / host.block_bytes()?;
        let mut draw = Stream::new(seed, "places");
        let data = vec![0x5a; bytes as usize];
        let mut under_way = HashMap::new();
        let mut latency = Latency::default();
        let end = Instant::now() + time;
        loop {
            while under_way.len() < depth && Instant::now() < end {
                let lba = draw.below(span / u64::from(bytes)) * u64::from(blocks);
                let sqe = initiator::blocks(if write { op::WRITE } else { op::READ }, lba, blocks);
                let (data, room) = if write { (data.as_slice(), 0) } else { (&[][..], bytes) };
                let started = Instant::now();
                under_way.insert(host.io.send(sqe, data, room)?, started);
            }
            if under_way.is_empty() {
                return Ok(latency);
            }
            let done = host.io.receive()?;
            initiator::check(&done)?;
            let started: Instant = under_way.remove(&done.cid).ok_or("an answer to nothing")?;
            latency.record(u64::from(bytes), started.elapsed().as_nanos() as u64);
        }
    }
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pattern, depth, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("expected HOST:PORT read|write DEPTH SECONDS [MIB [KIB [CONNECTIONS]]]".into());
    };
    let write = match pattern.as_str() {
        "read" => false,
        "write" => true,
        other => return Err(format!("{other}: expected read or write").into()),
    };
    let more = |n: usize, or: u64| rest.get(n).map_or(Ok(or), |number| number.parse::<u64>());
    let load = Load {
        address: address.parse()?,
        write,
        depth: depth.parse()?,
        time: Duration::from_secs_f64(seconds.parse()?),
        span: more(0, 64)? << 20,
        bytes: u32::try_from(more(1, 4)? << 10)?,
    };
    let connections = more(2, 1)?;
    let start = Instant::now();
    let all: Vec<Latency> = std::thread::scope(|scope| {
        let running: Vec<_> = (1..=connections).map(|seed| scope.spawn(move || load.run(seed))).collect();
        running.into_iter().map(|one| one.join().expect("no panic")).collect::<Result<_, _>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let mut latency = Latency::default();
    all.iter().for_each(|one| latency.add(one));
    let requests = latency.requests;
    println!(
        r#"{{"iops": {:.1}, "requests": {requests}, "us": {:.2}, "median_us": {:.2}}}"#,
        requests as f64 / seconds,
        latency.mean_ns() / 1e3,
        latency.percentile_ns(0.5) as f64 / 1e3,
    );
    Ok(())
}
