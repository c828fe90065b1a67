//! A mapping table as one search tree over all pieces of data on a drive.
//!
//! A *piece* is what one node tells: sectors of one logical page, from the first to the last, that lie in one
//! physical page at one distance from home and have no other piece between them. A logical page has at least
//! one node, stored or not, and one more for each further piece. Sectors that were trimmed inside a piece
//! leave a hole in its state and cost no node.
//!
//! - *Accesses.* The tree is balanced. A search for a sector looks for the last node that begins at or before
//!   it, which is known only at the bottom: one DRAM access for each level. Nobody remembers nodes between a
//!   look-up and the update that follows it, as others may have been inserted and removed by then: an update walks
//!   again, then writes the node; an insertion or a removal also writes the link that leads there. What rotations
//!   write is not counted.
//! - *Bytes.* A node is an entry, in which address, first sector, size and place in the physical page take eight
//!   bytes at least, and two links of 32 bits.
//! - *Translation pages.* A node is found by links, so it stays where it is once it has been made. The nodes
//!   that every logical page has come first, in the order of their pages; those of further pieces are behind them,
//!   wherever a place is free, the one that was given up last first. The upper nodes are used by every search
//!   and so are always in RAM; what a search may have to load is the page of the logical page's first node and,
//!   if a further piece is wanted, that of its node. A change dirties the page of its node; an insertion or a
//!   removal also that of the first node, which stands for the neighbour whose link changes.

use std::collections::BTreeMap;

use nandle_nand::Ppn;
use smallvec::SmallVec;

use super::fragments::{Fragment, FragmentList, Fragments};
use super::sectors::{run_mask, runs};
use super::size::TableSize;

/// Two links of a node.
const LINK_BYTES: u32 = 8;
/// What a node tells of a piece, at least.
const PIECE_BYTES: u32 = 8;
/// Bytes of the record of a further piece, as it stands for itself in flash.
const RECORD_BYTES: usize = 12;
/// The node lies with those that every logical page has.
const OWN: u32 = u32::MAX;
/// No place yet.
const OPEN: u32 = u32::MAX - 1;

/// A piece: a fragment that no other piece interrupts.
type Pieces = SmallVec<[Fragment; 4]>;

#[derive(Clone, Copy, Debug)]
struct Node {
    piece: Fragment,
    /// Among the nodes of further pieces, or [`OWN`].
    place: u32,
}

type Nodes = SmallVec<[Node; 4]>;

/// What a change of a logical page changed in the tree.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The first node of the logical page, or a link that it stands for.
    pub own: bool,
    /// Translation pages of further nodes.
    pub pages: SmallVec<[u32; 4]>,
    /// Nodes changed, and nodes inserted or removed.
    pub nodes: (u32, u32),
}

impl Change {
    fn note(&mut self, page: Option<u32>) {
        match page {
            Some(page) if !self.pages.contains(&page) => self.pages.push(page),
            Some(_) => {}
            None => self.own = true,
        }
    }
}

/// The tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// List of each logical page + 1; 0 = its first node is all that it has.
    index: Vec<u32>,
    /// Nodes of logical pages with several, in the order of their sectors.
    lists: Vec<Nodes>,
    vacant: Vec<u32>,
    /// Logical page + 1 of each place for a further node, 0 = none.
    owners: Vec<u32>,
    free: Vec<u32>,
    /// Most places.
    places: u32,
    /// Nodes beyond the first of each logical page.
    further: u32,
    per_page: u32,
    own_pages: u32,
}

/// The pieces of a logical page, in the order of its sectors.
fn pieces(list: &[Fragment]) -> Pieces {
    let mut all: Pieces = SmallVec::new();
    for f in list {
        all.extend(runs(f.mask).map(|(start, len)| Fragment { mask: run_mask(start, len), ..*f }));
    }
    all.sort_unstable_by_key(|piece| piece.mask.trailing_zeros());
    all.dedup_by(|next, piece| {
        let same = (next.ppn, next.shift) == (piece.ppn, piece.shift);
        if same {
            piece.mask |= next.mask;
        }
        same
    });
    all
}

/// What of a piece its address does not tell.
fn state(piece: &Fragment) -> u32 {
    nandle_random::mix(piece.mask ^ nandle_random::mix(piece.shift as u64)) as u32
}

/// How many pieces a logical page has once `mask` of it is written, each run of it a piece.
pub(crate) fn pieces_behind(list: &[Fragment], mask: u64) -> u32 {
    let mut after: FragmentList = list.iter().map(|f| Fragment { mask: f.mask & !mask, ..*f }).collect();
    after.extend(runs(mask).zip(0..).map(|((start, len), shift)| Fragment {
        mask: run_mask(start, len),
        ppn: Ppn(u32::MAX),
        shift,
    }));
    pieces(&after).len() as u32
}

