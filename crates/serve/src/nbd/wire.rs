//! Bytes to types and back, as the NBD protocol lays them out.
//!
//! Source: the NBD project's `doc/proto.md` (sections "Fixed newstyle negotiation", "Option types",
//! "Transmission", "Structured reply"). All numbers are big-endian.

/// First words of the server: "NBDMAGIC".
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT": the greeting goes on, and so begins every option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Begins every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Begins every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Begins a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Begins a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake and client flags (the same two bits).
pub mod handshake {
    /// Fixed newstyle.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No 124 zeros at the end of the reply to EXPORT_NAME.
    pub const NO_ZEROES: u16 = 2;
}

/// Transmission flags.
pub mod transmission {
    /// The other bits mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// FLUSH is known.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// The FUA flag is known.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is known.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is known.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// The DF flag is known.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers what was answered on all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// The FAST_ZERO flag is known.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Options of the negotiation.
pub mod option {
    /// Choose an export and begin; no error can be told.
    pub const EXPORT_NAME: u32 = 1;
    /// End the negotiation.
    pub const ABORT: u32 = 2;
    /// Which exports are there?
    pub const LIST: u32 = 3;
    /// From now on by TLS.
    pub const STARTTLS: u32 = 5;
    /// What is this export?
    pub const INFO: u32 = 6;
    /// Choose an export and begin.
    pub const GO: u32 = 7;
    /// Replies may be structured.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Which metadata contexts are there?
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Choose metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// One export.
    pub const SERVER: u32 = 2;
    /// One piece of information on an export.
    pub const INFO: u32 = 3;
    /// One metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = 1 << 31 | 1;
    /// The option's data make no sense.
    pub const ERR_INVALID: u32 = 1 << 31 | 3;
    /// Only by TLS.
    pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
    /// The option is too large.
    pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;
}

/// Pieces of information on an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Name.
    pub const NAME: u16 = 1;
    /// Description for people.
    pub const DESCRIPTION: u16 = 2;
    /// Minimum, preferred and maximum block size.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Commands.
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// End.
    pub const DISC: u16 = 2;
    /// Flush.
    pub const FLUSH: u16 = 3;
    /// Trim.
    pub const TRIM: u16 = 4;
    /// Write zeroes.
    pub const WRITE_ZEROES: u16 = 6;
    /// What is where?
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod flag {
    /// Force unit access.
    pub const FUA: u16 = 1;
    /// Zeros must be allocated.
    pub const NO_HOLE: u16 = 2;
    /// Do not fragment the reply.
    pub const DF: u16 = 4;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 8;
    /// Fail at once if zeros are no faster than a write.
    pub const FAST_ZERO: u16 = 16;
}

/// Chunks of structured replies.
pub mod chunk {
    /// Flag: the last one.
    pub const DONE: u16 = 1;
    /// No contents.
    pub const NONE: u16 = 0;
    /// An offset and data.
    pub const OFFSET_DATA: u16 = 1;
    /// A metadata context and its extents.
    pub const BLOCK_STATUS: u16 = 5;
    /// An error and a message.
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// Flags of an extent in the context `base:allocation`.
pub mod extent {
    /// Nothing is stored.
    pub const HOLE: u32 = 1;
    /// Reads as zeros.
    pub const ZERO: u32 = 2;
}

/// Error numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: read-only.
    Perm = 1,
    /// Input or output error.
    Io = 5,
    /// Invalid.
    Inval = 22,
    /// No space: a write beyond the end.
    NoSpc = 28,
    /// Not supported.
    NotSup = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

/// Bytes of the client's flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Bytes of an option's header.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;

/// A request's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// See [`flag`].
    pub flags: u16,
    /// See [`command`].
    pub command: u16,
    /// The client's name for it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

fn be<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// A big-endian number at `at`, if it is there.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    be(bytes, at).map(u16::from_be_bytes)
}
/// A big-endian number at `at`, if it is there.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    be(bytes, at).map(u32::from_be_bytes)
}
/// A big-endian number at `at`, if it is there.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    be(bytes, at).map(u64::from_be_bytes)
}

/// What the server says first.
#[must_use]
pub fn greeting() -> Vec<u8> {
    let mut out = Vec::with_capacity(18);
    out.extend(NBDMAGIC.to_be_bytes());
    out.extend(IHAVEOPT.to_be_bytes());
    out.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
    out
}

/// An option's number and the length of its data; none if the bytes are no option.
#[must_use]
pub fn option_header(bytes: &[u8]) -> Option<(u32, u32)> {
    if u64_at(bytes, 0)? != IHAVEOPT {
        return None;
    }
    Some((u32_at(bytes, 8)?, u32_at(bytes, 12)?))
}

/// A reply to an option.
#[must_use]
pub fn option_reply(option: u32, reply: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(20 + data.len());
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(reply.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
    out
}

/// The data of INFO and GO: the export's name and what is to be told of it. None if they make no
/// sense.
#[must_use]
pub fn info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let name_bytes = u32_at(data, 0)? as usize;
    let name = data.get(4..4_usize.checked_add(name_bytes)?)?;
    let rest = &data[4 + name_bytes..];
    let wanted = usize::from(u16_at(rest, 0)?);
    if rest.len() != 2 + 2 * wanted {
        return None;
    }
    Some((name, (0..wanted).filter_map(|n| u16_at(rest, 2 + 2 * n)).collect()))
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT: the export's name and the queries. None if they
/// make no sense.
#[must_use]
pub fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = u32_at(rest, 0)? as usize;
        let text = rest.get(4..4_usize.checked_add(length)?)?;
        *rest = &rest[4 + length..];
        Some(text)
    }
    let mut rest = data;
    let name = text(&mut rest)?;
    let count = u32_at(rest, 0)?;
    rest = &rest[4..];
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(text(&mut rest)?);
    }
    rest.is_empty().then_some((name, queries))
}

/// A request's header; none if the bytes are none.
#[must_use]
pub fn request(bytes: &[u8]) -> Option<Request> {
    if u32_at(bytes, 0)? != REQUEST_MAGIC {
        return None;
    }
    Some(Request {
        flags: u16_at(bytes, 4)?,
        command: u16_at(bytes, 6)?,
        cookie: u64_at(bytes, 8)?,
        offset: u64_at(bytes, 16)?,
        length: u32_at(bytes, 24)?,
    })
}

/// A request's header as bytes, for clients.
#[must_use]
pub fn request_bytes(r: &Request) -> Vec<u8> {
    let mut out = Vec::with_capacity(REQUEST_BYTES);
    out.extend(REQUEST_MAGIC.to_be_bytes());
    out.extend(r.flags.to_be_bytes());
    out.extend(r.command.to_be_bytes());
    out.extend(r.cookie.to_be_bytes());
    out.extend(r.offset.to_be_bytes());
    out.extend(r.length.to_be_bytes());
    out
}

/// The header of a simple reply; data of a read follow it.
#[must_use]
pub fn simple_reply(error: u32, cookie: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out
}

/// The header of the only chunk of a structured reply; `length` bytes follow it.
#[must_use]
pub fn last_chunk(kind: u16, cookie: u64, length: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(28);
    out.extend(STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out.extend(chunk::DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(length.to_be_bytes());
    out
}
