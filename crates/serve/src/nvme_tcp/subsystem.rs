//! What connections share: the controllers of the subsystem, their properties, features, directives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::logs::{Look, page as wire_log};
use super::model::{
    EVENT_INVALID_PLACEMENT, KEEP_ALIVE_MS, MOST_CONTROLLERS, MOST_ENTRIES, MOST_ERRORS, MOST_EVENT_REQUESTS,
    MOST_QUEUES, Model, ONE, Portal, VERSION, WARM_KELVIN,
};
use super::wire::{DISCOVERY_NQN, Done, Sqe, Status, feature, op, put, text, u16_at, u32_at};
use super::{identify, wire};

/// FDP events that are kept.
const MOST_EVENTS: usize = 63;

/// A host's association.
#[derive(Clone, Debug)]
pub struct Controller {
    host_nqn: Vec<u8>,
    host_id: [u8; 16],
    /// It is a discovery controller.
    pub discovery: bool,
    configuration: u32,
    /// Shutdown was asked for, so many flushes for it are under way, and whether one failed.
    shut: bool,
    flushes: u32,
    flush_failed: bool,
    /// How often it was reset: I/O queues from before are gone.
    resets: u64,
    /// Keep alive timer, in milliseconds; 0 = none.
    pub keep_alive_ms: u32,
    /// I/O queues that are connected.
    queues: Vec<u16>,
    /// Asynchronous event requests that are held, by identifier, and events that wait for one.
    event_requests: VecDeque<u16>,
    waiting_events: VecDeque<Event>,
    /// Types of events (a bit each) that are not told again until their log page is read.
    masked: u8,
    async_events: u32,
    write_cache: bool,
    behaviour: Vec<u8>,
    streams_enabled: bool,
    streams_allocated: u16,
}

impl Controller {
    /// Everything that a host has set is as it was at first, and the I/O queues are gone.
    fn reset(&mut self) {
        self.resets += 1;
        self.queues.clear();
        self.event_requests.clear();
        self.waiting_events.clear();
        (self.shut, self.flush_failed) = (false, false);
        (self.masked, self.async_events) = (0, 0);
        self.write_cache = true;
        self.behaviour.fill(0);
        (self.streams_enabled, self.streams_allocated) = (false, 0);
    }

    /// How often it was reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// CSTS: ready, fatal status, shutdown status.
    fn status(&self) -> u32 {
        let shutdown = match (self.shut, self.flushes > 0 || self.flush_failed) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        };
        self.configuration & 1 | u32::from(self.flush_failed) << 1 | shutdown << 2
    }

    /// Whether it was enabled.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.configuration & 1 == 1 && !self.shut
    }

    /// The end of the oldest request, with the oldest event that may be told now.
    fn next_event(&mut self) -> Option<Done> {
        let masked = self.masked;
        let at = self.waiting_events.iter().position(|event| masked >> event.parts().0 & 1 == 0)?;
        let cid = self.event_requests.pop_front()?;
        let event = self.waiting_events.remove(at)?;
        // Events without a log page are not masked.
        if event != Event::Shutdown {
            self.masked |= 1 << event.parts().0;
        }
        Some(Done { result: event.dword(), ..Done::new(cid, Status::OK) })
    }

    /// The host has read a log page: events that point to it may be told again.
    fn unmask(&mut self, page: u8) {
        match page {
            wire_log::ERRORS => self.masked &= !1,
            wire_log::SMART => self.masked &= !2,
            _ => {}
        }
    }

    /// Whether writes may stay in the volatile cache.
    #[must_use]
    pub fn has_write_cache(&self) -> bool {
        self.write_cache
    }

    /// Whether writes may name a stream.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        self.streams_enabled
    }
}

/// Something that hosts want to know unasked (Base Specification, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The image cannot be written any more.
    InternalError,
    /// The flash is worn out: no more writes.
    Unreliable,
    /// Few spare blocks are left.
    SpareLow,
    /// The server ends.
    Shutdown,
}

impl Event {
    /// Type (figure 146), information and log page.
    fn parts(self) -> (u8, u8, u8) {
        match self {
            Self::InternalError => (0, 3, wire_log::ERRORS),
            Self::Unreliable => (1, 0, wire_log::SMART),
            Self::SpareLow => (1, 2, wire_log::SMART),
            Self::Shutdown => (3, 0, 0),
        }
    }