impl Tree {
    fn node_bytes(size: TableSize) -> u32 {
        size.entry_bytes.max(PIECE_BYTES) + LINK_BYTES
    }

    /// Nodes of a translation page, and translation pages in all, where a logical page has at most so many pieces.
    pub(super) fn pages(size: TableSize, most: u32) -> (u32, u32) {
        let per_page = (size.page_bytes / Self::node_bytes(size)).max(1);
        let further = Self::places(size, most).div_ceil(per_page);
        (per_page, size.logical_pages.div_ceil(per_page) + further)
    }

    fn places(size: TableSize, most: u32) -> u32 {
        size.logical_pages.saturating_mul(most - 1)
    }

    pub(super) fn new(size: TableSize, most: u32) -> Self {
        let (per_page, _) = Self::pages(size, most);
        Self {
            index: vec![0; size.logical_pages as usize],
            lists: Vec::new(),
            vacant: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
            places: Self::places(size, most),
            further: 0,
            per_page,
            own_pages: size.logical_pages.div_ceil(per_page),
        }
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        self.index.len() as u64 + u64::from(self.further)
    }
    /// Levels: the accesses of a search.
    pub fn levels(&self) -> u32 {
        u64::BITS - self.nodes().leading_zeros()
    }
    pub(super) fn bytes(&self, size: TableSize) -> u64 {
        self.nodes() * u64::from(Self::node_bytes(size))
    }

    fn list(&self, lpn: u32) -> &[Node] {
        match self.index[lpn as usize] {
            0 => &[],
            slot => &self.lists[slot as usize - 1],
        }
    }

    /// The translation page of a place; none: that of the logical page itself.
    fn page_of_place(&self, place: u32) -> Option<u32> {
        (place != OWN).then(|| self.own_pages + place / self.per_page)
    }

    /// The nodes with sectors of `mask` (at least one is looked for): how many, and the translation pages of those
    /// that are further ones.
    pub(crate) fn wanted(&self, lpn: u32, mask: u64) -> (u32, SmallVec<[u32; 4]>) {
        let (mut count, mut pages) = (0, SmallVec::new());
        for node in self.list(lpn).iter().filter(|node| node.piece.mask & mask != 0) {
            count += 1;
            pages.extend(self.page_of_place(node.place).filter(|page| !pages.contains(page)));
        }
        (count.max(1), pages)
    }

    /// The nodes of `lpn` are to be those of `list`.
    pub(crate) fn follow(&mut self, lpn: u32, list: &[Fragment]) -> Change {
        let mut change = Change::default();
        let slot = self.index[lpn as usize];
        if slot == 0 && list.len() <= 1 {
            // A fragment alone is one piece, whatever its sectors are.
            (change.own, change.nodes) = (true, (1, 0));
            return change;
        }
        let old = match slot {
            0 => Nodes::new(),
            slot => std::mem::take(&mut self.lists[slot as usize - 1]),
        };
        let mut new: Nodes = pieces(list).into_iter().map(|piece| Node { piece, place: OPEN }).collect();
        if old.first().map(|node| node.piece) != new.first().map(|node| node.piece) || slot == 0 {
            change.own = true;
            change.nodes.0 += 1;
        }
        if let Some(first) = new.first_mut() {
            first.place = OWN;
        }
        self.further -= (old.len() as u32).saturating_sub(1);
        let link = old.get(1).map(|node| node.place);
        let mut left: Nodes = old.into_iter().skip(1).collect();
        for node in new.iter_mut().skip(1) {
            if let Some(at) = left.iter().position(|other| other.piece == node.piece) {
                node.place = left.remove(at).place;
            }
        }
        for node in new.iter_mut().filter(|node| node.place == OPEN) {
            let start = |piece: &Fragment| piece.mask.trailing_zeros();
            let same = left.iter().position(|other| start(&other.piece) == start(&node.piece));
            if left.is_empty() {
                node.place = self.take_place(lpn);
                change.own = true;
                change.nodes.1 += 1;
            } else {
                node.place = left.remove(same.unwrap_or(0)).place;
                change.nodes.0 += 1;
            }
            change.note(self.page_of_place(node.place));
        }
        for node in left {
            change.note(self.page_of_place(node.place));
            change.own = true;
            change.nodes.1 += 1;
            if node.place != OWN {
                self.owners[node.place as usize] = 0;
                self.free.push(node.place);
            }
        }
        change.own |= link != new.get(1).map(|node| node.place);
        self.enter(lpn, new);
        change
    }

