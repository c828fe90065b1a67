//! One connection, without sockets: bytes in, PDUs and requests out.
//!
//! The session says how many bytes it wants next ([`Session::want`], bounded) and where ([`Session::place`]), is told
//! that they are there ([`Session::take`]) and says what is to be done. Data are placed where the drive takes them from:
//! nothing has to be copied. Whatever a host sends, it never panics, never wants more than [`MOST_WANTED`] bytes and keeps
//! no more than [`MOST_GRANTED`] bytes of transfers that are not complete.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nandle_io::{Range, decode};

use super::logs::{Look, placements};
use super::model::{MOST_VERIFIED, Portal};
use super::subsystem::{Answer, Controller, Culprit, Subsystem};
use super::wire::{
    Digests, Done, Fatal, HEAD, IN_CAPSULE, MOST_DATA, Out, SGL_IN_CAPSULE, SGL_TRANSPORT, SQE, Sqe, Status,
    are_sound, before_data, data_of, flag, op, pdu, u16_at, u32_at,
};
use crate::budget::{Account, Room};
use crate::buffers::{Buffers, sized};
use crate::clients::Arrival;
use crate::{Fault, Io, Outcome};

/// The most bytes that a session wants at a time: a PDU with data, digests and padding.
pub const MOST_WANTED: usize = MOST_DATA as usize + 256;
/// Bytes that hosts were asked for and that have not come.
pub const MOST_GRANTED: u64 = 16 << 20;
/// Commands that wait for their data before a host is taken to be hostile.
const MOST_WAITING: usize = 1024;

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it.
    Send(Out),
    /// Carry requests out; [`Ticket::done`] makes the answer of their outcome. None at all is success.
    Submit(Ticket, Vec<Io>),
    /// Have placement handles go on to their next reclaim unit.
    NextUnits(Ticket, Vec<u16>),
    /// Ask the drive, for this command.
    Look(u16, Look),
    /// Flush, for the shutdown of this controller ([`Subsystem::flushed`]).
    Flush(u16),
    /// Close the I/O queues of this controller.
    CloseQueues(u16),
    /// Send what is to be sent, then close the connection.
    Close,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Compare(Vec<u8>),
    Verify,
    Other,
}

/// How the end of a command is told.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    cid: u16,
    kind: Kind,
    /// For the error log.
    pub(super) culprit: Culprit,
}

impl Ticket {
    /// The command's end.
    #[must_use]
    pub fn done(self, outcome: Outcome) -> Done {
        let mut done = Done::new(self.cid, Status::OK);
        match (outcome, self.kind) {
            (Err(Fault::Drive(status)), Kind::Other) => done.status = Status::of_write(status),
            (Err(Fault::Drive(status)), _) => done.status = status.into(),
            (Err(Fault::Image | Fault::Gone | Fault::Failed), _) => done.status = Status::INTERNAL,
            (Err(Fault::Full), _) => done.status = Status::CAPACITY,
            (Ok(data), Kind::Read) => done.data = data,
            (Ok(data), Kind::Compare(with)) if data != with => done.status = Status::COMPARE_FAILURE,
            (Ok(_), _) => {}
        }
        done
    }
}

/// Data of a command on their way.
#[derive(Debug)]
struct Transfer {
    sqe: Sqe,
    /// When the command came.
    came: Option<Arrival>,
    /// All of them, of which so many are there; at the end is room for a digest.
    data: Vec<u8>,
    there: usize,
    sound: bool,
    room: Room,
}

