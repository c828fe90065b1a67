//! Bytes to types and back: PDUs, submission queue entries, status codes.

/// Largest data of a command: MDTS, the R2T and MAXH2CDATA.
pub const MOST_DATA: u32 = 1 << 20;
/// Largest data within a command capsule.
pub const IN_CAPSULE: u32 = 16 << 10;
/// Bytes of a submission queue entry.
pub const SQE: usize = 64;
/// Bytes of the common header of all PDUs.
pub const HEAD: usize = 8;
/// The port that NVMe/TCP has from IANA.
pub const PORT: u16 = 4420;
/// The name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// PDU types (Transport Specification, section 3.6.2).
pub mod pdu {
    #![allow(missing_docs)]
    pub const IC_REQ: u8 = 0x00;
    pub const IC_RESP: u8 = 0x01;
    pub const H2C_TERM: u8 = 0x02;
    pub const C2H_TERM: u8 = 0x03;
    pub const COMMAND: u8 = 0x04;
    pub const RESPONSE: u8 = 0x05;
    pub const H2C_DATA: u8 = 0x06;
    pub const C2H_DATA: u8 = 0x07;
    pub const R2T: u8 = 0x09;
}

/// Flags of PDUs.
pub mod flag {
    /// A digest of the header follows it.
    pub const HEADER_DIGEST: u8 = 1;
    /// A digest of the data follows them.
    pub const DATA_DIGEST: u8 = 2;
    /// The last data of the transfer.
    pub const LAST: u8 = 4;
    /// The command succeeded, there is no response.
    pub const SUCCESS: u8 = 8;
}

/// Fatal error status of a terminated connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Fatal {
    /// A field of a header has a value that it may not have.
    Field = 1,
    /// The PDU may not come now.
    Sequence = 2,
    /// The header's digest is wrong.
    HeaderDigest = 3,
    /// Data outside of what was asked for.
    Range = 4,
    /// More data than may come at a time.
    Limit = 5,
    /// A parameter that is not supported.
    Parameter = 6,
}

/// Opcodes, fabrics command types.
pub mod op {
    #![allow(missing_docs)]
    pub const FABRICS: u8 = 0x7f;
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const DISCONNECT: u8 = 0x08;
    // Admin.
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;
    pub const DIRECTIVE_SEND: u8 = 0x19;
    pub const DIRECTIVE_RECEIVE: u8 = 0x1a;
    // I/O.
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const IO_MANAGEMENT_RECEIVE: u8 = 0x12;
    pub const IO_MANAGEMENT_SEND: u8 = 0x1d;
    /// FlashAlloc as the paper's firmware took it: CDW10 = LBA, CDW14 = length in 4 KiB.
    pub const FLASHALLOC_PLAIN: u8 = 0x82;
    /// FlashAlloc: CDW10 = ranges - 1, data as Dataset Management's. CDW11 bit 0: objects that have some of
    /// the blocks end first; bit 1 with it: and that is all.
    pub const FLASHALLOC: u8 = 0xc1;
    /// The live instances of FlashAlloc.
    pub const FLASHALLOC_QUERY: u8 = 0xc2;
}

/// Features.
pub mod feature {
    #![allow(missing_docs)]
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER: u8 = 0x02;
    pub const TEMPERATURE: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const ATOMICITY: u8 = 0x0a;
    pub const ASYNC_EVENTS: u8 = 0x0b;
    pub const KEEP_ALIVE: u8 = 0x0f;
    pub const HOST_BEHAVIOUR: u8 = 0x16;
    pub const FDP: u8 = 0x1d;
    pub const FDP_EVENTS: u8 = 0x1e;
    pub const HOST_ID: u8 = 0x81;
}

