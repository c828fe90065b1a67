//! Any bytes as an NBD client's: the session never panics, never wants more than its bound, and every
//! request that it lets through can be planned and answered.
//!
//! `cargo +nightly fuzz run nbd`
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandle_serve::nbd::session::{Action, MOST_WANTED, Session};
use nandle_serve::{Fault, Shape, plan};

fuzz_target!(|data: &[u8]| {
    let shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };
    let (mut session, _) = Session::new(shape, "fuzz");
    let mut rest = data;
    while let wanted @ 1.. = session.want() {
        assert!(wanted <= MOST_WANTED);
        let Some((now, after)) = rest.split_at_checked(wanted) else { return };
        rest = after;
        for action in session.take(now.to_vec()) {
            if let Action::Submit(ticket, io) = action {
                let outcome = plan::steps(io, &shape).map(|_| Vec::new()).map_err(Fault::Drive);
                let _ = ticket.answer(outcome);
                let _ = ticket.answer(Err(Fault::Gone));
            }
        }
    }
});