/// Whose data a PDU brings.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// Those of the command in it.
    Capsule,
    /// Those of the transfer with this tag.
    Transfer(u16),
    /// It is refused as soon as it is over.
    Nobody(Fail),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A PDU's common header.
    Head,
    /// What comes between that and byte `end`, where its data begin.
    Header {
        end: usize,
    },
    /// Data and their digest.
    Data {
        whose: Whose,
        bytes: usize,
    },
    Closed,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    /// The PDU up to its data.
    header: [u8; 256],
    /// Data in the capsule.
    data: Vec<u8>,
    /// Where memory for data comes from.
    buffers: Arc<Buffers>,
    initialised: bool,
    digests: Digests,
    portal: Portal,
    /// Controller and queue, and how often the controller had been reset when it was connected.
    queue: Option<(u16, u16)>,
    resets: u64,
    transfers: BTreeMap<u16, Transfer>,
    granted: u64,
    waiting: VecDeque<(Sqe, Option<Arrival>)>,
    next_tag: u16,
    account: Arc<Account>,
    /// What the data of the command that came last take.
    arrived: Option<Room>,
    /// When the PDU that is taken came, or the command whose data it completes; if that is noted.
    came: Option<Arrival>,
    /// Transfers that are over.
    transferred: u64,
}

type Fail = (Fatal, u32);

impl Session {
    /// A connection that a host has made to `portal`.
    #[must_use]
    pub fn new(portal: Portal) -> Self {
        Self::of(portal, Arc::default(), Arc::default())
    }

    /// The same, of a client whose transfers take room of this account and are placed in these buffers.
    pub(crate) fn of(portal: Portal, account: Arc<Account>, buffers: Arc<Buffers>) -> Self {
        Self {
            account,
            buffers,
            header: [0; 256],
            data: vec![],
            arrived: None,
            came: None,
            transferred: 0,
            phase: Phase::Head,
            initialised: false,
            digests: Digests::default(),
            portal,
            queue: None,
            resets: 0,
            transfers: BTreeMap::new(),
            granted: 0,
            waiting: VecDeque::new(),
            next_tag: 0,
        }
    }

    /// The controller and queue that it belongs to, once connected.
    #[must_use]
    pub fn queue(&self) -> Option<(u16, u16)> {
        self.queue
    }

    /// How often its controller had been reset when it was connected.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Whether what it wants goes on with a PDU that has begun.
    pub(crate) fn is_amid(&self) -> bool {
        matches!(self.phase, Phase::Header { .. } | Phase::Data { .. })
    }

    /// The bytes that the host was asked for and that have not come, and how often some did.
    pub(crate) fn owed(&self) -> Option<(u64, u64)> {
        (!self.transfers.is_empty()).then_some((self.granted, self.transferred))
    }

    /// The room that a command's data took while they came: it is the command's from now on.
    pub(crate) fn came(&self) -> Option<Arrival> {
        self.came
    }

    /// The PDU that will be taken next came then.
    pub(crate) fn heard(&mut self, came: Option<Arrival>) {
        self.came = came;
    }

    /// The room that its data take.
    pub(crate) fn take_room(&mut self) -> Option<Room> {
        self.arrived.take()
    }

    /// Bytes of room without which no command whose data are to come goes on.
    pub(crate) fn lacks(&self) -> Option<u64> {
        let first = self.waiting.front().filter(|_| self.transfers.is_empty())?;
        Some(first.0.sgl_length().into())
    }

    /// That room is there.
    pub(crate) fn goes_on(&mut self, room: Room) -> Vec<Action> {
        let mut out = vec![];
        if let Some(waiting) = self.waiting.pop_front() {
            self.ask_for(waiting, room, &mut out);
        }
        out
    }

    /// Nothing more comes: what it keeps is given back.
    pub(crate) fn forget(&mut self) {
        self.transfers.clear();
        self.arrived = None;
    }

    /// How many bytes come next; 0 if the connection is over.
    #[must_use]
    pub fn want(&self) -> usize {
        match self.phase {
            Phase::Head => HEAD,
            Phase::Header { end } => end - HEAD,
            Phase::Data { bytes, .. } => bytes,
            Phase::Closed => 0,
        }
    }

    /// Where they are to be.
    pub fn place(&mut self) -> &mut [u8] {
        match self.phase {
            Phase::Head => &mut self.header[..HEAD],
            Phase::Header { end } => &mut self.header[HEAD..end],
            Phase::Data { whose: Whose::Transfer(tag), bytes } => {
                let transfer = self.transfers.get_mut(&tag);
                transfer.map_or(&mut [], |t| &mut t.data[t.there..t.there + bytes])
            }
            Phase::Data { .. } => &mut self.data,
            Phase::Closed => &mut [],
        }
    }

