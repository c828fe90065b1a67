//! A small initiator: one controller, one I/O queue, one command at a time or several.
//!
//! For `nandle flashalloc` and for tests; it trusts the controller to be no worse than wrong.

use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nandle_io::{Range, encode};

use crate::wire::{
    DISCOVERY_NQN, Digests, Done, HEAD, IN_CAPSULE, SGL_IN_CAPSULE, SGL_TRANSPORT, SQE, Sqe, Status,
    are_sound, before_data, build, data_of, digest_of, flag, header_of, op, pdu, put, text, u16_at, u32_at,
    u64_at,
};

/// Largest PDU that is taken from a controller.
const MOST_PDU: u32 = (2 << 20) + 256;
/// The most data in a PDU to the controller, however much it would take.
const MOST_H2C: usize = 128 << 10;
/// How long to wait for a controller that says nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Dataset Management's attribute: deallocate.
const DEALLOCATE: u32 = 4;

/// How to connect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Digests to ask for.
    pub digests: Digests,
    /// Keep alive timer, in milliseconds; 0 = none.
    pub keep_alive_ms: u32,
    /// No flow control of the submission queue.
    pub no_flow_control: bool,
    /// How long to wait for a connection as a whole, and for each answer as a whole; a minute if none.
    pub patience: Option<Duration>,
}

/// A connection that is a queue.
pub struct Queue {
    reader: BufReader<Timed>,
    patience: Duration,
    /// By when everything must be over, while several commands are one operation.
    limit: Option<Instant>,
    digests: Digests,
    most_h2c: usize,
    next: u16,
    /// Data of commands that may be asked for, and data that came.
    data: Vec<(u16, Vec<u8>)>,
    came: Vec<(u16, Vec<u8>)>,
    /// The controller that Connect gave.
    pub controller: u16,
}

/// By when what is begun now must be over.
fn by(options: &Options) -> Instant {
    Instant::now() + options.patience.unwrap_or(PATIENCE)
}

fn left(by: Instant) -> io::Result<Duration> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no whole answer in time");
    by.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or_else(late)
}

/// A connection that is read and written until a certain time: a byte now and then buys nothing.
struct Timed {
    stream: TcpStream,
    by: Instant,
    /// How long the system lets a read or write wait.
    armed: Option<Duration>,
}

impl Timed {
    /// Before it waits. What the system allows is not set again for a little: that would be two system calls more
    /// for each answer.
    fn arm(&mut self) -> io::Result<()> {
        let left = left(self.by)?;
        if self.armed.is_none_or(|armed| armed > left + left / 8 || armed < left / 2) {
            self.stream.set_read_timeout(Some(left))?;
            self.stream.set_write_timeout(Some(left))?;
            self.armed = Some(left);
        }
        Ok(())
    }

    fn judge(&self, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                // Before its time it is tried again.
                left(self.by).and(Err(io::ErrorKind::Interrupted.into()))
            }
            result => result,
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.arm()?;
        let result = self.stream.read(buf);
        self.judge(result)
    }
}

