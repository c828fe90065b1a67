//! What the controller does between a decision and the flash, and when a die has taken a page.

use nandle_nand::{OpId, Time};

use super::{Media, Stepped};
use crate::controller::{Controller, Work};

impl Media {
    /// From now on operations go to their dies when `controller` has ordered them.
    pub(crate) fn set_controller(&mut self, controller: Controller) {
        self.nand.wait_for_controller();
        self.controller = Some(Box::new(controller));
    }
    /// The controller, if its work takes time.
    #[inline]
    pub(crate) fn controller(&self) -> Option<&Controller> {
        self.controller.as_deref()
    }
    #[inline]
    pub(crate) fn controller_mut(&mut self) -> Option<&mut Controller> {
        self.controller.as_deref_mut()
    }
    /// Whether reads hold all cores: nothing of the host's is carried out.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.is_held())
    }

    /// When flash or controller do something next; [`Time::MAX`] if neither has anything to do.
    #[inline]
    pub(super) fn next_of_both(&self) -> Time {
        let orders = self.controller.as_ref().map_or(Time::MAX, |controller| controller.next_event());
        orders.min(self.nand.next_time())
    }

    /// When the controller does something next, if that is before the flash does; where both have something at the
    /// same time, the flash goes first.
    #[inline]
    pub(super) fn controller_is_next(&self) -> Option<Time> {
        let at = self.controller.as_ref()?.next_event();
        (at < self.nand.next_time()).then_some(at)
    }

    /// What the controller does at `at`.
    #[inline(always)]
    pub(super) fn step_controller(&mut self, at: Time) -> Stepped {
        self.nand.advance(at);
        match self.controller.as_mut().and_then(|controller| controller.step(at)) {
            Some(Work::Command(slot)) => return Stepped::Command(slot),
            Some(Work::Operation(op)) => self.nand.start(op),
            None => {}
        }
        Stepped::Order
    }

    /// Operations that may go to their dies pass the controller; with those that do so at once others may.
    #[inline]
    pub(super) fn order_ready(&mut self) {
        if self.nand.has_ready() {
            self.order_those();
        }
    }

    #[inline(never)]
    fn order_those(&mut self) {
        let now = self.nand.now();
        let Some(controller) = &mut self.controller else { return };
        loop {
            let mut went = false;
            while let Some(ready) = self.nand.next_ready() {
                if controller.operation(now, &ready) {
                    self.nand.start(ready.op);
                    went = true;
                }
            }
            if !went {
                return;
            }
            self.nand.settle();
        }
    }

    /// A read is done; whether a core that waited for it goes on.
    #[inline]
    pub(crate) fn let_go(&mut self, op: OpId) -> bool {
        let now = self.nand.now();
        self.controller.as_mut().is_some_and(|controller| controller.let_go(now, op))
    }

    /// From now on [`Media::taken`] says what buffered sectors dies have taken over.
    pub(crate) fn tell_handover(&mut self) {
        self.nand.tell_handover();
    }
    /// Buffered sectors whose pages were in their dies' registers with the last step: they are released.
    #[inline]
    pub(crate) fn taken(&mut self) -> u32 {
        let Self { nand, waiters, .. } = self;
        nand.taken().iter().map(|&op| waiters.release(op)).sum()
    }
}
