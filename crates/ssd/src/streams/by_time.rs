//! Stream-writes-by-time, what a vanilla drive does: data is appended in its order of arrival,
//! whatever it belongs to (FlashAlloc, section 2.1).

use crate::allocation::Role;

/// Everything shares one stream.
#[inline]
pub(crate) fn role() -> Role {
    Role::Host(0)
}