impl Write for Timed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.arm()?;
        let result = self.stream.write(buf);
        self.judge(result)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.arm()?;
        let result = self.stream.write_vectored(pieces);
        self.judge(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all of these, with as few calls as it takes.
fn write_together(to: &mut Timed, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    while pieces.iter().any(|piece| !piece.is_empty()) {
        match to.write_vectored(pieces) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut pieces, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn bad(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// A submission queue entry with opcode, namespace and command dwords 10 to 15.
#[must_use]
pub fn entry(opcode: u8, nsid: u32, dwords: [u32; 6]) -> Sqe {
    let mut sqe = [0; SQE];
    sqe[0] = opcode;
    put(&mut sqe, 4, &nsid.to_le_bytes());
    for (n, dword) in dwords.iter().enumerate() {
        put(&mut sqe, 40 + 4 * n, &dword.to_le_bytes());
    }
    Sqe(sqe)
}

/// The first dwords of a command on logical blocks.
#[must_use]
pub fn blocks(opcode: u8, lba: u64, count: u32) -> Sqe {
    entry(opcode, 1, [lba as u32, (lba >> 32) as u32, count - 1, 0, 0, 0])
}

impl Queue {
    /// Connects to `address` and initialises the connection.
    ///
    /// # Errors
    /// If nobody is there, or it is no NVMe/TCP controller.
    pub fn open(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let mut queue = Self::open_by(address, options, by(options))?;
        queue.limit = None;
        Ok(queue)
    }

    /// The same, as a part of what must be over by `limit`.
    fn open_by(address: SocketAddr, options: &Options, limit: Instant) -> io::Result<Self> {
        let digests = options.digests;
        let stream = TcpStream::connect_timeout(&address, left(limit)?)?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(Timed { stream, by: limit, armed: None });
        let mut bytes = [0; 128];
        (bytes[0], bytes[2], bytes[4], bytes[11]) = (pdu::IC_REQ, 128, 128, digests.byte());
        reader.get_mut().write_all(&bytes)?;
        reader.read_exact(&mut bytes)?;
        if bytes[0] != pdu::IC_RESP || u32_at(&bytes, 4) != 128 {
            return Err(bad("not an NVMe/TCP controller"));
        }
        Ok(Self {
            reader,
            patience: options.patience.unwrap_or(PATIENCE),
            limit: Some(limit),
            digests: Digests::of(bytes[11]),
            most_h2c: (u32_at(&bytes, 12) as usize).min(MOST_H2C),
            next: 0,
            data: vec![],
            came: vec![],
            controller: 0xffff,
        })
    }

    /// Connect: from now on it is queue `queue` of `controller` (FFFFh: of a new one).
    ///
    /// # Errors
    /// If the connection fails; the status if the controller refuses.
    pub fn connect(&mut self, nqn: &str, queue: u16, controller: u16, options: &Options) -> io::Result<Done> {
        let mut sqe = entry(op::FABRICS, 0, [0; 6]);
        sqe.0[4] = op::CONNECT;
        put(&mut sqe.0, 42, &queue.to_le_bytes());
        put(&mut sqe.0, 44, &31_u16.to_le_bytes());
        sqe.0[46] = u8::from(options.no_flow_control) << 2;
        put(&mut sqe.0, 48, &options.keep_alive_ms.to_le_bytes());
        let mut data = vec![0; 1024];
        data[..16].copy_from_slice(b"nandle initiator");
        put(&mut data, 16, &controller.to_le_bytes());
        put(&mut data, 256, nqn.as_bytes());
        let host = "nqn.2014-08.org.nvmexpress:uuid:6e616e64-6c65-8000-8000-696e69746961";
        put(&mut data, 512, host.as_bytes());
        let done = self.command(sqe, &data, 0)?;
        self.controller = done.result as u16;
        Ok(done)
    }

    /// Sends a command whose data are `data` to the controller, or `bytes` from it; its identifier.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, mut sqe: Sqe, data: &[u8], bytes: u32) -> io::Result<u16> {
        let cid = self.next;
        self.next = self.next.wrapping_add(1);
        put(&mut sqe.0, 2, &cid.to_le_bytes());
        sqe.0[1] |= 0x40;
        let capsule = data.len() <= IN_CAPSULE as usize && !data.is_empty();
        let kind = if capsule { SGL_IN_CAPSULE } else { SGL_TRANSPORT };
        let length = if data.is_empty() { bytes } else { data.len() as u32 };
        put(&mut sqe.0, 32, &length.to_le_bytes());
        sqe.0[39] = kind;
        let mut out = Vec::with_capacity(128 + if capsule { data.len() } else { 0 });
        build(&mut out, pdu::COMMAND, 0, &sqe.0, if capsule { data } else { &[] }, self.digests, 4);
        if !capsule && !data.is_empty() {
            self.data.push((cid, data.to_vec()));
        }
        self.begin();
        self.reader.get_mut().write_all(&out)?;
        Ok(cid)
    }

    /// The next command to end. Sends data that the controller asks for meanwhile.
    ///
    /// # Errors
    /// If the connection fails, or the controller says what it may not.
    pub fn receive(&mut self) -> io::Result<Done> {
        self.begin();
        loop {
            let mut bytes = [0; 256];
            self.reader.read_exact(&mut bytes[..HEAD])?;
            let length = u32_at(&bytes, 4);
            if !(24..=MOST_PDU).contains(&length) {
                return Err(bad(format!("a PDU of {length} bytes")));
            }
            let end = before_data(&bytes, 24, self.digests);
            self.reader.read_exact(&mut bytes[HEAD..end])?;
            let header = &bytes[..end];
            let kind = header[0];
            if kind == pdu::C2H_TERM {
                let (fatal, field) = (u16_at(header, 8), u32_at(header, 10));
                return Err(bad(format!("the controller gave up: error {fatal}, byte {field}")));
            }
            let size = data_of(header, 24, self.digests).map_err(|(e, _)| bad(format!("{e:?}")))?;
            let cid = u16_at(header, 8);
            match kind {
                pdu::C2H_DATA => {
                    let slot = match self.came.iter().position(|(c, _)| *c == cid) {
                        Some(slot) => slot,
                        None => {
                            self.came.push((cid, vec![]));
                            self.came.len() - 1
                        }
                    };
                    let data = &mut self.came[slot].1;
                    let at = data.len();
                    if at != u32_at(header, 12) as usize {
                        return Err(bad("data out of order"));
                    }
                    // With the digest behind them.
                    data.resize(at + length as usize - end, 0);
                    self.reader.read_exact(&mut data[at..])?;
                    if !are_sound(&data[at..], self.digests) {
                        return Err(bad("the digest of the data is wrong"));
                    }
                    data.truncate(at + size);
                    if header[1] & flag::SUCCESS != 0 {
                        return Ok(self.done(cid, Status::OK, 0));
                    }
                }
                _ if size > 0 => return Err(bad(format!("a PDU of type {kind:02x}h with data"))),
                pdu::R2T => {
                    let (tag, from) = (u16_at(header, 10), u32_at(header, 12) as usize);
                    self.answer(cid, tag, from, u32_at(header, 16) as usize)?;
                }
                pdu::RESPONSE => {
                    let status = Status(u16_at(header, 22) >> 1);
                    return Ok(self.done(u16_at(header, 20), status, u64_at(header, 8)));
                }
                other => return Err(bad(format!("a PDU of type {other:02x}h"))),
            }
        }
    }

    /// The controller's time for the next answer begins.
    fn begin(&mut self) {
        self.reader.get_mut().by = self.limit.unwrap_or_else(|| Instant::now() + self.patience);
    }

    fn done(&mut self, cid: u16, status: Status, result: u64) -> Done {
        self.data.retain(|(c, _)| *c != cid);
        let came = self.came.iter().position(|(c, _)| *c == cid);
        let data = came.map_or_else(Vec::new, |slot| self.came.swap_remove(slot).1);
        Done { cid, status, result, data }
    }

    fn answer(&mut self, cid: u16, tag: u16, from: usize, bytes: usize) -> io::Result<()> {
        let data = self.data.iter().find(|(c, _)| *c == cid).and_then(|(_, d)| d.get(from..from + bytes));
        let data = data.ok_or_else(|| bad("data were asked for that there are not"))?;
        for (n, part) in data.chunks(self.most_h2c.max(1)).enumerate() {
            let at = from + n * self.most_h2c;
            let mut body = [0; 16];
            put(&mut body, 0, &cid.to_le_bytes());
            put(&mut body, 2, &tag.to_le_bytes());
            put(&mut body, 4, &(at as u32).to_le_bytes());
            put(&mut body, 8, &(part.len() as u32).to_le_bytes());
            let last = if at + part.len() == from + bytes { flag::LAST } else { 0 };
            let mut head = Vec::with_capacity(64);
            header_of(&mut head, pdu::H2C_DATA, last, &body, part.len(), self.digests, 4);
            let digest = if self.digests.data { &digest_of(part)[..] } else { &[] };
            write_together(self.reader.get_mut(), &mut [&head, part, digest].map(IoSlice::new))?;
        }
        Ok(())
    }

    /// One command and its end.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn command(&mut self, sqe: Sqe, data: &[u8], bytes: u32) -> io::Result<Done> {
        let cid = self.send(sqe, data, bytes)?;
        let done = self.receive()?;
        if done.cid != cid {
            return Err(bad(format!("an answer to command {}, expected {cid}", done.cid)));
        }
        Ok(done)
    }

    /// The socket, for bytes that are no PDU.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.reader.get_ref().stream
    }
}

/// A controller with an I/O queue.
pub struct Host {
    /// The admin queue.
    pub admin: Queue,
    /// The I/O queue.
    pub io: Queue,
}

impl Host {
    /// Connects to the subsystem that the discovery controller at `address` names.
    ///
    /// # Errors
    /// If there is none, or it refuses.
    pub fn connect(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let limit = by(options);
        let nqn = discover_by(address, options, limit)?;
        let mut admin = Queue::open_by(address, options, limit)?;
        check(&admin.connect(&nqn, 0, 0xffff, options)?)?;
        enable(&mut admin)?;
        let mut io = Queue::open_by(address, options, limit)?;
        check(&io.connect(&nqn, 1, admin.controller, options)?)?;
        (admin.limit, io.limit) = (None, None);
        Ok(Self { admin, io })
    }

    /// Bytes of a logical block.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn block_bytes(&mut self) -> io::Result<u32> {
        let namespace = self.admin.command(entry(op::IDENTIFY, 1, [0; 6]), &[], 4096)?;
        check(&namespace)?;
        match namespace.data.get(130) {
            Some(&shift @ 9..=16) => Ok(1 << shift),
            _ => Err(bad("a namespace without a block size")),
        }
    }

    /// FlashAlloc: these ranges of logical blocks belong to one object.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flashalloc(&mut self, ranges: &[Range]) -> io::Result<Done> {
        self.objects(ranges, 0)
    }

    /// FlashAlloc, of blocks that may be those of older objects: these end first.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flashalloc_anew(&mut self, ranges: &[Range]) -> io::Result<Done> {
        self.objects(ranges, 1)
    }

    /// FlashFree: the objects that have some of these blocks end; what was not written of them is given back.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn flashfree(&mut self, ranges: &[Range]) -> io::Result<Done> {
        self.objects(ranges, 3)
    }

    fn objects(&mut self, ranges: &[Range], how: u32) -> io::Result<Done> {
        let count = ranges.len().saturating_sub(1) as u32;
        self.io.command(entry(op::FLASHALLOC, 1, [count, how, 0, 0, 0, 0]), &list(ranges)?, 0)
    }

    /// Trim: these ranges of logical blocks (at most 256) are forgotten.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn trim(&mut self, ranges: &[Range]) -> io::Result<Done> {
        let count = ranges.len().saturating_sub(1) as u32;
        self.io.command(entry(op::DATASET, 1, [count, DEALLOCATE, 0, 0, 0, 0]), &list(ranges)?, 0)
    }

    /// How many objects of FlashAlloc live.
    ///
    /// # Errors
    /// If the connection fails, or the drive knows no objects.
    pub fn instances(&mut self) -> io::Result<u32> {
        let done = self.io.command(entry(op::FLASHALLOC_QUERY, 1, [3, 0, 0, 0, 0, 0]), &[], 16)?;
        check(&done)?;
        Ok(u32_at(&done.data, 0))
    }
}

