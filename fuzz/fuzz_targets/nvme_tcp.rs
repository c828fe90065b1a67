//! Any bytes as an NVMe/TCP host's: sessions never panic, never want more than their bound, and every
//! request that they let through can be planned and answered. The first byte says whether the bytes are the host's from
//! the beginning, or what hosts say that have connected to a controller's admin queue and to an I/O queue: commands,
//! data, or bytes that are neither.
//!
//! `cargo +nightly fuzz run nvme_tcp`
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use nandle_fuzz::small_drive;
use nandle_serve::nvme_tcp::model::Model;
use nandle_serve::nvme_tcp::session::{Action, MOST_WANTED, Session};
use nandle_serve::nvme_tcp::subsystem::Subsystem;
use nandle_serve::nvme_tcp::wire::{Digests, Encoder, Out, SGL_IN_CAPSULE, SQE, build, op, pdu, put};
use nandle_serve::{Fault, Shape, plan};
use nandle_ssd::Ssd;

const SHAPE: Shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };

thread_local! {
    /// What log pages tell of.
    static SSD: RefCell<Ssd> = RefCell::new(Ssd::new(&small_drive("page").config, 0, 1).expect("a drive"));
}

fn model() -> Model {
    let mut model = Model::plain(SHAPE, "fuzz", "fuzz");
    (model.objects, model.handles, model.streams) = (true, 4, 3);
    model
}

/// A session with what it says encoded as the server would.
struct Conversation {
    session: Session,
    encoder: Encoder,
    model: Model,
    /// Bytes that it has not taken.
    rest: Vec<u8>,
    over: bool,
}

impl Conversation {
    fn new() -> Self {
        let session = Session::new(([127, 0, 0, 1], 4420).into());
        Self { session, encoder: Encoder::default(), model: model(), rest: vec![], over: false }
    }

    fn hear(&mut self, bytes: &[u8], subsystem: &mut Subsystem) {
        self.rest.extend(bytes);
        while !self.over {
            let wanted = self.session.want();
            assert!(wanted <= MOST_WANTED);
            self.over = wanted == 0;
            if self.over || self.rest.len() < wanted {
                return;
            }
            let now = self.rest.drain(..wanted);
            self.session.place().copy_from_slice(now.as_slice());
            drop(now);
            for action in self.session.take(subsystem) {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Send(out) => drop(self.encoder.encode(out)),
            Action::Submit(ticket, ios) => {
                let mut outcome = Ok(Vec::new());
                for io in ios {
                    outcome = plan::steps(io, &SHAPE).map(|_| Vec::new()).map_err(Fault::Drive);
                }
                self.encoder.encode(Out::Done(ticket.done(outcome)));
            }
            Action::Look(_, look) => {
                let most = look.bytes();
                let answer = SSD.with_borrow(|ssd| look.answer(ssd, &self.model));
                assert!(answer.is_err() || answer.is_ok_and(|data| data.len() as u64 <= most));
            }
            Action::NextUnits(..) | Action::Flush(..) | Action::CloseQueues(..) => {}
            Action::Close => self.over = true,
        }
    }

    /// Initialises the connection and connects it as a queue.
    fn connect(&mut self, queue: u16, controller: u16, subsystem: &mut Subsystem) {
        let mut hello = [0; 128];
        (hello[2], hello[4]) = (128, 128);
        let (mut sqe, mut data) = ([0; SQE], [0; 1024]);
        (sqe[0], sqe[4], sqe[39], sqe[44]) = (op::FABRICS, op::CONNECT, SGL_IN_CAPSULE, 31);
        put(&mut sqe, 32, &1024_u32.to_le_bytes());
        put(&mut sqe, 42, &queue.to_le_bytes());
        put(&mut data, 16, &controller.to_le_bytes());
        put(&mut data, 256, self.model.nqn.as_bytes());
        put(&mut data, 512, b"nqn.2014-08.org.nvmexpress:uuid:fuzz");
        self.hear(&[&hello[..], &command(&sqe, &data)].concat(), subsystem);
    }
}

fn command(sqe: &[u8; SQE], data: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    build(&mut out, pdu::COMMAND, 0, sqe, data, Digests::default(), 4);
    out
}

/// As many of the bytes as there are, up to `n`.
fn some<'a>(from: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (now, rest) = from.split_at(n.min(from.len()));
    *from = rest;
    now
}

fn connected(mut bytes: &[u8], subsystem: &mut Subsystem) {
    let (mut admin, mut io) = (Conversation::new(), Conversation::new());
    admin.connect(0, 0xffff, subsystem);
    let (id, _) = admin.session.queue().expect("a controller");
    let mut enable = [0; SQE];
    (enable[0], enable[44]) = (op::FABRICS, 0x14);
    put(&mut enable, 48, &0x0046_0001_u32.to_le_bytes());
    admin.hear(&command(&enable, &[]), subsystem);
    io.connect(1, id, subsystem);
    assert_eq!(io.session.queue(), Some((id, 1)));
    while let [how, size, rest @ ..] = bytes {
        bytes = rest;
        let to = if how & 1 == 0 { &mut admin } else { &mut io };
        let room = usize::from(*size) * 4;
        match how >> 1 & 3 {
            // A command as long as it has to be, with data in its capsule or without.
            kind @ 0..=1 => {
                let mut sqe = [0; SQE];
                put(&mut sqe, 0, some(&mut bytes, SQE));
                let data = if kind == 0 { &[][..] } else { some(&mut bytes, room) };
                if kind == 1 {
                    sqe[39] = SGL_IN_CAPSULE;
                    put(&mut sqe, 24, &[0; 8]);
                    put(&mut sqe, 32, &(data.len() as u32).to_le_bytes());
                }
                to.hear(&command(&sqe, data), subsystem);
            }
            2 => {
                let mut head = [0; 16];
                put(&mut head, 0, some(&mut bytes, 16));
                let (mut out, data) = (vec![], some(&mut bytes, room));
                build(&mut out, pdu::H2C_DATA, how >> 3, &head, data, Digests::default(), 4);
                to.hear(&out, subsystem);
            }
            _ => to.hear(some(&mut bytes, room), subsystem),
        }
    }
    for (queue, conversation) in [(1, &io), (0, &admin)] {
        if conversation.session.queue().is_some() {
            subsystem.left(id, queue, conversation.session.resets());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((how, data)) = data.split_first() else { return };
    let mut subsystem = Subsystem::new(model());
    if how & 1 == 0 {
        Conversation::new().hear(data, &mut subsystem);
    } else {
        connected(data, &mut subsystem);
    }
});
