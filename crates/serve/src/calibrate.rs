//! What this machine can serve in real time, by transport: a drive faster than any host, and a client beside it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nandle_host::initiator::{self, Host};
use nandle_host::wire::op;
use nandle_lab::config::Wanted;
use rustix::fs::OFlags;
use serde_json::{Value, json};

use crate::listen::Place;
use crate::nbd::wire::{self, Request, command, option};
use crate::{Device, Driver, Error, Options, fuse, nbd, nvme_tcp};

/// Bytes of a request.
const BYTES: u32 = 4096;
/// Bytes that requests are spread over.
const SPAN: u64 = 64 << 20;
/// Requests at a time when as many are wanted as can be had.
const DEEP: usize = 32;

/// What one transport can do, as its client measures it.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Which.
    pub transport: &'static str,
    /// What it adds to a request when one is under way at a time, in nanoseconds: half of them, and 99%.
    pub floor_ns: [u64; 2],
    /// Requests of 4 KiB that it serves in a second, 32 at a time.
    pub most_iops: f64,
}

impl Calibration {
    /// As `nandle doctor --json` shows it.
    #[must_use]
    pub fn json(&self) -> Value {
        let [half, most] = self.floor_ns;
        json!({ "transport": self.transport, "floor_ns": { "p50": half, "p99": most }, "iops": self.most_iops })
    }
}

/// One client that reads, some at a time.
trait Reads {
    /// Asks for 4 KiB there; the request's name.
    fn send(&mut self, offset: u64) -> io::Result<u64>;
    /// The name of the next request that is answered.
    fn receive(&mut self) -> io::Result<u64>;
}

struct Nbd<S> {
    stream: BufReader<S>,
    next: u64,
    data: Vec<u8>,
}

impl<S: Read + Write> Nbd<S> {
    fn begin(mut stream: S) -> io::Result<Self> {
        stream.read_exact(&mut [0; 18])?;
        let mut hello =
            u32::from(wire::handshake::FIXED_NEWSTYLE | wire::handshake::NO_ZEROES).to_be_bytes().to_vec();
        hello.extend(wire::IHAVEOPT.to_be_bytes());
        hello.extend(option::EXPORT_NAME.to_be_bytes());
        hello.extend(0_u32.to_be_bytes());
        stream.write_all(&hello)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Self {
            stream: BufReader::with_capacity(256 << 10, stream),
            next: 0,
            data: vec![0; BYTES as usize],
        })
    }
}

impl<S: Read + Write> Reads for Nbd<S> {
    fn send(&mut self, offset: u64) -> io::Result<u64> {
        self.next += 1;
        let (command, cookie) = (command::READ, self.next);
        let request = Request { flags: 0, command, cookie, offset, length: BYTES };
        self.stream.get_mut().write_all(&wire::request_bytes(&request))?;
        Ok(cookie)
    }

    fn receive(&mut self) -> io::Result<u64> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        self.stream.read_exact(&mut self.data)?;
        wire::u64_at(&head, 8).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

struct Nvme {
    host: Host,
    blocks: u32,
}

impl Reads for Nvme {
    fn send(&mut self, offset: u64) -> io::Result<u64> {
        let lba = offset / u64::from(BYTES) * u64::from(self.blocks);
        let sqe = initiator::blocks(op::READ, lba, self.blocks);
        self.host.io.send(sqe, &[], BYTES).map(u64::from)
    }

    fn receive(&mut self) -> io::Result<u64> {
        let done = self.host.io.receive()?;
        initiator::check(&done)?;
        Ok(done.cid.into())
    }
}

/// Golden steps through the bytes: no two neighbours, and no generator to pay for.
fn next(place: &mut u64) -> u64 {
    *place = (*place + 10_127) % (SPAN / u64::from(BYTES));
    *place * u64::from(BYTES)
}

/// How long requests took, and how many a second there were.
type Load = (Vec<u64>, f64);

/// As many requests as there is time for, `depth` at a time.
fn load(client: &mut dyn Reads, depth: usize, time: Duration) -> io::Result<Load> {
    let (mut sent, mut took, mut place) = (HashMap::new(), Vec::new(), 0);
    let began = Instant::now();
    while began.elapsed() < time || !sent.is_empty() {
        while sent.len() < depth && began.elapsed() < time {
            let at = Instant::now();
            sent.insert(client.send(next(&mut place))?, at);
        }
        let name = client.receive()?;
        let at: Instant = sent.remove(&name).ok_or(io::ErrorKind::InvalidData)?;
        took.push(at.elapsed().as_nanos() as u64);
    }
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    Ok((took, rate))
}

/// The same of a file, past the page cache: a thread for each that is under way.
fn load_file(file: &File, depth: usize, time: Duration) -> io::Result<Load> {
    let began = Instant::now();
    let one = |first: u64| -> io::Result<Vec<u64>> {
        let (mut data, mut took, mut place) = (vec![0; BYTES as usize], Vec::new(), first);
        while began.elapsed() < time {
            let at = Instant::now();
            file.read_exact_at(&mut data, next(&mut place))?;
            took.push(at.elapsed().as_nanos() as u64);
        }
        Ok(took)
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..depth as u64).map(|first| scope.spawn(move || one(first))).collect();
        let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        ended.collect::<io::Result<Vec<_>>>()
    })?;
    let took = all.concat();
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    Ok((took, rate))
}