/// A status: status code type (bits 10:8) and code (bits 7:0), with the bit "do not retry" (14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    #![allow(missing_docs)]
    const FINAL: u16 = 0x4000;
    pub const OK: Self = Self(0);
    pub const INVALID_OPCODE: Self = Self(0x01 | Self::FINAL);
    pub const INVALID_FIELD: Self = Self(0x02 | Self::FINAL);
    pub const INTERNAL: Self = Self(0x06);
    pub const ABORTED: Self = Self(0x07);
    pub const INVALID_NAMESPACE: Self = Self(0x0b | Self::FINAL);
    pub const SEQUENCE: Self = Self(0x0c | Self::FINAL);
    pub const SGL_LENGTH: Self = Self(0x0f | Self::FINAL);
    pub const SGL_TYPE: Self = Self(0x11 | Self::FINAL);
    pub const SGL_OFFSET: Self = Self(0x16 | Self::FINAL);
    /// A digest of the data was wrong: worth another try.
    pub const TRANSIENT: Self = Self(0x22);
    pub const LBA_RANGE: Self = Self(0x80 | Self::FINAL);
    pub const CAPACITY: Self = Self(0x81 | Self::FINAL);
    pub const ASYNC_EVENT_LIMIT: Self = Self(0x105 | Self::FINAL);
    pub const INVALID_LOG: Self = Self(0x109 | Self::FINAL);
    pub const NOT_SAVEABLE: Self = Self(0x10d | Self::FINAL);
    pub const NOT_CHANGEABLE: Self = Self(0x10e | Self::FINAL);
    pub const OVERLAP: Self = Self(0x114 | Self::FINAL);
    pub const FDP_DISABLED: Self = Self(0x129 | Self::FINAL);
    pub const CONNECT_FORMAT: Self = Self(0x180 | Self::FINAL);
    pub const CONNECT_BUSY: Self = Self(0x181);
    pub const CONNECT_PARAMETERS: Self = Self(0x182 | Self::FINAL);
    pub const READ_ONLY: Self = Self(0x182 | Self::FINAL);
    pub const COMMAND_SIZE: Self = Self(0x183 | Self::FINAL);
    pub const WRITE_FAULT: Self = Self(0x280 | Self::FINAL);
    pub const UNRECOVERED_READ: Self = Self(0x281 | Self::FINAL);
    pub const COMPARE_FAILURE: Self = Self(0x285 | Self::FINAL);

    /// Status code type and code alone.
    #[must_use]
    pub fn code(self) -> u16 {
        self.0 & 0x7ff
    }

    /// How the drive ended the command, if this says it: of an I/O command.
    #[must_use]
    pub fn of_drive(self) -> Option<nandle_io::Status> {
        let ends = nandle_io::Status::ALL;
        ends.into_iter().find(|&status| Self::from(status) == self || Self::of_write(status) == self)
    }

    /// NVMe's word for each end of a command that stores: what it was to store may be lost.
    #[must_use]
    pub fn of_write(status: nandle_io::Status) -> Self {
        if status == nandle_io::Status::MediaError { Self::WRITE_FAULT } else { status.into() }
    }
}

/// NVMe's word for each end of a command that reads.
impl From<nandle_io::Status> for Status {
    fn from(status: nandle_io::Status) -> Self {
        use nandle_io::Status as Drive;
        match status {
            Drive::Ok => Self::OK,
            Drive::OutOfRange => Self::LBA_RANGE,
            Drive::ReadOnly => Self::READ_ONLY,
            Drive::Overlap => Self::OVERLAP,
            Drive::TooManyRanges => Self::COMMAND_SIZE,
            Drive::NoCleanBlocks => Self::CAPACITY,
            Drive::Unsupported => Self::INVALID_OPCODE,
            Drive::MediaError => Self::UNRECOVERED_READ,
        }
    }
}

macro_rules! at {
    ($name:ident, $type:ty, $n:literal) => {
        /// A little-endian number; 0 beyond the end.
        #[must_use]
        pub fn $name(bytes: &[u8], at: usize) -> $type {
            bytes.get(at..).and_then(|b| b.first_chunk::<$n>()).map_or(0, |b| <$type>::from_le_bytes(*b))
        }
    };
}
at!(u16_at, u16, 2);
at!(u32_at, u32, 4);
at!(u64_at, u64, 8);

/// Writes `value` at `at`; nothing if it does not fit.
pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// A text that ends at its first zero.
#[must_use]
pub fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// A submission queue entry (Base Specification, figure 87).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sqe(pub [u8; SQE]);

impl Sqe {
    /// Opcode.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.0[0]
    }
    /// Whether it is half of a fused operation.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        self.0[1] & 3 != 0
    }
    /// Command identifier.
    #[must_use]
    pub fn cid(&self) -> u16 {
        u16_at(&self.0, 2)
    }
    /// Namespace identifier.
    #[must_use]
    pub fn nsid(&self) -> u32 {
        u32_at(&self.0, 4)
    }
    /// Type of a fabrics command.
    #[must_use]
    pub fn fabrics_type(&self) -> u8 {
        self.0[4]
    }
    /// Command dword `n`.
    #[must_use]
    pub fn cdw(&self, n: usize) -> u32 {
        u32_at(&self.0, 4 * n)
    }
    /// Address, or offset in the capsule, of the data.
    #[must_use]
    pub fn sgl_address(&self) -> u64 {
        u64_at(&self.0, 24)
    }
    /// Bytes of the data.
    #[must_use]
    pub fn sgl_length(&self) -> u32 {
        u32_at(&self.0, 32)
    }
    /// Type and sub-type of the descriptor.
    #[must_use]
    pub fn sgl_kind(&self) -> u8 {
        self.0[39]
    }
    /// First logical block.
    #[must_use]
    pub fn lba(&self) -> u64 {
        u64_at(&self.0, 40)
    }
    /// Logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        u64::from(u16_at(&self.0, 48)) + 1
    }
    /// Whether data go from host to controller.
    #[must_use]
    pub fn brings_data(&self) -> bool {
        let of = if self.opcode() == op::FABRICS { self.fabrics_type() } else { self.opcode() };
        of & 3 == 1
    }
}

