//! Memory that verification takes for requests under way.

use nandle_io::Op;

use crate::Error;
use crate::oracle::UNIT;
use crate::units::bytes;

/// What requests under way may take on any drive, beside once its contents, as they are kept.
const ALWAYS: u64 = 1 << 30;

/// Bytes that the drive and the oracle keep of requests under way, and how many they may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnderWay {
    now: u64,
    most: u64,
    /// Of the drive.
    sectors: u64,
}

/// Requests under way would take more than that.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooMuch(u64, u64);

impl From<TooMuch> for Error {
    fn from(TooMuch(need, most): TooMuch) -> Self {
        Self::input(format!(
            "--verify keeps what requests under way hold: {} for those of one moment, of at most {} for this device; \
             expected smaller requests, fewer of them at a time (--set queue.depth=N), or a run without it",
            bytes(need),
            bytes(most)
        ))
    }
}

impl UnderWay {
    /// On a drive of so many sectors.
    pub fn on(sectors: u64) -> Self {
        Self { now: 0, most: ALWAYS + sectors * UNIT as u64, sectors }
    }

    /// Contents that are kept of a request: none of one that asks for more than there is, which is refused.
    fn kept(&self, op: Op, sectors: u64) -> u64 {
        let has_contents = matches!(op, Op::Read | Op::Write) && sectors <= self.sectors;
        if has_contents { sectors * UNIT as u64 } else { 0 }
    }

    /// A request is about to be submitted.
    #[inline]
    pub fn begin(&mut self, op: Op, sectors: u64) -> Result<(), TooMuch> {
        let now = self.now + self.kept(op, sectors);
        if now > self.most {
            return Err(TooMuch(now, self.most));
        }
        self.now = now;
        Ok(())
    }

    /// It is answered.
    #[inline]
    pub fn end(&mut self, op: Op, sectors: u64) {
        self.now -= self.kept(op, sectors);
    }

    /// None of them will be.
    pub fn cut(&mut self) {
        self.now = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_by_the_drive() {
        let sectors = 1 << 30;
        let mut under_way = UnderWay::on(sectors);
        under_way.begin(Op::Write, sectors).expect("room");
        // Nothing is kept of these.
        under_way.begin(Op::Trim, sectors).expect("no contents");
        under_way.begin(Op::Read, u64::MAX).expect("refused by the drive");
        let error = Error::from(under_way.begin(Op::Read, sectors).expect_err("too much"));
        assert!(error.is_input() && error.to_string().contains("16.0 GiB"), "{error}");
        under_way.end(Op::Trim, sectors);
        under_way.end(Op::Write, sectors);
        under_way.begin(Op::Read, sectors).expect("room again");
        under_way.cut();
        assert_eq!(under_way.now, 0);
    }
}