    /// A place for a further node; beside the first node if there is none left.
    fn take_place(&mut self, lpn: u32) -> u32 {
        let place = match self.free.pop() {
            Some(place) => place,
            None if (self.owners.len() as u32) < self.places => {
                self.owners.push(0);
                self.owners.len() as u32 - 1
            }
            None => return OWN,
        };
        self.owners[place as usize] = lpn + 1;
        place
    }

    fn enter(&mut self, lpn: u32, nodes: Nodes) {
        let slot = &mut self.index[lpn as usize];
        if nodes.len() <= 1 {
            self.vacant.extend((*slot != 0).then(|| *slot - 1));
            *slot = 0;
            return;
        }
        self.further += nodes.len() as u32 - 1;
        if *slot == 0 {
            *slot = 1 + self.vacant.pop().unwrap_or_else(|| {
                self.lists.push(Nodes::new());
                self.lists.len() as u32 - 1
            });
        }
        self.lists[*slot as usize - 1] = nodes;
    }

    pub(super) fn entries(&self, page: u32, fragments: &Fragments) -> Vec<u8> {
        let Some(page) = page.checked_sub(self.own_pages) else {
            return self.own_entries(page, fragments);
        };
        let mut out = Vec::new();
        let first = (page * self.per_page) as usize;
        let last = (first + self.per_page as usize).min(self.owners.len());
        for place in first..last {
            let lpn = self.owners[place].wrapping_sub(1);
            let node = match self.owners[place] {
                0 => None,
                _ => self.list(lpn).iter().find(|node| node.place == place as u32),
            };
            let record = node.map_or([0; 3], |node| [lpn + 1, node.piece.ppn.0 + 1, state(&node.piece)]);
            record.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        // Places that were never used read as zeros, as in a page that was never written.
        let used = out.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        out.truncate(used);
        out
    }

    /// The first nodes of logical pages, each with where the way to the further ones begins.
    fn own_entries(&self, page: u32, fragments: &Fragments) -> Vec<u8> {
        let first = page * self.per_page;
        let last = (first + self.per_page).min(fragments.len());
        let mut words = fragments.words(first, last);
        for lpn in first..last {
            if let [own, next, ..] = self.list(lpn) {
                let at = 4 * (lpn - first) as usize;
                let word =
                    nandle_random::mix(u64::from(own.piece.ppn.0) << 32 | u64::from(state(&own.piece)));
                words[at..at + 4].copy_from_slice(&(word as u32).to_le_bytes());
                words.extend_from_slice(&(lpn + 1).to_le_bytes());
                words.extend_from_slice(&next.place.wrapping_add(1).to_le_bytes());
            }
        }
        words
    }

    // ---- power-on -------------------------------------------------------------------------------

    /// The nodes are those of `lists`; further ones keep their places where the translation pages in flash still
    /// know them.
    pub(crate) fn restore(
        &mut self,
        contents: impl Fn(u32) -> Option<Vec<u8>>,
        lists: &BTreeMap<u32, FragmentList>,
    ) {
        let mut known: BTreeMap<u32, Vec<(u32, [u32; 2])>> = BTreeMap::new();
        for page in 0..self.places.div_ceil(self.per_page) {
            let Some(bytes) = contents(self.own_pages + page) else { continue };
            let word = |of: &[u8]| of.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
            for (place, record) in (page * self.per_page..).zip(bytes.chunks(RECORD_BYTES)) {
                let mut words = record.chunks(4).map(word).chain([0; 3]);
                let mut next = || words.next().unwrap_or(0);
                let (owner, rest) = (next(), [next(), next()]);
                if let Some(lpn) = owner.checked_sub(1) {
                    known.entry(lpn).or_default().push((place, rest));
                }
            }
        }
        let mut all: Vec<(u32, Nodes)> = Vec::new();
        let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
        for (&lpn, list) in lists {
            let mut nodes: Nodes =
                pieces(list).into_iter().map(|piece| Node { piece, place: OPEN }).collect();
            let mut places = known.remove(&lpn).unwrap_or_default();
            for same in [true, false] {
                for node in nodes.iter_mut().skip(1).filter(|node| node.place == OPEN) {
                    let record = [node.piece.ppn.0 + 1, state(&node.piece)];
                    if let Some(at) = places.iter().position(|&(_, known)| !same || known == record) {
                        node.place = places.remove(at).0;
                        taken.insert(node.place, lpn);
                    }
                }
            }
            all.push((lpn, nodes));
        }
        let end = taken.last_key_value().map_or(0, |(&last, _)| last + 1);
        self.owners = vec![0; end as usize];
        for (&place, &lpn) in &taken {
            self.owners[place as usize] = lpn + 1;
        }
        self.free = (0..end).rev().filter(|place| !taken.contains_key(place)).collect();
        for (lpn, mut nodes) in all {
            if let Some(first) = nodes.first_mut() {
                first.place = OWN;
            }
            for node in nodes.iter_mut().filter(|node| node.place == OPEN) {
                node.place = self.take_place(lpn);
            }
            self.enter(lpn, nodes);
        }
    }

    /// Checks that the nodes are those of the fragments, each in a place of its own; for tests.
    pub(crate) fn check(&self, fragments: impl Fn(u32) -> FragmentList) {
        let (mut further, mut placed) = (0, 0);
        for lpn in 0..self.index.len() as u32 {
            let (nodes, pieces) = (self.list(lpn), pieces(&fragments(lpn)));
            let known: Pieces = nodes.iter().map(|node| node.piece).collect();
            assert!(if pieces.len() > 1 { known == pieces } else { known.is_empty() }, "nodes of page {lpn}");
            further += nodes.len().saturating_sub(1);
            for node in nodes.iter().filter(|node| node.place != OWN) {
                assert_eq!(self.owners[node.place as usize], lpn + 1, "a place of two nodes");
                placed += 1;
            }
        }
        assert_eq!(further, self.further as usize);
        let owned = self.owners.iter().filter(|&&owner| owner != 0).count();
        assert_eq!((placed, placed + self.free.len()), (owned, self.owners.len()), "a place without a node");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TableSize = TableSize { page_bytes: 64, entry_bytes: 4, logical_pages: 20 };

    fn at(mask: u64, ppn: u32, shift: i8) -> Fragment {
        Fragment { mask, ppn: Ppn(ppn), shift }
    }

    #[test]
    fn a_piece_ends_where_another_lies() {
        assert_eq!(pieces(&[]).len(), 0);
        // A hole is no border.
        assert_eq!(pieces(&[at(0b1011, 1, 0)]).as_slice(), [at(0b1011, 1, 0)]);
        let cut = pieces(&[at(0b0100, 2, -2), at(0b1011, 1, 0)]);
        assert_eq!(cut.as_slice(), [at(0b0011, 1, 0), at(0b0100, 2, -2), at(0b1000, 1, 0)]);
        // What is written over is gone, and each run counts.
        assert_eq!(pieces_behind(&[at(0b1111, 1, 0)], 0b0110), 3);
        assert_eq!(pieces_behind(&[at(0b0100, 2, 0), at(0b1011, 1, 0)], 0b1100), 2);
        assert_eq!(pieces_behind(&[], 0b1001), 2);
    }

    #[test]
    fn nodes_stay_where_they_are() {
        // Four nodes of 16 bytes a page: five pages of first nodes, ten of further ones.
        assert_eq!(Tree::pages(SIZE, 3), (4, 15));
        let mut tree = Tree::new(SIZE, 3);
        assert_eq!((tree.nodes(), tree.levels()), (20, 5));
        let base = at(0xff, 1, 0);
        let change = tree.follow(7, &[base]);
        assert_eq!((change.own, change.pages.len(), change.nodes), (true, 0, (1, 0)));
        // Cut in two by a new one: two nodes more, in the first places.
        let change = tree.follow(7, &[at(0x18, 2, 0), at(0xe7, 1, 0)]);
        assert_eq!((change.own, change.pages.as_slice(), change.nodes), (true, &[5][..], (1, 2)));
        assert_eq!(
            (tree.nodes(), tree.wanted(7, 0x80), tree.wanted(7, 1)),
            (22, (1, [5][..].into()), (1, [][..].into()))
        );
        // Written again: that node alone.
        let change = tree.follow(7, &[at(0x18, 3, 0), at(0xe7, 1, 0)]);
        assert_eq!((change.own, change.pages.as_slice(), change.nodes), (false, &[5][..], (1, 0)));
        // To its end: the last piece goes, and its place with it.
        let change = tree.follow(7, &[at(0xf8, 4, 0), at(0x07, 1, 0)]);
        assert_eq!((change.own, change.pages.as_slice(), change.nodes), (true, &[5][..], (1, 1)));
        assert_eq!((tree.nodes(), tree.free.as_slice()), (21, &[1][..]));
        // What flash knows comes back to its place; what is new gets the free one.
        let lists = BTreeMap::from([(7, FragmentList::from_slice(&[at(0xf8, 4, 0), at(0x07, 1, 0)]))]);
        let stored = tree.entries(5, &Fragments::new(20, 8));
        let mut again = Tree::new(SIZE, 3);
        again.restore(|page| (page == 5).then(|| stored.clone()), &lists);
        again.check(|lpn| lists.get(&lpn).cloned().unwrap_or_default());
        assert_eq!(again.entries(5, &Fragments::new(20, 8)), stored);
        assert_eq!(tree.follow(7, &[]).nodes, (1, 1));
        assert_eq!(tree.nodes(), 20);
    }
}