    /// Dword 0 of the completion.
    #[must_use]
    pub fn dword(self) -> u64 {
        let (kind, what, page) = self.parts();
        u64::from(kind) | u64::from(what) << 8 | u64::from(page) << 16
    }

    /// Whether a host that configured events so (feature 0Bh) wants to know.
    fn is_wanted(self, configuration: u32) -> bool {
        match self {
            Self::InternalError => true,
            Self::Unreliable => configuration >> 3 & 1 == 1,
            Self::SpareLow => configuration & 1 == 1,
            Self::Shutdown => configuration >> 15 & 1 == 1,
        }
    }
}

/// A command that failed, for the error log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    queue: u16,
    cid: u16,
    nsid: u32,
    lba: u64,
}

impl Culprit {
    /// The command of this name, of this queue.
    #[must_use]
    pub fn at(queue: u16, cid: u16) -> Self {
        Self { queue, cid, ..Self::default() }
    }

    /// This command, of this queue.
    #[must_use]
    pub fn of(queue: u16, sqe: &Sqe) -> Self {
        let lba = match sqe.opcode() {
            op::READ | op::WRITE | op::COMPARE | op::VERIFY | op::WRITE_ZEROES if queue > 0 => sqe.lba(),
            _ => 0,
        };
        let nsid = if sqe.opcode() == op::FABRICS { 0 } else { sqe.nsid() };
        Self { queue, cid: sqe.cid(), nsid, lba }
    }
}

/// What becomes of an admin command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is complete, with dword 0 and data.
    Now(Status, u64, Vec<u8>),
    /// The drive must be asked.
    Look(Look),
    /// It is complete, and the drive is to be flushed ([`Subsystem::flushed`]).
    Flush,
    /// It is complete, and the controller's I/O queues are gone.
    Reset,
    /// It is held.
    Hold,
    /// These commands are complete.
    Ended(Vec<Done>),
}

impl Answer {
    fn status(status: Status) -> Self {
        Self::Now(status, 0, vec![])
    }
    fn result(result: u32) -> Self {
        Self::Now(Status::OK, u64::from(result), vec![])
    }
    fn of(data: Result<Vec<u8>, Status>) -> Self {
        data.map_or_else(Self::status, |data| Self::Now(Status::OK, 0, data))
    }
}

/// The subsystem.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// What it is.
    pub model: Arc<Model>,
    controllers: BTreeMap<u16, Controller>,
    next: u16,
    /// Placement identifiers that writes named and that there are not, oldest first.
    events: VecDeque<u16>,
    placement_events: bool,
    /// Errors so far, and the entries of the last ones (figure 206), newest first.
    errors: u64,
    error_log: VecDeque<[u8; 64]>,
    /// Critical warnings that hosts were told of.
    warned: u8,
}

