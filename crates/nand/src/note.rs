//! What a translation page, a log page or a checkpoint page holds. A large drive has many of them, mostly zeros: lines of
//! zeros are not kept.

use std::sync::Arc;

const LINE: usize = 64;

static ZEROS: [u8; LINE] = [0; LINE];

/// The bytes of a translation, log or checkpoint page.
#[derive(Clone, Debug)]
pub struct Note {
    len: usize,
    /// A bit for each line, set if the line is kept; then the kept lines.
    kept: Arc<[u8]>,
}

impl Note {
    /// From all of its bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let mut kept = Vec::with_capacity(marks(bytes.len()) + bytes.len());
        kept.resize(marks(bytes.len()), 0);
        let (lines, rest) = bytes.as_chunks::<LINE>();
        let mut keep = |n: usize, line: &[u8]| {
            kept[n / 8] |= 1 << (n % 8);
            kept.extend_from_slice(line);
        };
        for (n, line) in lines.iter().enumerate().filter(|&(_, line)| *line != ZEROS) {
            keep(n, line);
        }
        if !rest.is_empty() {
            keep(lines.len(), rest);
        }
        Self { len: bytes.len(), kept: kept.into() }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Its bytes, a line at a time.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let (marks, mut rest) = self.kept.split_at(marks(self.len));
        (0..self.len.div_ceil(LINE)).map(move |n| {
            let len = LINE.min(self.len - n * LINE);
            if marks[n / 8] >> (n % 8) & 1 == 0 {
                return &ZEROS[..len];
            }
            let line;
            (line, rest) = rest.split_at(len);
            line
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.lines().collect::<Vec<_>>().concat()
    }
}

impl PartialEq<[u8]> for Note {
    fn eq(&self, bytes: &[u8]) -> bool {
        self.len == bytes.len() && self.lines().eq(bytes.chunks(LINE))
    }
}

/// Bytes of the marks of so many bytes.
fn marks(len: usize) -> usize {
    len.div_ceil(8 * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn notes_say_what_was_written(
            mut bytes in prop::collection::vec(0..3_u8, 0..3000),
            clear in prop::collection::vec((0..3000_usize, 0..1000_usize), 0..5),
            at in 0..3000_usize,
        ) {
            for (from, len) in clear {
                bytes.iter_mut().skip(from).take(len).for_each(|byte| *byte = 0);
            }
            let note = Note::new(&bytes);
            prop_assert!(note == *bytes);
            prop_assert_eq!(note.bytes(), &bytes[..]);
            prop_assert!(bytes.is_empty() || note != bytes[1..]);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
                prop_assert!(note != *bytes);
            }
        }
    }
}
