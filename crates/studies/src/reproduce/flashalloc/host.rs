//! The host: who calls FlashAlloc, what it trims, and how fast it writes.

use nandle_ssd::Op;
use nandle_trace::synthetic::User;
use nandle_trace::{Request, Source, Turn};

use super::written::{TPC_C, belongs};

/// Who calls FlashAlloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Nobody.
    Nobody,
    /// All users.
    All,
    /// The users whose name begins so.
    Only(&'static str),
}

/// What the host does, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Who calls FlashAlloc.
    pub callers: Callers,
    /// It trims what it deletes.
    pub trims: bool,
    /// fio runs for an hour; else it overwrites its files four times.
    pub hour: bool,
    /// Bytes a second that InnoDB's page cleaner writes at most; none: as fast as it can.
    pub cleaner: Option<f64>,
}

impl Host {
    /// Trims, and `callers` call.
    pub fn with(callers: Callers) -> Self {
        Self { callers, trims: true, hour: false, cleaner: None }
    }

    /// A user as this host has it, on a drive that knows FlashAlloc or not.
    pub(super) fn told(self, user: User, known: bool) -> User {
        let calls = match self.callers {
            Callers::Nobody => false,
            Callers::All => true,
            Callers::Only(tenant) => user.name.starts_with(tenant),
        };
        // InnoDB trims its doublewrite buffer where it was changed to call FlashAlloc (section 5.1), and else not.
        let changed = known && self.callers != Callers::Nobody || !user.name.starts_with(TPC_C.0);
        let mut source = user.source;
        if !self.trims || !changed {
            source = Box::new(WithoutTrims(source));
        }
        if let Some(bytes_per_s) = self.cleaner.filter(|_| belongs(&user.name, TPC_C)) {
            source = Box::new(Paced { source, bytes_per_s, written: 0 });
        }
        User { calls, source, ..user }
    }
}

/// A user whose trims do not reach the drive.
struct WithoutTrims(Box<dyn Source>);

impl Source for WithoutTrims {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let before = out.len();
        while out.len() == before {
            self.0.fill(out, max)?;
            let given = out.len();
            out.retain(|r| r.op != Op::Trim);
            if given == before {
                break;
            }
        }
        Ok(())
    }
    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, nandle_trace::Error> {
        let turn = self.0.step(now_ns, out)?;
        out.retain(|r| r.op != Op::Trim);
        Ok(turn)
    }
}

/// A user that writes no more than so many bytes a second.
struct Paced {
    source: Box<dyn Source>,
    bytes_per_s: f64,
    written: u64,
}

impl Source for Paced {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        self.source.fill(out, max)
    }
    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, nandle_trace::Error> {
        let due = (self.written as f64 / self.bytes_per_s * 1e9) as u64;
        if now_ns < due {
            return Ok(Turn::Until(due));
        }
        let before = out.len();
        let turn = self.source.step(now_ns, out)?;
        self.written += out[before..].iter().filter(|r| r.op == Op::Write).map(|r| r.bytes).sum::<u64>();
        Ok(turn)
    }
}
