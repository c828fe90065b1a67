//! Bytes of a trace to sectors of a device.

use std::str::FromStr;

use nandle_ssd::DeviceConfig;
use nandle_trace::{Op, Request, Source, piece_bits};
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::units::bytes;

/// What becomes of addresses beyond the end of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Taken modulo the size of the device.
    Wrap,
    /// The parts of the address space that are used at all are laid side by side; if even they are
    /// more than the device holds, they share it evenly.
    #[default]
    Scale,
    /// Refused: the run does not start.
    Reject,
}

impl FromStr for Fit {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "wrap" => Ok(Self::Wrap),
            "scale" => Ok(Self::Scale),
            "reject" => Ok(Self::Reject),
            _ => Err("expected wrap, scale or reject".into()),
        }
    }
}

/// Unit in which used parts of an address space are laid side by side.
const CHUNK_BITS: u32 = 20;

/// How far requests reach and what they touch: one pass over a source.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// Requests of every kind.
    pub requests: u64,
    /// End of the highest read, write or trim, in bytes.
    pub end_bytes: u64,
    chunks: Chunks,
}

impl Footprint {
    /// Reads `source` to its end, or as far as `limit` requests.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(source: &mut dyn Source, limit: u64) -> Result<Self, Error> {
        Self::keeping(source, limit, |_| {})
    }

    /// The same, and gives away the requests it has read.
    ///
    /// # Errors
    /// Those of the source.
    pub fn keeping(
        source: &mut dyn Source,
        limit: u64,
        mut keep: impl FnMut(&mut Vec<Request>),
    ) -> Result<Self, Error> {
        let mut found = Self::default();
        let mut batch = Vec::new();
        while found.requests < limit {
            batch.clear();
            let most = BATCH.min(limit - found.requests) as usize;
            batch.reserve_exact(most);
            source.fill(&mut batch, most)?;
            if batch.is_empty() {
                break;
            }
            found.add(&batch);
            keep(&mut batch);
        }
        Ok(found)
    }

    fn add(&mut self, requests: &[Request]) {
        self.requests += requests.len() as u64;
        for r in requests.iter().filter(|r| r.bytes > 0) {
            let end = r.offset.saturating_add(r.bytes);
            self.end_bytes = self.end_bytes.max(end);
            if r.op != Op::Trim {
                let (first, last) = (r.offset >> CHUNK_BITS, (end - 1) >> CHUNK_BITS);
                self.chunks.insert(first);
                // Only nonsense is longer than 4 GiB.
                (first..=last).skip(1).take(4095).for_each(|chunk| self.chunks.insert(chunk));
            }
        }
    }

    /// Bytes of the chunks that are touched.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        (self.chunks.ascending().len() as u64) << CHUNK_BITS
    }
}

/// Requests that a pass over a source asks for at a time.
const BATCH: u64 = 4096;

/// Numbers of the MiB-sized chunks that are touched: a bit each where devices are, a set beyond.
#[derive(Clone, Debug, Default)]
struct Chunks {
    near: Vec<u64>,
    far: FxHashSet<u64>,
}

impl Chunks {
    /// 16 TiB: 2 MiB of bits.
    const NEAR: u64 = 1 << 24;

    #[inline]
    fn insert(&mut self, chunk: u64) {
        if chunk >= Self::NEAR {
            self.far.insert(chunk);
            return;
        }
        let word = (chunk / 64) as usize;
        if word >= self.near.len() {
            self.near.resize(word + 1, 0);
        }
        self.near[word] |= 1 << (chunk % 64);
    }

    fn ascending(&self) -> Vec<u64> {
        let words = self.near.iter().zip((0..).step_by(64));
        let near = words.flat_map(|(&word, first)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        });
        let mut far: Vec<u64> = self.far.iter().copied().collect();
        far.sort_unstable();
        near.chain(far).collect()
    }
}

/// Where addresses go.
#[derive(Clone, Debug)]
enum Placing {
    /// Where they are.
    Straight,
    Wrap,
    /// First sector of each chunk of the trace's address space, 2^`bits` sectors each.
    Chunks {
        bits: u32,
        base: Vec<u64>,
    },
}

/// Turns bytes into sectors: requests are rounded outward (trims inward) to whole sectors, never
/// split, and moved if they reach beyond the end of the device.
#[derive(Clone, Debug)]
pub struct Address {
    shift: u32,
    sectors: u64,
    placing: Placing,
    /// Requests that were not made of whole sectors.
    pub rounded: u64,
    /// Bytes that this added to writes.
    pub rounded_bytes: u64,
    /// Requests moved to another place by `--fit`.
    pub moved: u64,
    /// Trims without a whole sector in them: nothing to do.
    pub empty_trims: u64,
}