impl Subsystem {
    /// Without controllers.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model: Arc::new(model),
            controllers: BTreeMap::new(),
            next: 1,
            events: VecDeque::new(),
            placement_events: false,
            errors: 0,
            error_log: VecDeque::new(),
            warned: 0,
        }
    }

    /// Something happened: the asynchronous event requests that end with it, by controller. Hosts
    /// without one learn of it with their next.
    pub fn happened(&mut self, event: Event) -> Vec<(u16, Done)> {
        let mut out = Vec::new();
        for (&id, controller) in &mut self.controllers {
            if controller.discovery || !controller.is_ready() || !event.is_wanted(controller.async_events) {
                continue;
            }
            if !controller.waiting_events.contains(&event) {
                controller.waiting_events.push_back(event);
            }
            if let Some(done) = controller.next_event() {
                out.push((id, done));
            }
        }
        out
    }

    /// The critical warnings of the health log are now these: what hosts are told, as by
    /// [`Subsystem::happened`].
    pub fn health(&mut self, warning: u8) -> Vec<(u16, Done)> {
        let fresh = warning & !self.warned;
        self.warned = warning;
        let mut out = Vec::new();
        for (bit, event) in [(3, Event::Unreliable), (0, Event::SpareLow)] {
            if fresh >> bit & 1 == 1 {
                out.extend(self.happened(event));
            }
        }
        out
    }

    /// A command failed.
    pub fn failed(&mut self, culprit: &Culprit, status: Status) {
        self.errors += 1;
        let mut entry = [0; 64];
        put(&mut entry, 0, &self.errors.to_le_bytes());
        put(&mut entry, 8, &culprit.queue.to_le_bytes());
        put(&mut entry, 10, &culprit.cid.to_le_bytes());
        put(&mut entry, 12, &(status.0 << 1).to_le_bytes());
        // Which byte of the command is to blame is not told.
        put(&mut entry, 14, &0xffff_u16.to_le_bytes());
        put(&mut entry, 16, &culprit.lba.to_le_bytes());
        put(&mut entry, 24, &culprit.nsid.to_le_bytes());
        // TRTYPE: TCP.
        entry[29] = 3;
        self.error_log.push_front(entry);
        self.error_log.truncate(MOST_ERRORS);
    }

    /// A controller.
    #[must_use]
    pub fn controller(&self, id: u16) -> Option<&Controller> {
        self.controllers.get(&id)
    }

    /// A connection that was made after so many resets has ended. With its admin queue a controller ends.
    pub fn left(&mut self, id: u16, queue: u16, resets: u64) {
        if queue == 0 {
            self.controllers.remove(&id);
        } else if let Some(controller) = self.controllers.get_mut(&id)
            && controller.resets == resets
        {
            controller.queues.retain(|&q| q != queue);
        }
    }

    /// A flush for the shutdown of a controller is over.
    pub fn flushed(&mut self, id: u16, good: bool) {
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.flushes = controller.flushes.saturating_sub(1);
            controller.flush_failed |= controller.shut && !good;
        }
    }

    /// A write named a placement identifier that there is not.
    pub fn invalid_placement(&mut self, identifier: u16) {
        if self.placement_events {
            if self.events.len() == MOST_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(identifier);
        }
    }

    /// Connect (Base Specification, section 6.3): the controller, or why not and dword 0 (the byte that
    /// is wrong, with bit 16 set if it is one of the data).
    ///
    /// # Errors
    /// Status and dword 0.
    pub fn connect(&mut self, sqe: &Sqe, data: &[u8]) -> Result<u16, (Status, u32)> {
        let wrong = |at: u32| (Status::CONNECT_PARAMETERS, at);
        let in_data = |at: u32| wrong(at | 1 << 16);
        if u16_at(&sqe.0, 40) != 0 {
            return Err((Status::CONNECT_FORMAT, 0));
        }
        if data.len() < 1024 {
            return Err((Status::SGL_LENGTH, 0));
        }
        let (queue, entries) = (u16_at(&sqe.0, 42), u16_at(&sqe.0, 44));
        // 0's based; more than CAP.MQES says is an invalid size.
        if entries == 0 || (queue > 0 && entries >= MOST_ENTRIES) {
            return Err(wrong(44));
        }
        let id = u16_at(data, 16);
        let name = text(&data[256..512]);
        let host = text(&data[512..768]);
        let discovery = name == DISCOVERY_NQN.as_bytes();
        if !discovery && name != self.model.nqn.as_bytes() {
            return Err(in_data(256));
        }
        if host.is_empty() {
            return Err(in_data(512));
        }
        let host_id: [u8; 16] = data[..16].first_chunk().copied().unwrap_or_default();
        if queue == 0 {
            if id != 0xffff {
                return Err(in_data(16));
            }
            if self.controllers.len() >= MOST_CONTROLLERS {
                return Err((Status::CONNECT_BUSY, 0));
            }
            // 0 and FFF0h on mean something else.
            while self.controllers.contains_key(&self.next) || !(1..0xfff0).contains(&self.next) {
                self.next = self.next.wrapping_add(1);
            }
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            let controller = Controller {
                host_nqn: host.to_vec(),
                host_id,
                discovery,
                configuration: 0,
                shut: false,
                flushes: 0,
                flush_failed: false,
                resets: 0,
                keep_alive_ms: keep_alive(u32_at(&sqe.0, 48)),
                queues: vec![],
                event_requests: VecDeque::new(),
                waiting_events: VecDeque::new(),
                masked: 0,
                async_events: 0,
                write_cache: true,
                behaviour: vec![0; 512],
                streams_enabled: false,
                streams_allocated: 0,
            };
            self.controllers.insert(id, controller);
            return Ok(id);
        }
        let controller = self.controllers.get_mut(&id).ok_or_else(|| in_data(16))?;
        if controller.discovery != discovery || controller.host_nqn != host || controller.host_id != host_id {
            return Err(in_data(512));
        }
        if discovery || queue > MOST_QUEUES {
            return Err(wrong(42));
        }
        if !controller.is_ready() || controller.queues.contains(&queue) {
            return Err((Status::SEQUENCE, 0));
        }
        controller.queues.push(queue);
        Ok(id)
    }

    /// Property Get and Set (Base Specification, sections 3.1.3 and 6.5, 6.6).
    pub fn property(&mut self, id: u16, sqe: &Sqe) -> Answer {
        let Some(controller) = self.controllers.get_mut(&id) else {
            return Answer::status(Status::SEQUENCE);
        };
        let (wide, at) = (sqe.0[40] & 7 == 1, u32_at(&sqe.0, 44));
        if sqe.fabrics_type() == op::PROPERTY_SET {
            if at != 0x14 || wide {
                return Answer::status(Status::INVALID_FIELD);
            }
            let value = u32_at(&sqe.0, 48);
            let entries = (value >> 16 & 15, value >> 20 & 15);
            // Command set NVM, pages of 4 KiB, entries of 64 and 16 bytes.
            let enabled = value & 1 == 1;
            if enabled && (value & 0x7f0 != 0 || (!controller.discovery && entries != (6, 4))) {
                return Answer::status(Status::INVALID_FIELD);
            }
            let was_enabled = controller.configuration & 1 == 1;
            controller.configuration = value;
            if !enabled {
                controller.reset();
            }
            let (notice, was_shut) = (value >> 14 & 3, controller.shut);
            controller.shut |= notice != 0;
            // A normal shutdown leaves everything on flash, an abrupt one what is there.
            if notice == 1 && !was_shut && !controller.discovery {
                controller.flushes += 1;
                return Answer::Flush;
            }
            return if was_enabled && !enabled { Answer::Reset } else { Answer::result(0) };
        }
        let value = match (at, wide) {
            (0x00, true) => {
                // Queues are contiguous, 20 s to get ready, the NVM command set.
                u64::from(MOST_ENTRIES - 1) | 1 << 16 | 40 << 24 | 1 << 37
            }
            (0x08, false) => u64::from(VERSION),
            (0x14, false) => u64::from(controller.configuration),
            (0x1c, false) => u64::from(controller.status()),
            _ => return Answer::status(Status::INVALID_FIELD),
        };
        Answer::Now(Status::OK, value, vec![])
    }

    /// An admin command that is not a fabrics command. `local` is where the host reached the drive.
    pub fn admin(&mut self, id: u16, sqe: &Sqe, data: &[u8], local: &Portal) -> Answer {
        let model = self.model.clone();
        let Some(controller) = self.controllers.get_mut(&id) else {
            return Answer::status(Status::SEQUENCE);
        };
        // A host may keep a controller alive before it enables it.
        if sqe.opcode() == op::KEEP_ALIVE {
            return Answer::result(0);
        }
        if !controller.is_ready() {
            return Answer::status(Status::SEQUENCE);
        }
        let discovery = controller.discovery;
        match sqe.opcode() {
            op::IDENTIFY => match identify::identify(&model, sqe, id, discovery) {
                Ok(page) if sqe.sgl_length() as usize >= page.len() => Answer::Now(Status::OK, 0, page),
                Ok(_) => Answer::status(Status::SGL_LENGTH),
                Err(status) => Answer::status(status),
            },
            op::GET_LOG_PAGE => {
                let look = match Look::log(sqe) {
                    Ok(look) => look,
                    Err(status) => return Answer::status(status),
                };
                if discovery {
                    let page = identify::discovery_log(&model, local);
                    return match look.page() {
                        wire_log::DISCOVERY => Answer::of(look.cut(&page)),
                        _ => Answer::status(Status::INVALID_LOG),
                    };
                }
                // RAE, bit 15, keeps the events.
                if sqe.cdw(10) >> 15 & 1 == 0 {
                    controller.unmask(look.page());
                }
                if look.page() == wire_log::ERRORS {
                    let mut page: Vec<u8> = self.error_log.iter().flatten().copied().collect();
                    page.resize(MOST_ERRORS * 64, 0);
                    return Answer::of(look.cut(&page));
                }
                if look.page() == wire_log::FDP_EVENTS {
                    return Answer::of(look.events(&model, self.events.make_contiguous()));
                }
                Answer::Look(look.after(self.errors))
            }
            op::ASYNC_EVENT if controller.event_requests.len() >= MOST_EVENT_REQUESTS as usize => {
                Answer::status(Status::ASYNC_EVENT_LIMIT)
            }
            op::ASYNC_EVENT => {
                controller.event_requests.push_back(sqe.cid());
                controller.next_event().map_or(Answer::Hold, |done| Answer::Ended(vec![done]))
            }
            op::SET_FEATURES => {
                if feature::FDP_EVENTS == sqe.0[40] && model.handles > 0 {
                    return self.set_events(sqe, data);
                }
                set_feature(controller, &model, sqe, data)
            }
            op::GET_FEATURES => match get_feature(controller, &model, sqe, self.placement_events) {
                Ok((result, data)) if data.len() <= sqe.sgl_length() as usize => {
                    Answer::Now(Status::OK, u64::from(result), data)
                }
                Ok(_) => Answer::status(Status::SGL_LENGTH),
                Err(status) => Answer::status(status),
            },
            op::ABORT if !discovery => {
                let (queue, cid) = (sqe.cdw(10) & 0xffff, (sqe.cdw(10) >> 16) as u16);
                let held = controller.event_requests.iter().position(|&held| queue == 0 && held == cid);
                // Bit 0: it was not aborted. Other commands may be complete before this answer arrives.
                let Some(held) = held else { return Answer::result(1) };
                controller.event_requests.remove(held);
                Answer::Ended(vec![Done::new(cid, Status::ABORTED), Done::new(sqe.cid(), Status::OK)])
            }
            op::DIRECTIVE_SEND if !discovery => directive_send(controller, &model, sqe),
            op::DIRECTIVE_RECEIVE if !discovery => directive_receive(controller, &model, sqe),
            // Queues are made by Connect, not by Create I/O Submission or Completion Queue (01h, 05h).
            _ => Answer::status(Status::INVALID_OPCODE),
        }
    }

    /// FDP Events (feature 1Eh): which events are kept. There is one kind, invalid placement identifiers.
    fn set_events(&mut self, sqe: &Sqe, data: &[u8]) -> Answer {
        let kinds = (sqe.cdw(11) >> 16 & 0xff) as usize;
        if sqe.cdw(11) & 0xffff >= u32::from(self.model.handles) || data.len() < kinds {
            return Answer::status(Status::INVALID_FIELD);
        }
        if data[..kinds].iter().any(|&kind| kind != EVENT_INVALID_PLACEMENT) {
            return Answer::status(Status::INVALID_FIELD);
        }
        if kinds > 0 {
            self.placement_events = sqe.cdw(12) & 1 == 1;
        }
        Answer::result(0)
    }
}