/// Data lie in the capsule.
pub const SGL_IN_CAPSULE: u8 = 0x01;
/// Data come by the transport.
pub const SGL_TRANSPORT: u8 = 0x5a;

/// Which digests a connection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Of headers.
    pub header: bool,
    /// Of data.
    pub data: bool,
}

impl Digests {
    /// Of byte 11 of ICReq and ICResp.
    #[must_use]
    pub fn of(byte: u8) -> Self {
        Self { header: byte & 1 != 0, data: byte & 2 != 0 }
    }
    /// As that byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Command identifier.
    pub cid: u16,
    /// How.
    pub status: Status,
    /// Dwords 0 and 1 of the completion.
    pub result: u64,
    /// Data to the host.
    pub data: Vec<u8>,
}

impl Done {
    /// Without data.
    #[must_use]
    pub fn new(cid: u16, status: Status) -> Self {
        Self { cid, status, result: 0, data: vec![] }
    }
}

/// What is sent to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// The connection stands: with these digests, and this alignment of data (HPDA).
    Initialised(Digests, u8),
    /// It is a queue of so many entries from now on, with flow control of the submission queue or without.
    Queue {
        /// Entries.
        entries: u16,
        /// SQHD is told.
        flow_control: bool,
    },
    /// Send all data of a command.
    Ready {
        /// The command.
        cid: u16,
        /// The transfer's name.
        tag: u16,
        /// Bytes.
        bytes: u32,
    },
    /// A command is complete.
    Done(Done),
    /// The connection ends.
    Terminate(Fatal, u32, Vec<u8>),
}

/// Makes PDUs of what a controller has to say. Knows the state of the submission queue, so answers
/// must pass in the order in which they are sent.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    digests: Digests,
    alignment: usize,
    entries: u16,
    flow_control: bool,
    head: u16,
    queue: u16,
}

impl Encoder {
    /// The PDUs for `message` in three pieces, of which the second is data as they were given: nothing
    /// has to be copied.
    pub fn encode(&mut self, message: Out) -> [Vec<u8>; 3] {
        let mut pieces = <[Vec<u8>; 3]>::default();
        let to = &mut pieces[0];
        match message {
            Out::Initialised(digests, alignment) => {
                let mut bytes = [0; 128];
                bytes[0] = pdu::IC_RESP;
                bytes[2] = 128;
                bytes[11] = digests.byte();
                put(&mut bytes, 4, &128_u32.to_le_bytes());
                put(&mut bytes, 12, &MOST_DATA.to_le_bytes());
                to.extend(bytes);
                self.digests = digests;
                self.alignment = (usize::from(alignment) + 1) * 4;
            }
            Out::Queue { entries, flow_control } => {
                (self.entries, self.flow_control, self.head) = (entries, flow_control, 0);
            }
            Out::Ready { cid, tag, bytes } => {
                let mut body = [0; 16];
                put(&mut body, 0, &cid.to_le_bytes());
                put(&mut body, 2, &tag.to_le_bytes());
                put(&mut body, 8, &bytes.to_le_bytes());
                build(to, pdu::R2T, 0, &body, &[], self.digests, self.alignment);
            }
            Out::Done(done) => return self.done(done),
            Out::Terminate(fatal, field, offender) => {
                let mut body = [0; 16];
                put(&mut body, 0, &(fatal as u16).to_le_bytes());
                put(&mut body, 2, &field.to_le_bytes());
                let mut bytes = vec![pdu::C2H_TERM, 0, 24, 0];
                bytes.extend((24 + offender.len() as u32).to_le_bytes());
                bytes.extend(body);
                bytes.extend(offender);
                to.extend(bytes);
            }
        }
        pieces
    }

