//! One client's conversation, without sockets: bytes in, bytes and requests out.
//!
//! The session says how many bytes it wants next ([`Session::want`], bounded), gets exactly those
//! ([`Session::take`]) and says what is to be done. Whatever the client sends, it never panics and
//! never wants more than [`MOST_WANTED`] bytes.

use super::wire::{self, Errno, Request, command, flag, handshake, info, option, reply, transmission};
use nandle_io::Status;

use crate::{Fault, Io, Outcome, Shape};

/// The largest read or write.
pub const MOST_BYTES: u32 = 32 << 20;
/// The smallest request that clients are told of.
const LEAST_BYTES: u32 = 512;
/// The largest option that is read; larger ones are skipped.
const MOST_OPTION: u32 = 8 << 10;
/// Bytes skipped at a time.
const SKIP: u64 = 64 << 10;
/// The most bytes that a session wants at a time.
pub const MOST_WANTED: usize = MOST_BYTES as usize;
/// The metadata context that there is, and the number that it gets.
const CONTEXT: &[u8] = b"base:allocation";
const CONTEXT_ID: u32 = 1;
/// Extents in an answer.
const MOST_EXTENTS: usize = 2048;
/// Options before a client is taken to be wasting our time.
const MOST_OPTIONS: u32 = 1024;

/// The name of the export; the empty name stands for it too.
pub const EXPORT: &[u8] = b"nandle";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send bytes to the client.
    Send(Vec<u8>),
    /// Carry a request out and send what [`Ticket::answer`] makes of its outcome.
    Submit(Ticket, Io),
    /// Ask the drive which of `bytes` bytes from `offset` are stored ([`crate::plan::Survey`]) and send what
    /// [`Ticket::extents`] makes of the answer; of no more than `most` extents.
    Status {
        /// For the answer.
        ticket: Ticket,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Extents.
        most: usize,
    },
    /// Answer what is under way, then close the connection.
    Close,
}

/// How the answer to a request is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    cookie: u64,
    offset: u64,
    structured: bool,
    read: bool,
    beyond: Errno,
}

impl Ticket {
    fn of(request: &Request, structured: bool) -> Self {
        let grows = matches!(request.command, command::WRITE | command::WRITE_ZEROES);
        Self {
            cookie: request.cookie,
            offset: request.offset,
            structured,
            read: request.command == command::READ,
            beyond: if grows { Errno::NoSpc } else { Errno::Inval },
        }
    }

    /// The answer as bytes: a header, and the data that follow it.
    #[must_use]
    pub fn answer(&self, outcome: Outcome) -> (Vec<u8>, Vec<u8>) {
        let data = match outcome {
            Ok(data) => data,
            Err(fault) => {
                let errno = match fault {
                    Fault::Drive(status) => self.errno(status),
                    Fault::Image | Fault::Failed => Errno::Io,
                    Fault::Gone => Errno::Shutdown,
                    Fault::Full => Errno::NoSpc,
                };
                return (self.error(errno, &fault.to_string()), vec![]);
            }
        };
        if !self.structured {
            return (wire::simple_reply(0, self.cookie), data);
        }
        // Data of no bytes are none: proto.md has them be one at least.
        if !self.read || data.is_empty() {
            return (wire::last_chunk(wire::chunk::NONE, self.cookie, 0), vec![]);
        }
        let mut head = wire::last_chunk(wire::chunk::OFFSET_DATA, self.cookie, 8 + data.len() as u32);
        head.extend(self.offset.to_be_bytes());
        (head, data)
    }

    /// The error number that stands for a command's failure.
    fn errno(&self, status: Status) -> Errno {
        match status {
            Status::OutOfRange => self.beyond,
            Status::ReadOnly => Errno::Perm,
            Status::Unsupported | Status::Overlap | Status::TooManyRanges | Status::NoCleanBlocks => {
                Errno::NotSup
            }
            // A success that failed would be a fault of ours.
            Status::MediaError | Status::Ok => Errno::Io,
        }
    }

    /// Bytes of an answer to a block status of so many extents.
    #[must_use]
    pub fn most_bytes(extents: usize) -> u64 {
        32 + 8 * extents as u64
    }

