//! Any bytes as an NVMe/TCP host's: sessions never panic, never want more than their bound, and every
//! request that they let through can be planned and answered.
//!
//! `cargo +nightly fuzz run nvme_tcp`
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandle_serve::nvme_tcp::model::Model;
use nandle_serve::nvme_tcp::session::{Action, MOST_WANTED, Session};
use nandle_serve::nvme_tcp::subsystem::Subsystem;
use nandle_serve::nvme_tcp::wire::{Encoder, Out};
use nandle_serve::{Fault, Shape, plan};

fuzz_target!(|data: &[u8]| {
    let shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };
    let mut model = Model::plain(shape, "fuzz", "fuzz");
    (model.objects, model.handles, model.streams) = (true, 4, 3);
    let mut subsystem = Subsystem::new(model);
    let mut session = Session::new(([127, 0, 0, 1], 4420).into());
    let mut encoder = Encoder::default();
    let mut rest = data;
    while let wanted @ 1.. = session.want() {
        assert!(wanted <= MOST_WANTED);
        let Some((now, after)) = rest.split_at_checked(wanted) else { return };
        rest = after;
        for action in session.take(now, &mut subsystem) {
            match action {
                Action::Send(out) => drop(encoder.encode(out)),
                Action::Submit(ticket, ios) => {
                    let mut outcome = Ok(Vec::new());
                    for io in ios {
                        outcome = plan::steps(io, &shape).map(|_| Vec::new()).map_err(Fault::Drive);
                    }
                    encoder.encode(Out::Done(ticket.done(outcome)));
                }
                Action::Look(..) | Action::NextUnits(..) | Action::Close => {}
            }
        }
    }
});
