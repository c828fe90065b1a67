//! The bound that memory sets: a million random writes over a whole drive, as nothing but the words that
//! no page-mapping FTL can do without touching.
//!
//! `cargo bench -p nandle-lab --bench bound`. A write changes its word of the map, the out-of-band word of the page that
//! held the data before and the count of that page's block, each at a random place, and the next page's
//! out-of-band word. Memory is fresh, as a simulation's is.

use std::time::Instant;

use nandle_random::Stream;

const REQUESTS: u64 = 1_000_000;
const PAGES_PER_BLOCK: usize = 256;

fn main() {
    println!("| raw | pages | writes per second | ns a write |");
    println!("| --- | ---: | ---: | ---: |");
    // Of `common`'s shape, and the modern drives.
    for (gib, page_kib) in [(8_u64, 8), (32, 8), (128, 8), (512, 8), (1024, 16), (4096, 16), (16384, 16)] {
        let pages = (gib << 20) / page_kib;
        let mut draw = Stream::new(1, "bound");
        let lpns: Vec<u32> = (0..REQUESTS).map(|_| draw.below(pages) as u32).collect();
        let best = (0..5).map(|_| nanoseconds(pages as usize, &lpns)).fold(f64::MAX, f64::min);
        let each = best / REQUESTS as f64;
        println!("| {gib} GiB | {pages} | {:.1} M | {each:.0} |", 1e3 / each);
    }
}

fn nanoseconds(pages: usize, lpns: &[u32]) -> f64 {
    let mut map = vec![0_u32; pages];
    let mut oob = vec![0_u64; pages];
    let mut valid = vec![0_u16; pages / PAGES_PER_BLOCK];
    let begin = Instant::now();
    for (ppn, &lpn) in lpns.iter().enumerate() {
        let old = std::mem::replace(&mut map[lpn as usize], ppn as u32 + 1);
        if let Some(old) = (old as usize).checked_sub(1) {
            oob[old] = 0;
            valid[old / PAGES_PER_BLOCK] -= 1;
        }
        oob[ppn] = u64::from(lpn) << 8 | 0xff;
        valid[ppn / PAGES_PER_BLOCK] += 1;
    }
    let took = begin.elapsed().as_nanos() as f64;
    std::hint::black_box((map, oob, valid));
    took
}
