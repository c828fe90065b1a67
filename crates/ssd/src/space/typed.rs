//! Page types, where they are chosen: their rules, and what was found by which.

use super::{Note, PageTypes, Space};

impl Space {
    /// Whether page types are chosen.
    #[inline]
    pub fn chooses_types(&self) -> bool {
        self.frontiers.chooses_types()
    }
    /// From now on page types are chosen by other rules, if they are chosen at all.
    pub(crate) fn set_page_types(&mut self, rules: PageTypes) {
        self.frontiers.set_rules(rules);
    }
    /// Pages that were found by steps of the page-type rules with this note.
    pub fn noted(&self, note: Note) -> u64 {
        self.frontiers.noted(note)
    }
    pub(crate) fn notes(&self) -> [u64; Note::COUNT] {
        std::array::from_fn(|n| self.frontiers.noted(Note(n as u8)))
    }
    pub(crate) fn reset_notes(&mut self) {
        self.frontiers.set_notes([0; Note::COUNT]);
    }
    /// Counts go on where they were before a power cut.
    pub(crate) fn carry_over(&mut self, notes: [u64; Note::COUNT], surplus_peak: u32) {
        self.frontiers.set_notes(notes);
        self.blocks.set_peak(surplus_peak);
    }
}
