//! The small partial pages in the buffer, found by where they are.
//!
//! One bit per logical page says whether a small partial page of it is buffered, so the neighbours of one
//! are found without looking at the rest of the buffer.

/// The small partial pages in the buffer.
#[derive(Clone, Debug)]
pub(super) struct SmallPages {
    bits: Vec<u64>,
    /// A partial page of at most this many sectors is small.
    most: u32,
}

impl SmallPages {
    pub fn new(logical_pages: u32, most: u32) -> Self {
        Self { bits: vec![0; logical_pages.div_ceil(64) as usize], most }
    }

    /// The buffer holds `mask` of `lpn` now.
    #[inline]
    pub fn update(&mut self, lpn: u32, mask: u64) {
        let bit = 1 << (lpn % 64);
        if mask != 0 && mask.count_ones() <= self.most {
            self.bits[lpn as usize / 64] |= bit;
        } else {
            self.bits[lpn as usize / 64] &= !bit;
        }
    }

    /// The other small partial pages of the region of `lpn`, which has `region` pages, nearest first, the
    /// lower of two equally near.
    pub fn around(&self, lpn: u32, region: u32) -> impl Iterator<Item = u32> + '_ {
        let low = lpn / region * region;
        let high = (u64::from(low) + u64::from(region)).min(self.bits.len() as u64 * 64) as u32;
        let (mut below, mut above) = (self.last(low, lpn), self.first(lpn + 1, high));
        std::iter::from_fn(move || match (below, above) {
            (Some(b), a) if a.is_none_or(|a| lpn - b <= a - lpn) => {
                below = self.last(low, b);
                Some(b)
            }
            (_, Some(a)) => {
                above = self.first(a + 1, high);
                Some(a)
            }
            (Some(_), None) | (None, None) => None,
        })
    }

    /// The first page of `from..to` with its bit set.
    fn first(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from;
        while at < to {
            let bits = self.bits[at as usize / 64] >> (at % 64);
            if bits != 0 {
                return Some(at + bits.trailing_zeros()).filter(|&found| found < to);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// The last one.
    fn last(&self, from: u32, to: u32) -> Option<u32> {
        let mut end = to;
        while end > from {
            let at = end - 1;
            let bits = self.bits[at as usize / 64] << (63 - at % 64);
            if bits != 0 {
                return Some(at - bits.leading_zeros()).filter(|&found| found >= from);
            }
            end = at / 64 * 64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_come_nearest_first_and_from_the_region_only() {
        for region_pages in [64, 100, 512] {
            let mut pages = SmallPages::new(1000, 4);
            let set = [0, 1, 60, 63, 64, 65, 99, 100, 127, 128, 140, 511, 512, 999];
            set.iter().for_each(|&lpn| pages.update(lpn, 1));
            pages.update(2, 0xff);
            for lpn in 0..1000 {
                let mut expected: Vec<u32> = set
                    .iter()
                    .copied()
                    .filter(|&n| n != lpn && n / region_pages == lpn / region_pages)
                    .collect();
                expected.sort_by_key(|&n| (n.abs_diff(lpn), n));
                assert_eq!(
                    pages.around(lpn, region_pages).collect::<Vec<_>>(),
                    expected,
                    "{lpn} of {region_pages}"
                );
            }
        }
    }
}