    /// The bytes that it wanted are there: what to do.
    pub fn take(&mut self, subsystem: &mut Subsystem) -> Vec<Action> {
        let mut out = vec![];
        self.arrived = None;
        let (header, result) = match self.phase {
            Phase::Closed => return vec![Action::Close],
            Phase::Head => (HEAD, self.head()),
            Phase::Header { end } => (self.header[2].into(), self.header(end, subsystem, &mut out)),
            Phase::Data { whose, .. } => (self.header[2].into(), self.whole(whose, subsystem, &mut out)),
        };
        if let Err((fatal, field)) = result {
            self.phase = Phase::Closed;
            // The header of the PDU that gave offence goes back.
            let offender = self.header[..header].to_vec();
            out.push(Action::Send(Out::Terminate(fatal, field, offender)));
        }
        if matches!(self.phase, Phase::Closed) {
            out.push(Action::Close);
        }
        out
    }

    /// Bytes of a kind's header, and the most bytes of a PDU of it.
    fn sizes(kind: u8) -> Option<(usize, usize)> {
        Some(match kind {
            pdu::IC_REQ => (128, 128),
            pdu::H2C_TERM => (24, 152),
            pdu::COMMAND => (HEAD + SQE, HEAD + SQE + 128 + IN_CAPSULE as usize),
            pdu::H2C_DATA => (24, MOST_WANTED),
            _ => return None,
        })
    }

    fn head(&mut self) -> Result<(), Fail> {
        let head = &self.header[..HEAD];
        let (header, most) = Self::sizes(head[0]).ok_or((Fatal::Field, 0))?;
        if (head[0] == pdu::IC_REQ) == self.initialised && head[0] != pdu::H2C_TERM {
            return Err((Fatal::Sequence, 0));
        }
        if usize::from(head[2]) != header {
            return Err((Fatal::Field, 2));
        }
        let length = u32_at(head, 4) as usize;
        if length < header || length > most {
            return Err((Fatal::Field, 4));
        }
        let has_data = matches!(head[0], pdu::COMMAND | pdu::H2C_DATA);
        let end = if has_data { before_data(head, header, self.digests) } else { length };
        self.phase = Phase::Header { end };
        Ok(())
    }

    /// A PDU is there up to its data.
    fn header(&mut self, end: usize, subsystem: &mut Subsystem, out: &mut Vec<Action>) -> Result<(), Fail> {
        match self.header[0] {
            pdu::IC_REQ => return self.initialise(out),
            pdu::H2C_TERM => {
                self.phase = Phase::Closed;
                return Ok(());
            }
            _ => {}
        }
        let bytes = u32_at(&self.header, 4) as usize - end;
        let whose = self.whose(end).unwrap_or_else(Whose::Nobody);
        match whose {
            Whose::Transfer(tag) => {
                let digest = if self.digests.data { 4 } else { 0 };
                if let Some(transfer) = self.transfers.get_mut(&tag).filter(|t| t.there == 0) {
                    let room = transfer.sqe.sgl_length() as usize + digest;
                    transfer.data = sized(self.buffers.take(room), room);
                }
            }
            Whose::Capsule | Whose::Nobody(_) => self.data = sized(self.buffers.take(bytes), bytes),
        }
        self.phase = Phase::Data { whose, bytes };
        if bytes == 0 { self.whole(whose, subsystem, out) } else { Ok(()) }
    }