    fn done(&mut self, done: Done) -> [Vec<u8>; 3] {
        let [mut head, mut tail] = <[Vec<u8>; 2]>::default();
        // Every completion stands for an entry that was taken from the submission queue.
        self.head = if self.entries > 0 { (self.head + 1) % self.entries } else { 0 };
        if !done.data.is_empty() {
            let mut body = [0; 16];
            put(&mut body, 0, &done.cid.to_le_bytes());
            put(&mut body, 8, &(done.data.len() as u32).to_le_bytes());
            // A response tells SQHD and a result: without one both must be of no use.
            let silent = !self.flow_control && self.entries > 0 && done.result == 0;
            let flags = if silent { flag::LAST | flag::SUCCESS } else { flag::LAST };
            header_of(&mut head, pdu::C2H_DATA, flags, &body, done.data.len(), self.digests, self.alignment);
            if self.digests.data {
                tail.extend(digest_of(&done.data));
            }
            if silent {
                return [head, done.data, tail];
            }
        }
        let mut cqe = [0; 16];
        put(&mut cqe, 0, &done.result.to_le_bytes());
        let taken = if self.flow_control { self.head } else { 0xffff };
        put(&mut cqe, 8, &taken.to_le_bytes());
        put(&mut cqe, 10, &self.queue.to_le_bytes());
        put(&mut cqe, 12, &done.cid.to_le_bytes());
        put(&mut cqe, 14, &(done.status.0 << 1).to_le_bytes());
        build(&mut tail, pdu::RESPONSE, 0, &cqe, &[], self.digests, self.alignment);
        [head, done.data, tail]
    }
}

/// Appends a PDU: header of 8 bytes and `body`, digest, padding to `alignment`, data, digest.
pub fn build(
    to: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    body: &[u8],
    data: &[u8],
    digests: Digests,
    alignment: usize,
) {
    header_of(to, kind, flags, body, data.len(), digests, alignment);
    if !data.is_empty() {
        to.extend(data);
        if digests.data {
            to.extend(digest_of(data));
        }
    }
}

/// Appends what comes before so many bytes of data: header of 8 bytes and `body`, digest, padding.
pub(crate) fn header_of(
    to: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    body: &[u8],
    data: usize,
    digests: Digests,
    alignment: usize,
) {
    let header = HEAD + body.len();
    let mut offset = header + if digests.header { 4 } else { 0 };
    let mut flags = flags | if digests.header { flag::HEADER_DIGEST } else { 0 };
    let mut length = offset;
    if data > 0 {
        offset = offset.next_multiple_of(alignment.max(4));
        length = offset + data;
        if digests.data {
            flags |= flag::DATA_DIGEST;
            length += 4;
        }
    }
    let start = to.len();
    to.extend([kind, flags, header as u8, if data == 0 { 0 } else { offset as u8 }]);
    to.extend((length as u32).to_le_bytes());
    to.extend(body);
    if digests.header {
        let sum = digest_of(&to[start..]);
        to.extend(sum);
    }
    if data > 0 {
        to.resize(start + offset, 0);
    }
}

/// The digest of these bytes, as it follows them.
pub(crate) fn digest_of(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// Bytes of a PDU up to its data, or up to where it is known that it is none: `head` is its common header, `header` how
/// many bytes its header has. No more than 255, and no more than the PDU has.
#[must_use]
pub fn before_data(head: &[u8], header: usize, digests: Digests) -> usize {
    let (length, offset) = (u32_at(head, 4) as usize, usize::from(head[3]));
    let after = after_header(header, digests);
    if (after..=length).contains(&offset) { offset } else { after.min(length) }
}

fn after_header(header: usize, digests: Digests) -> usize {
    header + if digests.header { 4 } else { 0 }
}

/// Bytes of a PDU's data, of which `bytes` are those [before them](before_data): its header has `header` bytes. Behind
/// data there may be a digest.
///
/// # Errors
/// What is wrong, and the byte of the header that says so.
pub fn data_of(bytes: &[u8], header: usize, digests: Digests) -> Result<usize, (Fatal, u32)> {
    let length = u32_at(bytes, 4) as usize;
    let after = after_header(header, digests);
    if bytes.len() < after {
        return Err((Fatal::Field, 4));
    }
    if usize::from(bytes[2]) != header {
        return Err((Fatal::Field, 2));
    }
    if digests.header && crc32c::crc32c(&bytes[..header]) != u32_at(bytes, header) {
        return Err((Fatal::HeaderDigest, 0));
    }
    if length == after {
        return Ok(0);
    }
    let end = length.saturating_sub(if digests.data { 4 } else { 0 });
    let offset = usize::from(bytes[3]);
    if offset < after || !offset.is_multiple_of(4) || offset > end {
        return Err((Fatal::Field, 3));
    }
    Ok(end - offset)
}

/// Whether data are as the digest behind them says, or there is none.
#[must_use]
pub fn are_sound(bytes: &[u8], digests: Digests) -> bool {
    let digest = bytes.split_last_chunk().filter(|_| digests.data);
    digest.is_none_or(|(data, digest)| digest_of(data) == *digest)
}