/// Ranges as Dataset Management and FlashAlloc take them.
fn list(ranges: &[Range]) -> io::Result<Vec<u8>> {
    encode(ranges).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a range of 2^32 blocks or more"))
}

/// Enables the controller of an admin queue (CC.EN) and sees that it is ready.
///
/// # Errors
/// If it is not.
pub fn enable(admin: &mut Queue) -> io::Result<()> {
    let mut set = entry(op::FABRICS, 0, [0, 0x14, 0x0046_0001, 0, 0, 0]);
    set.0[4] = op::PROPERTY_SET;
    check(&admin.command(set, &[], 0)?)?;
    let mut get = entry(op::FABRICS, 0, [0, 0x1c, 0, 0, 0, 0]);
    get.0[4] = op::PROPERTY_GET;
    let status = admin.command(get, &[], 0)?;
    check(&status)?;
    if status.result & 1 == 1 { Ok(()) } else { Err(bad("the controller is not ready")) }
}

/// The name of the first NVM subsystem in the discovery log page at `address`.
///
/// # Errors
/// If there is none.
pub fn discover(address: SocketAddr, options: &Options) -> io::Result<String> {
    discover_by(address, options, by(options))
}

fn discover_by(address: SocketAddr, options: &Options, limit: Instant) -> io::Result<String> {
    let plain = Options { patience: options.patience, ..Options::default() };
    let mut queue = Queue::open_by(address, &plain, limit)?;
    check(&queue.connect(DISCOVERY_NQN, 0, 0xffff, &plain)?)?;
    enable(&mut queue)?;
    let log = queue.command(entry(op::GET_LOG_PAGE, 0, [511 << 16 | 0x70, 0, 0, 0, 0, 0]), &[], 2048)?;
    check(&log)?;
    let name = log.data.get(1280..1536).map(text).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad("a discovery log page without entries"))?;
    String::from_utf8(name.to_vec()).map_err(|_| bad("a name that is no text"))
}

/// An error if a command failed.
///
/// # Errors
/// With its status.
pub fn check(done: &Done) -> io::Result<()> {
    if done.status == Status::OK {
        return Ok(());
    }
    let code = done.status.code();
    Err(io::Error::other(format!("status code type {}, code {:02x}h", code >> 8, code & 0xff)))
}
