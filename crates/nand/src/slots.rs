//! Pages that are filled by several: where the map points at units that are smaller than a page of the
//! flash, an address names such a unit's slot, and one program fills the slots of a page together.
//!
//! A page is *open* from its first slot to its program. Its place is fixed when it is opened; what it says
//! of itself, and its sequence number, when it is sealed: what was superseded meanwhile is not in it.

use crate::{Array, Block, Cause, Change, Extents, Oob, PageUse, Ppn};

impl Array {
    /// Pages of an address that one program fills.
    #[inline]
    pub fn slots(&self) -> u32 {
        1 << self.slot_bits
    }
    /// The first of the pages that are programmed together with `ppn`.
    #[inline]
    pub fn first_slot(&self, ppn: Ppn) -> Ppn {
        Ppn(ppn.0 >> self.slot_bits << self.slot_bits)
    }
    /// The pages that are programmed together with `ppn`.
    #[inline]
    pub fn together(&self, ppn: Ppn) -> impl Iterator<Item = Ppn> + use<> {
        let first = self.first_slot(ppn).0;
        (first..first + self.slots()).map(Ppn)
    }
    /// Whether a page of `block` is open.
    #[inline]
    pub fn has_open_page(&self, block: Block) -> bool {
        self.blocks[self.at(block)].open
    }
    /// Whether `ppn` lies in a page that is open.
    #[inline]
    pub fn is_open(&self, ppn: Ppn) -> bool {
        let block = self.geometry.block_of(ppn);
        self.has_open_page(block)
            && self.nth_strict(block, self.pages_programmed(block) - 1).map(|last| self.first_slot(last))
                == Some(self.first_slot(ppn))
    }

    /// Enters what the next slot of an open page holds, or opens a page with it.
    ///
    /// # Panics
    /// If the block is not usable or the slot is not next in the program order: flash cannot do that.
    pub(crate) fn enter(&mut self, ppn: Ppn, oob: &Oob<'_>) {
        let block = self.geometry.block_of(ppn);
        self.blocks[self.at(block)].check_usable(ppn);
        assert!(
            self.next_strict(block) == Some(ppn),
            "{} entered out of order or twice",
            crate::oob::page_name(ppn)
        );
        let opens = self.first_slot(ppn) == ppn;
        if opens {
            let (kind, column) = (self.page_type(ppn), self.at_column(ppn));
            self.blocks[column].done[kind] += 1;
        }
        let (index, at) = (self.index(ppn), self.at(block));
        let state = &mut self.blocks[at];
        assert!(state.open != opens, "{} follows a page that is still open", crate::oob::page_name(ppn));
        state.open = true;
        if state.programmed == 0 {
            state.begin(self.next_seq, self.slc_labels, oob.stream);
        }
        // Until it is sealed it counts as the newest page that there is.
        self.seq[index] = (self.next_seq - state.first_seq).try_into().unwrap_or(u32::MAX);
        state.programmed += 1;
        self.oob.set(index, oob);
    }

    /// Lays a page down at once; with the last slot of a page of the flash, that page is sealed.
    pub fn lay(&mut self, ppn: Ppn, oob: &Oob<'_>) {
        self.lay_in_stripe(ppn, oob);
    }

    /// As [`Array::lay`]; if that completes a stripe, the column of its parity.
    pub(crate) fn lay_in_stripe(&mut self, ppn: Ppn, oob: &Oob<'_>) -> Option<u32> {
        if self.slot_bits == 0 {
            self.program::<false>(ppn, oob);
            return self.complete_stripe(ppn);
        }
        self.enter(ppn, oob);
        let full = self.pages_programmed(self.geometry.block_of(ppn)).is_multiple_of(self.slots());
        full.then(|| self.first_slot(ppn)).and_then(|first| {
            self.seal(first);
            self.complete_stripe(first)
        })
    }

    /// Seals the open page of `block`, if it has one.
    pub fn seal_open_page(&mut self, block: Block) {
        if self.has_open_page(block)
            && let Some(last) = self.nth_strict(block, self.pages_programmed(block) - 1)
        {
            let first = self.first_slot(last);
            self.seal(first);
            self.complete_stripe(first);
        }
    }

    /// Nothing that is programmed together with `ppn` can be read any more.
    pub(crate) fn lose_page(&mut self, ppn: Ppn) {
        let all = self.geometry.full_mask();
        for ppn in self.together(ppn) {
            self.lose(ppn, all);
        }
    }

    /// The open page that begins with `first` is as it will be programmed: it gets its sequence number, and
    /// what was not entered is padding. How many slots that is.
    pub(crate) fn seal(&mut self, first: Ppn) -> u32 {
        let block = self.geometry.block_of(first);
        let (slots, at) = (self.slots(), self.at(block));
        let state = &mut self.blocks[at];
        state.open = false;
        let entered = (state.programmed - 1) % slots + 1;
        if state.programmed == entered {
            state.first_seq = self.next_seq;
        }
        state.programmed += slots - entered;
        let delta = u32::try_from(self.next_seq - state.first_seq)
            .expect("a block stays open for fewer than 2^32 programs");
        self.next_seq += 1;
        let stream = self.stream(first);
        for (n, ppn) in (0..).zip(self.together(first)) {
            let index = self.index(ppn);
            self.seq[index] = delta;
            if n >= entered {
                self.oob.set(index, &Oob::padding(stream));
            }
        }
        slots - entered
    }

    /// A slot of an open page is to say something else of itself; nothing: that it holds nothing.
    pub fn amend(&mut self, ppn: Ppn, extents: Option<Extents<'_>>) {
        debug_assert!(self.is_open(ppn), "a page that is sealed stays as it is");
        let index = self.index(ppn);
        let (kind, owner, stream) = (self.oob.kind(index), self.oob.owner(index), self.oob.stream(index));
        self.oob.clear(index);
        match extents {
            Some(extents) => self.oob.set(index, &Oob { kind, owner, stream, extents }),
            None => {
                if !kind.is_data() {
                    self.forget_note(ppn);
                }
                self.oob.set(index, &Oob::padding(stream));
            }
        }
    }

    /// A program has come to its end.
    #[inline]
    pub(crate) fn note_program(&mut self, ppn: Ppn, cause: Cause) {
        self.note_pages(ppn, |ppn| Change::Program(ppn, cause));
    }

    /// What was programmed together with `ppn` is no longer what it was.
    pub(crate) fn note_loss(&mut self, ppn: Ppn) {
        self.note_pages(ppn, Change::Page);
    }

    #[inline]
    fn note_pages(&mut self, ppn: Ppn, change: impl Fn(Ppn) -> Change) {
        if self.changes.is_some() {
            for ppn in self.together(ppn) {
                if self.page_use(ppn) != PageUse::Erased {
                    self.note_change(change(ppn));
                }
            }
        }
    }
}

impl Oob<'_> {
    /// Of a page that holds nothing.
    pub(crate) fn padding(stream: u16) -> Self {
        let extents = Extents::Home { lpn: 0, start: 0, len: 1 };
        Oob { kind: PageUse::Padding, owner: Oob::PLAIN, stream, extents }
    }
}
