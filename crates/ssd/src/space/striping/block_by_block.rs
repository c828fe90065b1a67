//! No striping: a stream fills a block, then goes on in the next plane.
//!
//! So FlashAlloc's authors wrote the streams of their multi-stream prototype (`FindFreeVirtualSlice` in
//! `Multistream/address_translation.c` of their repository): one die serves a stream at a time, where the
//! firmware that it comes from stripes every page.

/// Remembers where each stream is.
#[derive(Clone, Debug, Default)]
pub struct BlockByBlock {
    /// Plane of each stream, by the number of its role.
    homes: Vec<u32>,
    /// Plane that the next block is taken from.
    turn: u32,
}

impl BlockByBlock {
    /// The plane to use out of `planes` for `stream`: the one that it is in while `goes_on` there, else the
    /// next one that has room; none if no plane has.
    pub fn choose(
        &mut self,
        stream: u16,
        planes: u32,
        goes_on: impl Fn(u32) -> bool,
        has_room: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let stream = usize::from(stream);
        if let Some(&home) = self.homes.get(stream)
            && goes_on(home)
        {
            return Some(home);
        }
        let plane = (0..planes).map(|step| (self.turn + step) % planes).find(|&plane| has_room(plane))?;
        self.turn = (plane + 1) % planes;
        if self.homes.len() <= stream {
            self.homes.resize(stream + 1, 0);
        }
        self.homes[stream] = plane;
        Some(plane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_fill_blocks_of_two_pages_in_planes_of_their_own() {
        let mut by_block = BlockByBlock::default();
        let mut written = std::collections::BTreeMap::new();
        let mut write = |stream: u16, full: &[u32]| {
            let goes_on = |plane| written.get(&(stream, plane)).is_some_and(|n| n % 2 == 1);
            let plane = by_block.choose(stream, 3, goes_on, |plane| !full.contains(&plane));
            plane.inspect(|&plane| *written.entry((stream, plane)).or_insert(0) += 1)
        };
        assert_eq!([0, 5, 0, 5].map(|stream| write(stream, &[])), [0, 1, 0, 1].map(Some));
        assert_eq!([5, 0, 0].map(|stream| write(stream, &[])), [2, 0, 0].map(Some));
        // Plane 1 is next, but full; the one that a stream is in may be full but for its own block.
        assert_eq!([0, 5].map(|stream| write(stream, &[1, 2])), [0, 2].map(Some));
        assert_eq!(write(5, &[0, 1, 2]), None);
    }
}
