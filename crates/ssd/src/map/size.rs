//! The sizes of a mapping table.

/// What the sizes of a table follow from.
#[derive(Clone, Copy, Debug)]
pub struct TableSize {
    /// Bytes of a translation page.
    pub page_bytes: u32,
    /// Bytes of a plain entry.
    pub entry_bytes: u32,
    /// Logical pages.
    pub logical_pages: u32,
}
