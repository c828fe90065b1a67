//! Masks of sectors: bit i stands for sector i of a logical page.

/// The mask of `len` sectors from sector `start`.
#[inline]
pub fn run_mask(start: u32, len: u32) -> u64 {
    (u64::MAX >> (64 - len)) << start
}

/// The run of a mask that has just one, as (start, length).
#[inline]
pub fn only_run(mask: u64) -> Option<(u32, u32)> {
    if mask == 0 {
        return None;
    }
    let start = mask.trailing_zeros();
    let len = (!(mask >> start)).trailing_zeros();
    (mask == run_mask(start, len)).then_some((start, len))
}

/// The runs of a mask as (start, length).
pub fn runs(mut mask: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        let start = (mask != 0).then(|| mask.trailing_zeros())?;
        let len = (!(mask >> start)).trailing_zeros().min(64 - start);
        mask &= !run_mask(start, len);
        Some((start, len))
    })
}

/// Whether sectors `a` of a page and `b` of the next one are one run over the border between them, no
/// larger than a page.
pub fn crosses_border(a: u64, b: u64, full: u64) -> bool {
    a != 0
        && b != 0
        && a == full & u64::MAX << a.trailing_zeros()
        && b & b.wrapping_add(1) == 0
        && a.count_ones() + b.count_ones() <= full.count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_masks() {
        assert_eq!(runs(0).count(), 0);
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(runs(0b1011_0110).collect::<Vec<_>>(), [(1, 2), (4, 2), (7, 1)]);
        assert_eq!(runs(1 << 63).collect::<Vec<_>>(), [(63, 1)]);
    }

    #[test]
    fn only_runs() {
        assert_eq!([0, 0b101, 1 << 63 | 1].map(only_run), [None; 3]);
        assert_eq!(only_run(u64::MAX), Some((0, 64)));
        assert_eq!(only_run(1 << 63), Some((63, 1)));
        assert_eq!(only_run(0b0110), Some((1, 2)));
    }

    #[test]
    fn runs_over_borders() {
        assert!(crosses_border(0b1000, 0b0001, 0b1111));
        assert!(!crosses_border(0b0100, 0b0001, 0b1111), "a gap before the border");
        assert!(!crosses_border(0b1000, 0b0010, 0b1111), "a gap behind it");
        assert!(!crosses_border(0b1110, 0b0011, 0b1111), "more than a page");
    }
}
