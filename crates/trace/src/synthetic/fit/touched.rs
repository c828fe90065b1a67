//! Which pages of which granules were read, written and trimmed so far.

use rustc_hash::FxHashMap;

/// Starts are kept modulo this many bytes, and footprints counted in it.
pub const GRANULE: u64 = 16 << 10;
/// Re-use is counted in pages of this size, as `nandle trace info` does.
pub(super) const PAGE: u64 = 4096;
const PAGES: u64 = GRANULE / PAGE;
/// Granules that are found by one entry.
const CHUNK: u64 = 64;
/// Granules of one request that are looked at; only nonsense is longer.
const MOST: u64 = 1 << 20;

/// What a request finds where it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Pages that it lies in.
    pub pages: u64,
    /// Of these: nothing lay there.
    pub fresh: u64,
    /// Of these: nothing of its own operation lay there.
    pub first: u64,
    /// Something lay in its first granule.
    pub joins: bool,
}

/// A bit for each page and operation (0 reads, 1 writes, 2 trims): four pages an operation.
#[derive(Default)]
pub(super) struct Touched {
    chunks: FxHashMap<u64, [u16; CHUNK as usize]>,
    granules: u64,
    pages: u64,
    written: u64,
}

fn any(word: u16) -> u16 {
    (word | word >> PAGES | word >> (2 * PAGES)) & 15
}

/// Each granule of a request with the pages in it.
fn pieces(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u16)> {
    let (first, last) = (offset / PAGE, offset.saturating_add(bytes.max(1) - 1) / PAGE);
    let from = first / PAGES;
    (from..=(last / PAGES).min(from + MOST)).map(move |granule| {
        let low = first.max(granule * PAGES) - granule * PAGES;
        let high = last.min(granule * PAGES + PAGES - 1) - granule * PAGES;
        (granule, (15 << low & 15) & (15 >> (PAGES - 1 - high)))
    })
}

impl Touched {
    fn word(&self, granule: u64) -> u16 {
        self.chunks.get(&(granule / CHUNK)).map_or(0, |chunk| chunk[(granule % CHUNK) as usize])
    }

    /// Was anything of this granule touched?
    pub fn holds(&self, granule: u64) -> bool {
        self.word(granule) != 0
    }

    /// Granules touched.
    pub fn granules(&self) -> u64 {
        self.granules
    }

    /// Pages touched.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Pages written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// What a request would find.
    pub fn look(&self, offset: u64, bytes: u64, which: usize) -> Found {
        let mut found = Found { joins: self.holds(offset / GRANULE), ..Found::default() };
        for (granule, pages) in pieces(offset, bytes) {
            found.count(self.word(granule), pages, which);
        }
        found
    }

    /// Marks the pages of a request, and says what it found.
    pub fn mark(&mut self, offset: u64, bytes: u64, which: usize) -> Found {
        let mut found = Found { joins: self.holds(offset / GRANULE), ..Found::default() };
        for (granule, pages) in pieces(offset, bytes) {
            let chunk = self.chunks.entry(granule / CHUNK).or_insert([0; CHUNK as usize]);
            let word = &mut chunk[(granule % CHUNK) as usize];
            found.count(*word, pages, which);
            self.granules += u64::from(*word == 0);
            *word |= pages << (which as u64 * PAGES);
        }
        self.pages += found.fresh;
        if which == 1 {
            self.written += found.first;
        }
        found
    }
}

impl Found {
    fn count(&mut self, word: u16, pages: u16, which: usize) {
        self.pages += u64::from(pages.count_ones());
        self.fresh += u64::from((pages & !any(word)).count_ones());
        self.first += u64::from((pages & !(word >> (which as u64 * PAGES))).count_ones());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_told_apart_by_who_touched_them() {
        let mut touched = Touched::default();
        // The second half of granule 0 and the first page of granule 1.
        let found = touched.mark(8192, 12_288, 0);
        assert_eq!(found, Found { pages: 3, fresh: 3, first: 3, joins: false });
        // Pages 1 to 5: two to four were read, none was written.
        let found = touched.mark(4096 + 512, 16_384, 1);
        assert_eq!(found, Found { pages: 5, fresh: 2, first: 5, joins: true });
        assert_eq!(touched.look(0, 512, 1), Found { pages: 1, fresh: 1, first: 1, joins: true });
        assert_eq!(touched.look(5 * 4096, 4096, 1), Found { pages: 1, fresh: 0, first: 0, joins: true });
        assert_eq!((touched.granules(), touched.pages(), touched.written()), (2, 5, 5));
        assert!(!touched.holds(2));
        // The end of all addresses, and no bytes.
        assert_eq!(touched.mark(u64::MAX, u64::MAX, 2).pages, 1);
        assert_eq!(touched.mark(1 << 40, 0, 2).pages, 1);
    }
}