    /// The answer to a block status: extents of bytes that are stored, or are not, one after the other.
    #[must_use]
    pub fn extents(&self, extents: &[(u64, bool)]) -> Vec<u8> {
        if extents.is_empty() {
            return self.error(Errno::Shutdown, "shutting down");
        }
        let length = 4 + 8 * extents.len() as u32;
        let mut out = wire::last_chunk(wire::chunk::BLOCK_STATUS, self.cookie, length);
        out.extend(CONTEXT_ID.to_be_bytes());
        for &(bytes, stored) in extents {
            let flags = if stored { 0 } else { wire::extent::HOLE | wire::extent::ZERO };
            out.extend((bytes as u32).to_be_bytes());
            out.extend(flags.to_be_bytes());
        }
        out
    }

    fn error(&self, errno: Errno, message: &str) -> Vec<u8> {
        if !self.structured {
            return wire::simple_reply(errno as u32, self.cookie);
        }
        let mut out = wire::last_chunk(wire::chunk::ERROR, self.cookie, 6 + message.len() as u32);
        out.extend((errno as u32).to_be_bytes());
        out.extend((message.len() as u16).to_be_bytes());
        out.extend(message.as_bytes());
        out
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    ClientFlags,
    Option,
    OptionData {
        option: u32,
        length: u32,
    },
    /// Data of an option that is too large.
    OptionSkip {
        left: u64,
    },
    Request,
    Payload {
        request: Request,
    },
    /// Data of a write that is refused.
    PayloadSkip {
        left: u64,
    },
    Closed,
}

/// One client's conversation.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    shape: Shape,
    description: String,
    no_zeroes: bool,
    structured: bool,
    /// The client has chosen the metadata context.
    context: bool,
    options: u32,
}

impl Session {
    /// A client has connected; the bytes greet it.
    #[must_use]
    pub fn new(shape: Shape, description: &str) -> (Self, Vec<u8>) {
        let session = Self {
            phase: Phase::ClientFlags,
            shape,
            description: description.chars().take(200).collect(),
            no_zeroes: false,
            structured: false,
            context: false,
            options: 0,
        };
        (session, wire::greeting())
    }

    /// The same of a client that was greeted, and has sent its flags, before TLS.
    #[must_use]
    pub fn secured(shape: Shape, description: &str, flags: &[u8]) -> Self {
        let (mut session, _) = Self::new(shape, description);
        session.client_flags(flags);
        session
    }

    /// How many bytes the session wants next; 0 = the conversation is over.
    #[must_use]
    pub fn want(&self) -> usize {
        match self.phase {
            Phase::ClientFlags => wire::CLIENT_FLAGS_BYTES,
            Phase::Option => wire::OPTION_BYTES,
            Phase::OptionData { length, .. } => length as usize,
            Phase::Request => wire::REQUEST_BYTES,
            Phase::Payload { request } => request.length as usize,
            Phase::OptionSkip { left } | Phase::PayloadSkip { left } => left.min(SKIP) as usize,
            Phase::Closed => 0,
        }
    }

    /// Whether an export has been chosen.
    #[must_use]
    pub fn is_transmitting(&self) -> bool {
        matches!(self.phase, Phase::Request | Phase::Payload { .. } | Phase::PayloadSkip { .. })
    }

    /// Whether what it wants are data of a write that is carried out.
    #[must_use]
    pub fn is_payload(&self) -> bool {
        matches!(self.phase, Phase::Payload { .. })
    }