    /// Whose the data are of the PDU that is there up to them.
    fn whose(&self, end: usize) -> Result<Whose, Fail> {
        let (header, digests) = (&self.header[..end], self.digests);
        let bytes = data_of(header, header[2].into(), digests)?;
        if (header[1] & flag::HEADER_DIGEST != 0) != digests.header {
            return Err((Fatal::Field, 1));
        }
        if bytes > 0 && (header[1] & flag::DATA_DIGEST != 0) != digests.data {
            return Err((Fatal::Field, 1));
        }
        if header[0] == pdu::COMMAND {
            return Ok(Whose::Capsule);
        }
        // Data that were asked for: in order, none missing.
        let (cid, tag) = (u16_at(header, 8), u16_at(header, 10));
        let (offset, length) = (u32_at(header, 12), u32_at(header, 16));
        let transfer = self.transfers.get(&tag).ok_or((Fatal::Field, 10))?;
        if transfer.sqe.cid() != cid {
            return Err((Fatal::Field, 8));
        }
        if length as usize != bytes || bytes == 0 {
            return Err((Fatal::Field, 16));
        }
        let (all, after) = (transfer.sqe.sgl_length() as usize, transfer.there + bytes);
        if offset as usize != transfer.there || after > all {
            return Err((Fatal::Range, 12));
        }
        if (header[1] & flag::LAST != 0) != (after == all) {
            return Err((Fatal::Field, 1));
        }
        Ok(Whose::Transfer(tag))
    }

    /// A PDU is there with its data.
    fn whole(&mut self, whose: Whose, subsystem: &mut Subsystem, out: &mut Vec<Action>) -> Result<(), Fail> {
        let digests = self.digests;
        let place = self.place();
        let sound = are_sound(place, digests);
        let bytes = place.len().saturating_sub(if digests.data { 4 } else { 0 });
        self.phase = Phase::Head;
        match whose {
            Whose::Nobody(fail) => Err(fail),
            Whose::Transfer(tag) => {
                self.transferred(tag, bytes, sound, subsystem, out);
                Ok(())
            }
            Whose::Capsule => {
                let mut data = std::mem::take(&mut self.data);
                data.truncate(bytes);
                let sqe = Sqe(*self.header[HEAD..].first_chunk().ok_or((Fatal::Field, 4))?);
                self.command(sqe, data, sound, subsystem, out)
            }
        }
    }

    fn initialise(&mut self, out: &mut Vec<Action>) -> Result<(), Fail> {
        // Protocol format version 0, at most 128 bytes of alignment.
        if u16_at(&self.header, 8) != 0 {
            return Err((Fatal::Parameter, 8));
        }
        let (alignment, digests) = (self.header[10], self.header[11]);
        if alignment > 31 {
            return Err((Fatal::Field, 10));
        }
        self.digests = Digests::of(digests);
        self.initialised = true;
        self.phase = Phase::Head;
        out.push(Action::Send(Out::Initialised(self.digests, alignment)));
        Ok(())
    }

    /// A command capsule.
    fn command(
        &mut self,
        sqe: Sqe,
        mut data: Vec<u8>,
        sound: bool,
        subsystem: &mut Subsystem,
        out: &mut Vec<Action>,
    ) -> Result<(), Fail> {
        let length = sqe.sgl_length();
        if !sqe.brings_data() || length == 0 {
            self.execute(&sqe, vec![], subsystem, out);
            return Ok(());
        }
        let refused = match sqe.sgl_kind() {
            _ if length > MOST_DATA => Status::INVALID_FIELD,
            SGL_IN_CAPSULE => {
                let from = usize::try_from(sqe.sgl_address()).unwrap_or(usize::MAX);
                let end = from.saturating_add(length as usize);
                if !sound {
                    Status::TRANSIENT
                } else if from > data.len() {
                    Status::SGL_OFFSET
                } else if end > data.len() {
                    Status::SGL_LENGTH
                } else {
                    data.truncate(end);
                    data.drain(..from);
                    self.execute(&sqe, data, subsystem, out);
                    return Ok(());
                }
            }
            // Before it is connected a host has nothing to say that does not fit in a capsule.
            SGL_TRANSPORT if self.queue.is_some() => {
                if self.waiting.len() >= MOST_WAITING {
                    return Err((Fatal::Limit, 0));
                }
                self.waiting.push_back((sqe, self.came));
                self.grant(out);
                return Ok(());
            }
            _ => Status::SGL_TYPE,
        };
        self.end(&sqe, refused, 0, vec![], subsystem, out);
        Ok(())
    }

