//! What the papers print about their traces, to stand beside what the twins measure.

/// A paper's row for one trace. `None` = the paper does not say.
///
/// Shares are of 1. "Partial" shares count page transactions (a request cut at page borders), as
/// PAPA's figures 5 and 7 and its allocator do: partial writes over all page writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The paper and the place in it.
    pub paper: &'static str,
    /// Requests in the trace.
    pub requests: Option<f64>,
    /// Writes of all requests.
    pub write_share: Option<f64>,
    /// Mean size of all requests, bytes.
    pub mean_bytes: Option<f64>,
    /// Mean size of the writes, bytes.
    pub mean_write_bytes: Option<f64>,
    /// Partial page writes of all page writes, 8 KiB pages.
    pub partial_writes_8k: Option<f64>,
    /// The same, 16 KiB pages.
    pub partial_writes_16k: Option<f64>,
    /// Partial writes to pages with live data outside the write, of all page writes, 8 KiB pages.
    pub partial_updates_8k: Option<f64>,
    /// The same, 16 KiB pages.
    pub partial_updates_16k: Option<f64>,
    /// Partial updates (16 KiB pages) whose page was last written by a partial write.
    pub updates_hit_partial: Option<f64>,
    /// Across-page requests of all requests, 8 KiB pages.
    pub across_8k: Option<f64>,
    /// Writes that do not start and end on a page border, 8 KiB pages.
    pub unaligned_writes_8k: Option<f64>,
    /// The same, 16 KiB pages.
    pub unaligned_writes_16k: Option<f64>,
    /// Names of the fields above that the paper gives only as a mean over its traces; the value
    /// here is this project's spread of that mean.
    pub assumed: &'static [&'static str],
}

impl Published {
    /// A row that says nothing yet.
    pub(super) const fn of(paper: &'static str) -> Self {
        Self {
            paper,
            requests: None,
            write_share: None,
            mean_bytes: None,
            mean_write_bytes: None,
            partial_writes_8k: None,
            partial_writes_16k: None,
            partial_updates_8k: None,
            partial_updates_16k: None,
            updates_hit_partial: None,
            across_8k: None,
            unaligned_writes_8k: None,
            unaligned_writes_16k: None,
            assumed: &[],
        }
    }
}