fn calibrate(
    transport: &'static str,
    time: Duration,
    mut load: impl FnMut(usize, Duration) -> io::Result<Load>,
) -> io::Result<Calibration> {
    let half = time / 2;
    let (mut alone, _) = load(1, half)?;
    alone.sort_unstable();
    let (_, most_iops) = load(DEEP, half)?;
    let at = |share: usize| alone.get(alone.len() * share / 100).copied().unwrap_or(0);
    Ok(Calibration { transport, floor_ns: [at(50), at(99)], most_iops })
}

/// Serves a drive that answers at once, on sockets in the folder `dir` and of this machine alone, and measures each
/// transport that a client can be had for, for so long.
///
/// # Errors
/// If the system refuses, or a transport does not work.
pub fn run(dir: &Path, time: Duration) -> Result<Vec<Calibration>, Error> {
    let fail = |what: &'static str| move |e: io::Error| Error::io(what, e);
    // Nothing is stored: reads take the controller's time alone.
    let drive = Wanted { device: "demo-page", ..Wanted::default() }
        .load()
        .map_err(|e| Error::input(e.to_string()))?;
    let (driver, device) = Driver::start(&drive, None, &Options { seed: 1, ..Options::default() })?;
    let thread = std::thread::Builder::new().name("drive".into()).spawn(move || driver.run());
    let thread = thread.map_err(fail("a thread for the drive"))?;
    let measured = measure(dir, &device, &drive.config, time);
    device.stop();
    let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let measured = measured?;
    ended?;
    Ok(measured)
}

fn measure(
    dir: &Path,
    device: &Device,
    config: &nandle_ssd::DeviceConfig,
    time: Duration,
) -> Result<Vec<Calibration>, Error> {
    let of = |transport, client: &mut dyn Reads| {
        calibrate(transport, time, |depth, time| load(client, depth, time))
    };
    let mut all = Vec::new();
    let path = dir.join("nbd");
    for at in [format!("unix:{}", path.display()), "127.0.0.1:0".into()] {
        let at = at.parse::<nbd::Address>().map_err(Error::input)?;
        let server = nbd::Server::start(&at, device.clone(), "calibration", None)?;
        let measured = match server.address().0 {
            Place::Tcp(at) => TcpStream::connect(at).and_then(|stream| {
                stream.set_nodelay(true)?;
                of("NBD, loopback", &mut Nbd::begin(stream)?)
            }),
            Place::Unix { .. } => {
                UnixStream::connect(&path).and_then(|stream| of("NBD, unix socket", &mut Nbd::begin(stream)?))
            }
        };
        all.push(measured.map_err(|e| Error::io("NBD", e))?);
    }
    let model = nvme_tcp::model::Model::new(config, device.shape(), "calibration");
    let at = "127.0.0.1:0".parse::<nvme_tcp::Address>().map_err(Error::input)?;
    let server = nvme_tcp::Server::start(at, device.clone(), model, None)?;
    let connected = Host::connect(server.address().0, &initiator::Options::default()).and_then(|mut host| {
        let blocks = BYTES / host.block_bytes()?;
        of("NVMe/TCP, loopback", &mut Nvme { host, blocks })
    });
    all.push(connected.map_err(|e| Error::io("NVMe/TCP", e))?);
    // Not everybody may mount.
    let path = dir.join("fuse");
    std::fs::create_dir_all(&path).map_err(|e| Error::io(path.display().to_string(), e))?;
    if let Ok(mounted) = fuse::mount(&path, device.clone()) {
        let past_the_cache = OFlags::DIRECT.bits().cast_signed();
        let file = File::options().read(true).custom_flags(past_the_cache).open(mounted.file());
        let measured =
            file.and_then(|file| calibrate("FUSE", time, |depth, time| load_file(&file, depth, time)));
        all.push(measured.map_err(|e| Error::io("FUSE", e))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_is_measured_and_none_is_free() {
        let dir = tempfile::tempdir().expect("a directory");
        let all = run(dir.path(), Duration::from_millis(200)).expect("measured");
        let names: Vec<&str> = all.iter().map(|one| one.transport).collect();
        assert_eq!(names[..3], ["NBD, unix socket", "NBD, loopback", "NVMe/TCP, loopback"]);
        // FUSE where it can be mounted.
        assert!(matches!(names[3..], [] | ["FUSE"]), "{names:?}");
        for one in all {
            // The drive takes 2 us, which no answer comes before.
            assert!(one.floor_ns[0] > 2_000 && one.floor_ns[0] <= one.floor_ns[1], "{one:?}");
            assert!(one.most_iops > 1.0 && one.most_iops < 5e5, "{one:?}");
        }
    }
}