    /// A command is over. If it failed, that is in the error log of the controller, if there is one yet.
    fn end(
        &self,
        sqe: &Sqe,
        status: Status,
        result: u64,
        data: Vec<u8>,
        subsystem: &mut Subsystem,
        out: &mut Vec<Action>,
    ) {
        let good = status == Status::OK;
        if let (false, Some((_, queue))) = (good, self.queue) {
            subsystem.failed(&Culprit::of(queue, sqe), status);
        }
        let data = if good { data } else { vec![] };
        out.push(Action::Send(Out::Done(Done { cid: sqe.cid(), status, result, data })));
    }

    /// Asks for the data of commands that wait for it, as far as there is room.
    fn grant(&mut self, out: &mut Vec<Action>) {
        while let Some(&waiting) = self.waiting.front() {
            let bytes = waiting.0.sgl_length();
            if self.granted + u64::from(bytes) > MOST_GRANTED {
                return;
            }
            let Some(room) = self.account.try_enter(bytes.into()) else { return };
            self.waiting.pop_front();
            self.ask_for(waiting, room, out);
        }
    }

    fn ask_for(&mut self, (sqe, came): (Sqe, Option<Arrival>), room: Room, out: &mut Vec<Action>) {
        let bytes = sqe.sgl_length();
        while self.transfers.contains_key(&self.next_tag) {
            self.next_tag = self.next_tag.wrapping_add(1);
        }
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.granted += u64::from(bytes);
        self.transfers.insert(tag, Transfer { sqe, came, data: vec![], there: 0, sound: true, room });
        out.push(Action::Send(Out::Ready { cid: sqe.cid(), tag, bytes }));
    }

    /// So many more bytes of a transfer are there.
    fn transferred(
        &mut self,
        tag: u16,
        bytes: usize,
        sound: bool,
        subsystem: &mut Subsystem,
        out: &mut Vec<Action>,
    ) {
        let Some(transfer) = self.transfers.get_mut(&tag) else { return };
        transfer.there += bytes;
        transfer.sound &= sound;
        let all = transfer.sqe.sgl_length();
        if transfer.there == all as usize
            && let Some(mut transfer) = self.transfers.remove(&tag)
        {
            self.granted -= u64::from(all);
            self.transferred += 1;
            if transfer.sound {
                self.arrived = Some(transfer.room);
                self.came = transfer.came;
                transfer.data.truncate(all as usize);
                self.execute(&transfer.sqe, transfer.data, subsystem, out);
            } else {
                self.end(&transfer.sqe, Status::TRANSIENT, 0, vec![], subsystem, out);
            }
            self.grant(out);
        }
    }

    /// A command with all of its data.
    fn execute(&mut self, sqe: &Sqe, data: Vec<u8>, subsystem: &mut Subsystem, out: &mut Vec<Action>) {
        let cid = sqe.cid();
        let now = |status| Answer::Now(status, 0, vec![]);
        let answer = match (sqe.opcode(), self.queue) {
            _ if sqe.is_fused() => now(Status::INVALID_FIELD),
            (op::FABRICS, _) => return self.fabrics(sqe, &data, subsystem, out),
            (_, None) => now(Status::SEQUENCE),
            (_, Some((id, 0))) => subsystem.admin(id, sqe, &data, &self.portal),
            (_, Some((id, queue))) => match io((id, self.resets), queue, sqe, data, subsystem) {
                Ok(action) => return out.push(action),
                Err(status) => now(status),
            },
        };
        match answer {
            Answer::Now(status, result, data) => self.end(sqe, status, result, data, subsystem, out),
            Answer::Look(look) => out.push(Action::Look(cid, look)),
            Answer::Ended(all) => out.extend(all.into_iter().map(|done| Action::Send(Out::Done(done)))),
            // Of properties alone.
            Answer::Hold | Answer::Flush | Answer::Reset => {}
        }
    }

