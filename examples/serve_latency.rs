//! How close a served drive comes to its model: 4 KiB reads, one at a time, over an NBD socket.
//!
//! The floor is the same with timing off, measured in the same run: what socket, threads and model
//! take by themselves. `cargo run --release --example serve_latency`

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use nandle_lab::config::Wanted;
use nandle_lab::measure::Latency;
use nandle_serve::listen::Place;
use nandle_serve::nbd::wire::{self, Request, command, option};
use nandle_serve::nbd::{Address, Server};
use nandle_serve::{Driver, Options, Timing};

const READS: u64 = 5000;
const SPAN: u64 = 16 << 20;

struct Client(UnixStream);

impl Client {
    fn connect(path: &Path) -> std::io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.read_exact(&mut [0; 18])?;
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(wire::IHAVEOPT.to_be_bytes());
        hello.extend(option::EXPORT_NAME.to_be_bytes());
        hello.extend(0_u32.to_be_bytes());
        stream.write_all(&hello)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Self(stream))
    }

    fn ask(&mut self, command: u16, offset: u64, length: u32, data: &[u8]) -> std::io::Result<()> {
        let mut bytes = wire::request_bytes(&Request { flags: 0, command, cookie: 1, offset, length });
        bytes.extend(data);
        self.0.write_all(&bytes)?;
        let wanted = 16 + if command == command::READ { length as usize } else { 0 };
        self.0.read_exact(&mut vec![0; wanted])
    }
}

/// Latencies of the reads as the client sees them, and as the model has them on average.
fn measure(timing: Timing, socket: &Path) -> Result<(Latency, f64), Box<dyn std::error::Error>> {
    // 100 us in all: array, transfer, controller.
    let sets = ["timing.read_ns=[93580,93580,93580]".to_owned(), "buffer.bytes=0".to_owned()];
    let drive = Wanted { device: "demo-page", scheme: None, sets: &sets }.load()?;
    let (driver, device) = Driver::start(&drive, None, &Options { timing, seed: 1, ..Options::default() })?;
    let server = Server::start(&Address(Place::unix(socket)), device.clone(), "latency")?;
    let thread = std::thread::spawn(move || driver.run());
    let mut client = Client::connect(socket)?;
    for offset in (0..SPAN).step_by(1 << 20) {
        client.ask(command::WRITE, offset, 1 << 20, &vec![1; 1 << 20])?;
    }
    client.ask(command::FLUSH, 0, 0, &[])?;
    let mut seen = Latency::default();
    for n in 0..READS {
        let offset = n * 7919 % (SPAN / 4096) * 4096;
        let start = Instant::now();
        client.ask(command::READ, offset, 4096, &[])?;
        seen.record(4096, start.elapsed().as_nanos() as u64);
    }
    device.stop();
    let ended = thread.join().map_err(|_| "the driver panicked")??;
    drop(server);
    Ok((seen, ended.report.mean_ns[0]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("nandle-latency-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let socket = dir.join("socket");
    let us = |ns: f64| ns / 1000.0;
    let (floor, _) = measure(Timing::Off, &socket)?;
    let (seen, model) = measure(Timing::Real, &socket)?;
    println!("{READS} reads of 4 KiB, one at a time, over a socket (us)");
    println!("               mean      50%      99%");
    for (name, latency) in [("floor", &floor), ("served", &seen)] {
        let at = |share| us(latency.percentile_ns(share) as f64);
        println!("{name:<9} {:>9.1} {:>8.1} {:>8.1}", us(latency.mean_ns()), at(0.5), at(0.99));
    }
    println!("model     {:>9.1}", us(model));
    let expected = model + floor.percentile_ns(0.5) as f64;
    let median = seen.percentile_ns(0.5) as f64;
    println!("median / (model + median floor) = {:.3}", median / expected);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