impl Address {
    /// For a source that is known to keep within the device (or to be refused by it beyond).
    #[must_use]
    pub fn straight(config: &DeviceConfig, logical_sectors: u64) -> Self {
        Self {
            shift: config.geometry.sector_bytes.trailing_zeros(),
            sectors: logical_sectors,
            placing: Placing::Straight,
            rounded: 0,
            rounded_bytes: 0,
            moved: 0,
            empty_trims: 0,
        }
    }

    /// For a source of which the footprint may be known; says what is done to its addresses, if
    /// anything is.
    ///
    /// # Errors
    /// If it reaches beyond the device and `fit` is to reject, or to scale without a footprint.
    pub fn fitted(
        config: &DeviceConfig,
        logical_sectors: u64,
        fit: Fit,
        footprint: Option<&Footprint>,
    ) -> Result<(Self, Option<String>), Error> {
        let mut address = Self::straight(config, logical_sectors);
        let logical = logical_sectors << address.shift;
        let reach = footprint.map_or(u64::MAX, |f| f.end_bytes);
        if reach <= logical {
            return Ok((address, None));
        }
        let beyond = match footprint {
            Some(f) => {
                format!("the trace reaches to {}, the device has {}", bytes(f.end_bytes), bytes(logical))
            }
            None => format!("the trace cannot be read twice; the device has {}", bytes(logical)),
        };
        match (fit, footprint) {
            (Fit::Reject, Some(_)) => Err(Error::input(format!(
                "{beyond}: refused, as --fit reject asks for; --fit scale or --fit wrap would move them"
            ))),
            // Beyond the end, the device refuses by itself.
            (Fit::Reject, None) => Ok((address, None)),
            (Fit::Wrap, _) => {
                address.placing = Placing::Wrap;
                Ok((address, Some(format!("{beyond}: addresses beyond wrap round (--fit wrap)"))))
            }
            (Fit::Scale, None) => {
                address.placing = Placing::Wrap;
                Ok((
                    address,
                    Some(format!(
                        "{beyond}: addresses beyond wrap round, as scaling would need its footprint"
                    )),
                ))
            }
            (Fit::Scale, Some(footprint)) => {
                let said = address.lay_out(footprint, config);
                Ok((address, Some(format!("{beyond}: {said} (--fit scale)"))))
            }
        }
    }

    /// Lays the used chunks side by side; says how.
    fn lay_out(&mut self, footprint: &Footprint, config: &DeviceConfig) -> String {
        let logical = self.sectors << self.shift;
        let page_bits = config.geometry.page_bytes.next_power_of_two().trailing_zeros();
        let bits = piece_bits(footprint.end_bytes);
        let mut used: Vec<u64> =
            footprint.chunks.ascending().into_iter().map(|c| c >> (bits - CHUNK_BITS)).collect();
        used.dedup();
        let wanted = (used.len() as u64) << bits;
        let room = (logical >> bits).max(1);
        let mut base = vec![0; (footprint.end_bytes >> bits) as usize + 1];
        let said = if used.len() as u64 <= room && logical >> bits > 0 {
            for (place, &chunk) in used.iter().enumerate() {
                base[chunk as usize] = (place as u64) << (bits - self.shift);
            }
            format!(
                "the pieces of {} that it touches, {} in all, are laid side by side",
                bytes(1 << bits),
                bytes(wanted)
            )
        } else {
            // Evenly over the device, each piece at a page border.
            let page = 1_u64 << page_bits >> self.shift;
            for (place, &chunk) in used.iter().enumerate() {
                let at = u128::from(self.sectors) * place as u128 / used.len() as u128;
                base[chunk as usize] = at as u64 / page * page;
            }
            format!(
                "the pieces of {} that it touches, {} in all, are too much: they share the device, {:.2} to one",
                bytes(1 << bits),
                bytes(wanted),
                wanted as f64 / logical as f64
            )
        };
        self.placing = Placing::Chunks { bits: bits - self.shift, base };
        said
    }

    /// Roughly where [`Address::sectors`] will begin: a hint, which may be wrong.
    #[inline]
    #[must_use]
    pub fn near(&self, request: &Request) -> u64 {
        let lsn = request.offset >> self.shift;
        match &self.placing {
            Placing::Straight => lsn,
            Placing::Wrap => lsn % self.sectors,
            Placing::Chunks { bits, base } => {
                base.get((lsn >> bits) as usize).copied().unwrap_or(0) + (lsn & ((1 << bits) - 1))
            }
        }
    }