    fn fabrics(&mut self, sqe: &Sqe, data: &[u8], subsystem: &mut Subsystem, out: &mut Vec<Action>) {
        let (status, result) = match (sqe.fabrics_type(), self.queue) {
            (op::CONNECT, None) => match subsystem.connect(sqe, data) {
                Ok(id) => {
                    self.queue = Some((id, u16_at(&sqe.0, 42)));
                    self.resets = subsystem.controller(id).map_or(0, Controller::resets);
                    let entries = u16_at(&sqe.0, 44).saturating_add(1);
                    let flow_control = sqe.0[46] & 1 << 2 == 0;
                    out.push(Action::Send(Out::Queue { entries, flow_control }));
                    (Status::OK, id.into())
                }
                Err((status, result)) => (status, result.into()),
            },
            (op::CONNECT, Some(_)) | (_, None) => (Status::SEQUENCE, 0),
            (op::PROPERTY_GET | op::PROPERTY_SET, Some((id, 0))) => match subsystem.property(id, sqe) {
                Answer::Now(status, result, _) => (status, result),
                Answer::Flush => {
                    out.push(Action::Flush(id));
                    (Status::OK, 0)
                }
                Answer::Reset => {
                    out.push(Action::CloseQueues(id));
                    (Status::OK, 0)
                }
                _ => return,
            },
            (op::DISCONNECT, Some((_, 1..))) => {
                self.phase = Phase::Closed;
                (Status::OK, 0)
            }
            _ => (Status::INVALID_FIELD, 0),
        };
        self.end(sqe, status, result, vec![], subsystem, out);
    }
}