/// A keep alive timer of at least so many milliseconds; 0 = none.
fn keep_alive(ms: u32) -> u32 {
    ms.div_ceil(KEEP_ALIVE_MS).saturating_mul(KEEP_ALIVE_MS)
}

fn set_feature(controller: &mut Controller, model: &Model, sqe: &Sqe, data: &[u8]) -> Answer {
    let (which, value) = (sqe.0[40], sqe.cdw(11));
    if sqe.cdw(10) >> 31 == 1 {
        return Answer::status(Status::NOT_SAVEABLE);
    }
    match which {
        feature::KEEP_ALIVE => controller.keep_alive_ms = keep_alive(value),
        feature::ASYNC_EVENTS => controller.async_events = value,
        _ if controller.discovery => return Answer::status(Status::INVALID_FIELD),
        feature::QUEUES => {
            let (submission, completion) = (value & 0xffff, value >> 16);
            if submission == 0xffff || completion == 0xffff {
                return Answer::status(Status::INVALID_FIELD);
            }
            return Answer::result(queues());
        }
        feature::WRITE_CACHE => controller.write_cache = value & 1 == 1,
        feature::HOST_BEHAVIOUR => {
            if data.len() < 512 {
                return Answer::status(Status::SGL_LENGTH);
            }
            controller.behaviour = data[..512].to_vec();
        }
        // The drive has one setting of these.
        feature::ARBITRATION | feature::TEMPERATURE | feature::ERROR_RECOVERY | feature::ATOMICITY => {}
        feature::POWER if value & 31 == 0 => {}
        // Only without a namespace could it be changed.
        feature::FDP if model.handles > 0 => return Answer::status(Status::SEQUENCE),
        feature::FDP => return Answer::status(Status::NOT_CHANGEABLE),
        _ => return Answer::status(Status::INVALID_FIELD),
    }
    Answer::result(0)
}

