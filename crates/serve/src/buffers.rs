//! Buffers of requests' data that are used again: memory that is new to the process costs a fault for every 4 KiB.

use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// Bytes of buffers that are worth keeping; of smaller ones the allocator has its own.
const SIZES: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 20;
/// Bytes that are kept in all.
const MOST: usize = 16 << 20;

/// The buffer with so many bytes in it, whatever they are, or another one.
pub(crate) fn sized(mut buffer: Vec<u8>, bytes: usize) -> Vec<u8> {
    if buffer.capacity() < bytes {
        // What has not come takes no memory: its pages are not touched.
        return vec![0; bytes];
    }
    buffer.resize(bytes, 0);
    buffer
}

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Buffers that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Kept>);

impl Buffers {
    /// None are kept yet.
    pub fn new() -> Arc<Self> {
        // glibc gives a large allocation pages of its own until one as large was freed; buffers on such pages begin at the
        // same offset in a page, and the kernel copies between them more slowly.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(2 * SIZES.end())));
        Arc::default()
    }

    /// A buffer with room for so many bytes, in which anything may be, if there is one; else an empty one.
    pub fn take(&self, bytes: usize) -> Vec<u8> {
        if SIZES.contains(&bytes) {
            let mut kept = lock(&self.0);
            // The one that was used last is the warmest; one far too large is left to those who need it.
            let fits = |buffer: &Vec<u8>| (bytes..=4 * bytes).contains(&buffer.capacity());
            if let Some(at) = kept.buffers.iter().rposition(fits) {
                let buffer = kept.buffers.remove(at);
                kept.bytes -= buffer.capacity();
                return buffer;
            }
        }
        Vec::new()
    }

    /// A buffer that is not used any more.
    pub fn give(&self, buffer: Vec<u8>) {
        if !SIZES.contains(&buffer.capacity()) {
            return;
        }
        let mut kept = lock(&self.0);
        if kept.bytes + buffer.capacity() <= MOST {
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_by_who_needs_its_size_and_no_more_are_kept_than_may_be() {
        let buffers = Buffers::default();
        let mut one = buffers.take(128 << 10);
        one.resize(128 << 10, 7);
        let place = one.as_ptr();
        buffers.give(one);
        let small = buffers.take(16 << 10);
        assert_eq!(small.capacity(), 0, "the one that there is is far too large for that");
        let again = buffers.take(100 << 10);
        assert_eq!(again.as_ptr(), place);
        buffers.give(vec![0; 100]);
        buffers.give(vec![0; 2 << 20]);
        assert_eq!(lock(&buffers.0).bytes, 0);
        (0..100).for_each(|_| buffers.give(vec![0; 1 << 20]));
        assert_eq!(lock(&buffers.0).bytes, MOST);
    }
}
