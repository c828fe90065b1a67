//! What the buffer knows of the requests that come in.

/// A write that comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    /// Number of its request.
    pub number: u64,
    pub stream: u16,
    /// First sector, and the one behind the last.
    pub range: (u64, u64),
}

impl Incoming {
    /// Whether it has no more than the sectors `mask` of one logical page.
    pub fn is_within(&self, mask: u64) -> bool {
        self.range.1 - self.range.0 == u64::from(mask.count_ones())
    }
}

#[cfg(test)]
impl Incoming {
    pub(crate) fn for_tests(number: u64) -> Self {
        Self { number, stream: 0, range: (0, u64::MAX) }
    }
}

/// The newest request, with those that joined it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// Number of the request that its entries bear.
    pub request: u64,
    /// Number of the last one that joined it.
    pub joined: u64,
    pub range: (u64, u64),
}