/// Number of queues, 0's based, for both kinds.
fn queues() -> u32 {
    let most = u32::from(MOST_QUEUES - 1);
    most | most << 16
}

fn get_feature(
    controller: &Controller,
    model: &Model,
    sqe: &Sqe,
    placement_events: bool,
) -> Result<(u32, Vec<u8>), Status> {
    let none = |value| Ok((value, vec![]));
    match sqe.0[40] {
        feature::KEEP_ALIVE => none(controller.keep_alive_ms),
        feature::ASYNC_EVENTS => none(controller.async_events),
        _ if controller.discovery => Err(Status::INVALID_FIELD),
        feature::QUEUES => none(queues()),
        feature::WRITE_CACHE => none(u32::from(controller.write_cache)),
        feature::HOST_BEHAVIOUR => Ok((0, controller.behaviour.clone())),
        feature::HOST_ID => Ok((0, controller.host_id.to_vec())),
        // No burst limit; warning at 70 degrees Celsius, in Kelvin.
        feature::ARBITRATION => none(7),
        feature::TEMPERATURE => none(WARM_KELVIN.into()),
        feature::POWER | feature::ERROR_RECOVERY | feature::ATOMICITY => none(0),
        feature::FDP if sqe.cdw(11) & 0xffff != u32::from(ONE) => Err(Status::INVALID_FIELD),
        feature::FDP => none(u32::from(model.handles > 0)),
        feature::FDP_EVENTS if sqe.cdw(11) & 0xffff < u32::from(model.handles) => {
            let event = vec![EVENT_INVALID_PLACEMENT, u8::from(placement_events)];
            let wanted = sqe.cdw(11) >> 16 & 0xff;
            Ok((1, if wanted > 0 { event } else { vec![] }))
        }
        _ => Err(Status::INVALID_FIELD),
    }
}