    /// First sector and number of sectors of a request; no sectors if there is nothing to do.
    #[inline]
    pub fn sectors(&mut self, request: &Request) -> (u64, u64) {
        if request.op == Op::Flush {
            return (0, 0);
        }
        let mask = (1_u64 << self.shift) - 1;
        let end = request.offset.saturating_add(request.bytes);
        let (mut lsn, mut count);
        if (request.offset | request.bytes) & mask == 0 {
            lsn = request.offset >> self.shift;
            count = request.bytes >> self.shift;
        } else {
            self.rounded += 1;
            if request.op == Op::Trim {
                lsn = request.offset.div_ceil(mask + 1);
                count = (end >> self.shift).saturating_sub(lsn);
            } else {
                lsn = request.offset >> self.shift;
                count = end.div_ceil(mask + 1) - lsn;
                if request.op == Op::Write {
                    self.rounded_bytes += (count << self.shift).saturating_sub(request.bytes);
                }
            }
        }
        match &self.placing {
            Placing::Straight => {}
            Placing::Wrap => {
                if lsn + count > self.sectors {
                    self.moved += 1;
                    count = count.min(self.sectors);
                    lsn %= self.sectors;
                }
            }
            Placing::Chunks { bits, base } => {
                let at = base.get((lsn >> bits) as usize).copied().unwrap_or(0);
                let to = at + (lsn & ((1 << bits) - 1));
                self.moved += u64::from(to != lsn);
                lsn = to % self.sectors;
                count = count.min(self.sectors);
            }
        }
        if !matches!(self.placing, Placing::Straight) {
            // What would hang over the end is moved back, not split.
            lsn = lsn.min(self.sectors - count);
        }
        if count == 0 && request.op == Op::Trim {
            self.empty_trims += 1;
        }
        (lsn, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> DeviceConfig {
        crate::config::PRESETS[0].load().expect("a preset").config
    }

    fn request(op: Op, offset: u64, bytes: u64) -> Request {
        Request { time_ns: 0, offset, bytes, object: 0, stream: 0, op, fua: false }
    }

    struct List(Vec<Request>);
    impl Source for List {
        fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
            out.extend(self.0.drain(..max.min(self.0.len())));
            Ok(())
        }
    }

    #[test]
    fn requests_grow_to_whole_sectors_and_trims_shrink() {
        let mut a = Address::straight(&config(), 1000);
        assert_eq!(a.sectors(&request(Op::Write, 4096, 8192)), (1, 2));
        assert_eq!(a.rounded, 0);
        assert_eq!(a.sectors(&request(Op::Write, 4095, 2)), (0, 2));
        assert_eq!(a.sectors(&request(Op::Read, 1, 4096)), (0, 2));
        assert_eq!(a.sectors(&request(Op::Trim, 1, 3 * 4096)), (1, 2));
        assert_eq!(a.sectors(&request(Op::Trim, 100, 4096)), (1, 0));
        assert_eq!((a.rounded, a.rounded_bytes, a.empty_trims), (4, 8190, 1));
    }

    #[test]
    fn used_parts_are_laid_side_by_side() {
        let far = 1 << 40;
        let list = vec![
            request(Op::Write, 0, 4096),
            request(Op::Write, far, 4096),
            request(Op::Write, far + 8192, 4096),
        ];
        let footprint = Footprint::of(&mut List(list), u64::MAX).expect("a list");
        assert_eq!((footprint.requests, footprint.touched_bytes()), (3, 2 << 20));
        let (mut a, said) = Address::fitted(&config(), 1000, Fit::Scale, Some(&footprint)).expect("it fits");
        assert!(said.expect("said aloud").contains("side by side"));
        assert_eq!(a.sectors(&request(Op::Write, 4096, 4096)), (1, 1));
        assert_eq!(a.sectors(&request(Op::Write, far + 8192, 4096)), (258, 1));
        assert!(Address::fitted(&config(), 1000, Fit::Reject, Some(&footprint)).is_err());
        let (mut a, _) = Address::fitted(&config(), 1000, Fit::Wrap, Some(&footprint)).expect("it wraps");
        assert_eq!(a.sectors(&request(Op::Write, far, 4096)), ((far / 4096) % 1000, 1));
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_trace_requests_stay_inside(
            parts in proptest::collection::vec((0_u64..1 << 44, 1_u64..1 << 22), 1..40),
            sectors in 1_u64..5000, wrap in proptest::bool::ANY,
        ) {
            let list: Vec<Request> = parts.iter().map(|&(at, len)| request(Op::Write, at, len)).collect();
            let footprint = Footprint::of(&mut List(list.clone()), u64::MAX).expect("a list");
            let fit = if wrap { Fit::Wrap } else { Fit::Scale };
            let (mut a, _) = Address::fitted(&config(), sectors, fit, Some(&footprint)).expect("moved");
            for r in &list {
                let (lsn, count) = a.sectors(r);
                proptest::prop_assert!(count > 0 && lsn + count <= sectors, "{lsn}+{count} of {sectors}");
            }
        }
    }
}