/// An I/O command.
fn io(
    (id, resets): (u16, u64),
    queue: u16,
    sqe: &Sqe,
    data: Vec<u8>,
    subsystem: &mut Subsystem,
) -> Result<Action, Status> {
    let model = subsystem.model.clone();
    let controller = subsystem.controller(id).ok_or(Status::SEQUENCE)?;
    // A queue from before a reset is gone, although its connection may not be closed yet.
    if !controller.is_ready() || controller.resets() != resets {
        return Err(Status::SEQUENCE);
    }
    let broadcast = sqe.opcode() == op::FLUSH && sqe.nsid() == u32::MAX;
    if sqe.nsid() != 1 && !broadcast {
        return Err(Status::INVALID_NAMESPACE);
    }
    let sector = u64::from(model.shape.sector_bytes);
    let fua = sqe.cdw(12) >> 30 & 1 == 1 || !controller.has_write_cache();
    let streams = controller.has_streams();
    // First byte and bytes, of the logical blocks that most commands name.
    let range = || {
        let end = sqe.lba().checked_add(sqe.blocks()).ok_or(Status::LBA_RANGE)?;
        if end > model.blocks() {
            return Err(Status::LBA_RANGE);
        }
        Ok((sqe.lba() * sector, sqe.blocks() * sector))
    };
    // The same, of a command that moves them.
    let moved = || {
        let (offset, bytes) = range()?;
        if bytes > u64::from(MOST_DATA) {
            return Err(Status::INVALID_FIELD);
        }
        if bytes != u64::from(sqe.sgl_length()) {
            return Err(Status::SGL_LENGTH);
        }
        Ok((offset, bytes))
    };
    let culprit = Culprit::of(queue, sqe);
    let ticket = |kind| Ticket { cid: sqe.cid(), kind, culprit };
    let submit = |kind, ios| Ok(Action::Submit(ticket(kind), ios));
    let ranges = || {
        let count = (sqe.cdw(10) & 0xff) as usize + 1;
        let list = data.get(..count * Range::BYTES).ok_or(Status::SGL_LENGTH)?;
        let ranges = decode(list)?;
        let fit = ranges.iter().all(|range| range.fits(model.blocks()));
        if fit { Ok((list.to_vec(), ranges)) } else { Err(Status::LBA_RANGE) }
    };
    match sqe.opcode() {
        op::FLUSH => submit(Kind::Other, vec![Io::flush()]),
        op::READ => {
            let (offset, bytes) = moved()?;
            submit(Kind::Read, vec![Io::read(offset, bytes)])
        }
        op::COMPARE => {
            let (offset, bytes) = moved()?;
            submit(Kind::Compare(data), vec![Io::read(offset, bytes)])
        }
        op::VERIFY => {
            let (offset, bytes) = range()?;
            if bytes > MOST_VERIFIED {
                return Err(Status::INVALID_FIELD);
            }
            let ios = (0..bytes.div_ceil(MOST_DATA.into())).map(|n| {
                let at = n * u64::from(MOST_DATA);
                Io::read(offset + at, (bytes - at).min(MOST_DATA.into()))
            });
            submit(Kind::Verify, ios.collect())
        }
        op::WRITE => {
            let (offset, _) = moved()?;
            let stream = match (sqe.cdw(12) >> 20 & 15, (sqe.cdw(13) >> 16) as u16) {
                (0, _) | (1, 0) => 0,
                (1, stream) if streams && stream <= model.streams => stream,
                (2, placement) if model.handles > 0 => {
                    // TP4146: without such a handle it is the first, and an event tells.
                    if placement >= model.handles {
                        subsystem.invalid_placement(placement);
                        0
                    } else {
                        placement
                    }
                }
                _ => return Err(Status::INVALID_FIELD),
            };
            submit(Kind::Other, vec![Io::write(offset, data).fua(fua).stream(stream)])
        }
        op::WRITE_ZEROES => {
            let (offset, bytes) = range()?;
            let may_trim = sqe.cdw(12) >> 25 & 1 == 1;
            submit(Kind::Other, vec![Io::zeros(offset, bytes, may_trim).fua(fua)])
        }
        op::DATASET => {
            // Hints on how data will be used are not; only the attribute Deallocate is.
            let (_, ranges) = ranges()?;
            let deallocate = sqe.cdw(11) & 4 != 0;
            let ranges = ranges.iter().filter(|range| deallocate && range.sectors > 0);
            let trims = ranges.map(|range| Io::trim(range.first * sector, range.sectors * sector).fua(fua));
            submit(Kind::Other, trims.collect())
        }
        op::FLASHALLOC if model.objects => {
            let ((list, ranges), free, make) = (ranges()?, sqe.cdw(11) & 1 != 0, sqe.cdw(11) & 2 == 0);
            if !free && !make {
                return Err(Status::INVALID_FIELD);
            }
            let ends = ranges.iter().filter(|_| free);
            let ends = ends.map(|range| Io::object_ends(range.first * sector, range.sectors * sector));
            submit(Kind::Other, ends.chain(make.then(|| Io::object_of(list))).collect())
        }
        op::FLASHALLOC_PLAIN if model.objects => {
            let offset = u64::from(sqe.cdw(10)) * sector;
            submit(Kind::Other, vec![Io::object(offset, u64::from(sqe.cdw(14)) * 4096)])
        }
        op::FLASHALLOC_QUERY | op::IO_MANAGEMENT_RECEIVE => {
            Ok(Action::Look(sqe.cid(), Look::io(sqe, &model)?))
        }
        op::IO_MANAGEMENT_SEND if model.handles == 0 => Err(Status::FDP_DISABLED),
        op::IO_MANAGEMENT_SEND if sqe.cdw(10) & 0xff == 1 => {
            let handles = placements(sqe, &data)?;
            if handles.iter().any(|&h| h >= model.handles) {
                return Err(Status::INVALID_FIELD);
            }
            Ok(Action::NextUnits(ticket(Kind::Other), handles))
        }
        op::IO_MANAGEMENT_SEND => Err(Status::INVALID_FIELD),
        _ => Err(Status::INVALID_OPCODE),
    }
}

#[cfg(test)]
mod tests;