const IDENTIFY: u32 = 0;
const STREAMS: u32 = 1;

fn directive_send(controller: &mut Controller, model: &Model, sqe: &Sqe) -> Answer {
    let (operation, kind) = (sqe.cdw(11) & 0xff, sqe.cdw(11) >> 8 & 0xff);
    match (kind, operation) {
        // Enable: CDW12 says which directive, and whether.
        (IDENTIFY, 1) if sqe.cdw(12) >> 8 & 0xff == STREAMS && model.streams > 0 => {
            controller.streams_enabled = sqe.cdw(12) & 1 == 1;
            controller.streams_allocated = 0;
        }
        (STREAMS, 1) if controller.streams_enabled => {}
        (STREAMS, 2) if controller.streams_enabled => controller.streams_allocated = 0,
        _ => return Answer::status(Status::INVALID_FIELD),
    }
    Answer::result(0)
}

fn directive_receive(controller: &mut Controller, model: &Model, sqe: &Sqe) -> Answer {
    let (operation, kind) = (sqe.cdw(11) & 0xff, sqe.cdw(11) >> 8 & 0xff);
    let asked = (u64::from(sqe.cdw(10)) + 1) * 4;
    let bytes = asked.min(u64::from(sqe.sgl_length())) as usize;
    let data = match (kind, operation) {
        (IDENTIFY, 1) => {
            let mut page = vec![0; 4096];
            let placement = u8::from(model.handles > 0) << 2;
            page[0] = 1 | u8::from(model.streams > 0) << 1 | placement;
            page[32] = 1 | u8::from(controller.streams_enabled) << 1 | placement;
            page
        }
        (STREAMS, 1) if controller.streams_enabled => {
            let mut page = vec![0; 32];
            let own = controller.streams_allocated;
            put(&mut page, 0, &model.streams.to_le_bytes());
            put(&mut page, 2, &(model.streams - own).to_le_bytes());
            // Stream write size: a flash page, in logical blocks.
            let page_blocks = model.shape.page_bytes / model.shape.sector_bytes;
            put(&mut page, 16, &page_blocks.to_le_bytes());
            put(&mut page, 22, &own.to_le_bytes());
            page
        }
        // Streams of the drive have no end: none is reported as open.
        (STREAMS, 2) if controller.streams_enabled => vec![0; 2],
        (STREAMS, 3) if controller.streams_enabled => {
            let wanted = (sqe.cdw(12) & 0xffff) as u16;
            controller.streams_allocated = wanted.min(model.streams);
            return Answer::result(u32::from(controller.streams_allocated));
        }
        _ => return Answer::status(Status::INVALID_FIELD),
    };
    let mut data = data;
    data.resize(bytes.min(wire::MOST_DATA as usize), 0);
    Answer::Now(Status::OK, 0, data)
}