    /// Whether what it wants goes on with a message that the client has started.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        !matches!(self.phase, Phase::ClientFlags | Phase::Option | Phase::Request)
    }

    /// Takes the bytes that were wanted.
    pub fn take(&mut self, bytes: Vec<u8>) -> Vec<Action> {
        if bytes.len() != self.want() {
            return self.close();
        }
        match self.phase {
            Phase::ClientFlags => self.client_flags(&bytes),
            Phase::Option => self.option(&bytes),
            Phase::OptionData { option, .. } => self.option_data(option, &bytes),
            Phase::OptionSkip { left } => {
                let left = left - bytes.len() as u64;
                self.phase = if left > 0 { Phase::OptionSkip { left } } else { Phase::Option };
                vec![]
            }
            Phase::Request => self.request(&bytes),
            Phase::Payload { request } => {
                self.phase = Phase::Request;
                let io = Io::write(request.offset, bytes).fua(request.flags & flag::FUA != 0);
                vec![Action::Submit(Ticket::of(&request, self.structured), io)]
            }
            Phase::PayloadSkip { left } => {
                let left = left - bytes.len() as u64;
                self.phase = if left > 0 { Phase::PayloadSkip { left } } else { Phase::Request };
                vec![]
            }
            Phase::Closed => vec![],
        }
    }

    fn close(&mut self) -> Vec<Action> {
        self.phase = Phase::Closed;
        vec![Action::Close]
    }

    // ---- negotiation ------------------------------------------------------------------------------

    fn client_flags(&mut self, bytes: &[u8]) -> Vec<Action> {
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        match wire::u32_at(bytes, 0) {
            // An unknown flag changes the protocol in a way that we cannot follow.
            Some(flags) if flags & !known == 0 => {
                self.no_zeroes = flags & u32::from(handshake::NO_ZEROES) != 0;
                self.phase = Phase::Option;
                vec![]
            }
            _ => self.close(),
        }
    }

    fn option(&mut self, bytes: &[u8]) -> Vec<Action> {
        self.options += 1;
        let Some((option, length)) = wire::option_header(bytes).filter(|_| self.options <= MOST_OPTIONS)
        else {
            return self.close();
        };
        if length > MOST_OPTION {
            if option == option::EXPORT_NAME {
                return self.close();
            }
            self.phase = Phase::OptionSkip { left: u64::from(length) };
            return vec![Action::Send(wire::option_reply(option, reply::ERR_TOO_BIG, b"option too large"))];
        }
        self.phase = Phase::OptionData { option, length };
        if length == 0 { self.option_data(option, &[]) } else { vec![] }
    }

    fn option_data(&mut self, option: u32, data: &[u8]) -> Vec<Action> {
        self.phase = Phase::Option;
        let say = |kind, text: &[u8]| vec![Action::Send(wire::option_reply(option, kind, text))];
        match option {
            option::EXPORT_NAME => self.export_name(data),
            option::ABORT => {
                let mut out = say(reply::ACK, &[]);
                out.extend(self.close());
                out
            }
            option::LIST if data.is_empty() => {
                let mut server = (EXPORT.len() as u32).to_be_bytes().to_vec();
                server.extend(EXPORT);
                server.extend(self.description.as_bytes());
                let mut out = say(reply::SERVER, &server);
                out.extend(say(reply::ACK, &[]));
                out
            }
            option::INFO | option::GO => self.info(option, data),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                say(reply::ACK, &[])
            }
            option::LIST | option::STRUCTURED_REPLY => say(reply::ERR_INVALID, b"expected no data"),
            _ => say(reply::ERR_UNSUP, b"unknown option"),
        }
    }

    /// Metadata contexts: there is one, `base:allocation`.
    fn contexts(&mut self, option: u32, data: &[u8]) -> Vec<Action> {
        let say = |kind, text: &[u8]| Action::Send(wire::option_reply(option, kind, text));
        let set = option == option::SET_META_CONTEXT;
        if set {
            self.context = false;
        }
        let Some((name, queries)) = wire::context_request(data) else {
            return vec![say(reply::ERR_INVALID, b"expected a name and a list of contexts")];
        };
        if !self.structured {
            return vec![say(reply::ERR_INVALID, b"expected structured replies to be chosen before")];
        }
        if !Self::is_export(name) {
            return vec![say(reply::ERR_UNKNOWN, b"no such export; the only one is \"nandle\"")];
        }
        // A list without a query, or of a whole namespace, is of all contexts.
        let wanted = if set {
            queries.contains(&CONTEXT)
        } else {
            queries.is_empty() || queries.iter().any(|&q| q == CONTEXT || q == b"base:")
        };
        let mut out = vec![];
        if wanted {
            let id = if set { CONTEXT_ID } else { 0 };
            out.push(say(reply::META_CONTEXT, &[&id.to_be_bytes(), CONTEXT].concat()));
        }
        self.context |= set && wanted;
        out.push(say(reply::ACK, &[]));
        out
    }

    fn flags(&self) -> u16 {
        use transmission::*;
        let df = if self.structured { SEND_DF } else { 0 };
        let zeros = SEND_WRITE_ZEROES | SEND_FAST_ZERO;
        HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | zeros | CAN_MULTI_CONN | df
    }

    fn is_export(name: &[u8]) -> bool {
        name.is_empty() || name == EXPORT
    }

    fn export_name(&mut self, name: &[u8]) -> Vec<Action> {
        if !Self::is_export(name) {
            return self.close();
        }
        let mut out = self.shape.bytes.to_be_bytes().to_vec();
        out.extend(self.flags().to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; 124]);
        }
        self.phase = Phase::Request;
        vec![Action::Send(out)]
    }

    fn info(&mut self, option: u32, data: &[u8]) -> Vec<Action> {
        let say = |kind, text: &[u8]| Action::Send(wire::option_reply(option, kind, text));
        let Some((name, wanted)) = wire::info_request(data) else {
            return vec![say(reply::ERR_INVALID, b"expected a name and a list of information types")];
        };
        if !Self::is_export(name) {
            return vec![say(reply::ERR_UNKNOWN, b"no such export; the only one is \"nandle\"")];
        }
        let piece = |kind: u16, rest: &[u8]| {
            let mut piece = kind.to_be_bytes().to_vec();
            piece.extend(rest);
            say(reply::INFO, &piece)
        };
        let mut export = self.shape.bytes.to_be_bytes().to_vec();
        export.extend(self.flags().to_be_bytes());
        let mut out = vec![piece(info::EXPORT, &export)];
        // The sizes are told unasked. Requests smaller than a sector are carried out, and cost a read-modify-write, as
        // with drives that emulate sectors of 512 bytes: clients that ask for these would else refuse themselves.
        let preferred = self.shape.page_bytes.next_power_of_two().max(self.shape.sector_bytes);
        let sizes =
            [self.shape.sector_bytes.min(LEAST_BYTES), preferred, MOST_BYTES].map(u32::to_be_bytes).concat();
        out.push(piece(info::BLOCK_SIZE, &sizes));
        if wanted.contains(&info::NAME) {
            out.push(piece(info::NAME, EXPORT));
        }
        if wanted.contains(&info::DESCRIPTION) {
            out.push(piece(info::DESCRIPTION, self.description.as_bytes()));
        }
        out.push(say(reply::ACK, &[]));
        if option == option::GO {
            self.phase = Phase::Request;
        }
        out
    }

    // ---- transmission -----------------------------------------------------------------------------

    fn request(&mut self, bytes: &[u8]) -> Vec<Action> {
        let Some(request) = wire::request(bytes) else { return self.close() };
        let Request { flags, offset, length, .. } = request;
        let ticket = Ticket::of(&request, self.structured);
        let refuse = |errno, why| vec![Action::Send(ticket.error(errno, why))];
        let fua = flags & flag::FUA != 0;
        let allowed = match request.command {
            command::READ => flag::FUA | flag::DF,
            command::BLOCK_STATUS => flag::FUA | flag::REQ_ONE,
            command::WRITE_ZEROES => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            _ => flag::FUA,
        };
        if request.command == command::WRITE {
            let too_long = length > MOST_BYTES;
            if too_long || flags & !allowed != 0 {
                self.phase = match length {
                    0 => Phase::Request,
                    _ => Phase::PayloadSkip { left: u64::from(length) },
                };
                return refuse(Errno::Inval, if too_long { "more than 32 MiB" } else { "unknown flag" });
            }
            if length == 0 {
                return vec![Action::Submit(ticket, Io::write(offset, vec![]).fua(fua))];
            }
            self.phase = Phase::Payload { request };
            return vec![];
        }
        if request.command == command::DISC {
            return self.close();
        }
        if flags & !allowed != 0 {
            return refuse(Errno::Inval, "unknown flag");
        }
        let bytes = u64::from(length);
        let io = match request.command {
            command::READ if length > MOST_BYTES => return refuse(Errno::Inval, "more than 32 MiB"),
            command::READ => Io::read(offset, bytes),
            command::FLUSH if offset != 0 || length != 0 => {
                return refuse(Errno::Inval, "a flush has neither offset nor length");
            }
            command::FLUSH => Io::flush(),
            command::TRIM => Io::trim(offset, bytes).fua(fua),
            command::BLOCK_STATUS if !self.context => {
                return refuse(Errno::Inval, "no metadata context was chosen");
            }
            command::BLOCK_STATUS if bytes == 0 => return refuse(Errno::Inval, "of no bytes"),
            command::BLOCK_STATUS if offset.checked_add(bytes).is_none_or(|end| end > self.shape.bytes) => {
                return refuse(Errno::Inval, "beyond the end of the device");
            }
            command::BLOCK_STATUS => {
                let most = if flags & flag::REQ_ONE != 0 { 1 } else { MOST_EXTENTS };
                return vec![Action::Status { ticket, offset, bytes, most }];
            }
            command::WRITE_ZEROES => {
                let may_trim = flags & flag::NO_HOLE == 0;
                if flags & flag::FAST_ZERO != 0 && !may_trim {
                    return refuse(Errno::NotSup, "zeros that must be programmed are no faster than a write");
                }
                Io::zeros(offset, bytes, may_trim).fua(fua)
            }
            _ => return refuse(Errno::Inval, "unknown command"),
        };
        vec![Action::Submit(ticket, io)]
    }
}

#[cfg(test)]
mod tests;
