//! Goal: queues and garbage collection behave as the theory of queues and of mean fields says.
//! Method: open and closed queues of reads on dies, and steady write amplification under uniform
//! writes, beside formulas and fixed points that know nothing of the model.

use nandle_random::{Exponential, Stream};
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::{closed, programs};

/// `dies` dies of one plane, each on a channel of its own, 8 sectors a page.
fn array(dies: u32) -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.channels = dies;
    config.geometry.chips_per_channel = 1;
    config.geometry.planes_per_die = 1;
    config.geometry.blocks_per_plane = 64;
    config.geometry.pages_per_block = 64;
    config.op_ratio = 1.0;
    config.recovery.checkpoint_interval = 0;
    config
}

/// A drive that is full, and its pages.
fn filled(config: &DeviceConfig) -> (Ssd, u64) {
    let mut ssd = Ssd::new(config, 0, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages);
    closed(&mut ssd, 64, pages, |n| (Op::Write, n * 8, 8));
    (ssd, pages)
}

// ---- queues -----------------------------------------------------------------------------------

/// Time of one read on an idle die.
const SERVICE: f64 = 52_000.0;

/// Mean latency of `requests` reads of random pages that come as a Poisson process.
fn open_reads(dies: u32, load: f64, requests: u64) -> f64 {
    let (mut ssd, pages) = filled(&array(dies));
    let mut draw = Stream::new(3, "places");
    let mut gaps = Stream::new(3, "gaps");
    let gap = Exponential { mean: SERVICE / load / f64::from(dies) };
    let start = ssd.now() as f64;
    let (mut at, mut sum, mut count) = (start, 0.0, 0);
    let mut arrivals = Vec::new();
    let mut done = vec![];
    for id in 0..requests {
        at += gap.sample(&mut gaps);
        ssd.advance(at as u64, &mut done);
        let command = Command {
            id,
            op: Op::Read,
            lsn: draw.below(pages) * 8,
            sectors: 8,
            fua: false,
            stream: 0,
            data: &[],
        };
        ssd.submit(at as u64, &command);
        arrivals.push(at as u64);
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    for completion in done {
        sum += (completion.at - arrivals[completion.id as usize]) as f64;
        count += 1;
    }
    assert_eq!(count, requests);
    sum / count as f64
}

#[test]
fn a_die_is_an_m_d_1_queue() {
    // Pollaczek and Khinchine: the mean wait is load x service / (2 (1 - load)).
    for dies in [1, 4] {
        for load in [0.2, 0.5, 0.8] {
            let mean = open_reads(dies, load, 400_000);
            let theory = SERVICE * (1.0 + load / (2.0 * (1.0 - load)));
            println!("M/D/1, {dies} dies, load {load}: {mean:.0} ns, theory {theory:.0}");
            assert!((mean / theory - 1.0).abs() < 0.02, "{dies} dies, load {load}: {mean} against {theory}");
        }
    }
}

#[test]
fn a_closed_network_lies_between_its_bounds() {
    // `jobs` requests go round `dies` dies at random. With exponential service the network has a product
    // form and its throughput is jobs / (jobs + dies - 1) of all dies'; constant service waits less, but
    // never does better than the smaller of jobs and dies at a time.
    for (dies, jobs) in [(4, 1), (4, 4), (8, 8), (8, 32), (16, 256)] {
        let (mut ssd, pages) = filled(&array(dies));
        let mut draw = Stream::new(5, "places");
        let requests = 200_000;
        let (took, _) = closed(&mut ssd, jobs, requests, |_| (Op::Read, draw.below(pages) * 8, 8));
        let busy = requests as f64 * SERVICE / took as f64;
        let most = f64::from(jobs.min(dies));
        let exponential = f64::from(dies) * f64::from(jobs) / f64::from(jobs + dies - 1);
        println!("closed, {jobs} requests, {dies} dies: {busy:.3} busy, bounds {exponential:.3} and {most}");
        assert!(busy > exponential * 0.995 && busy < most * 1.005, "{dies} dies, {jobs} requests: {busy}");
    }
}

// ---- mean fields ------------------------------------------------------------------------------

/// Write amplification of collection with `d` choices of blocks of `pages` pages under uniform writes,
/// `used` logical pages a physical page: the fixed point of the mean field (Van Houdt, SIGMETRICS 2013).
fn mean_field(pages: usize, d: i32, used: f64) -> f64 {
    // Share of the blocks with so many valid pages; at first all are as full as the average.
    let mut share = vec![0.0; pages + 1];
    share[(pages as f64 * used).round() as usize] = 1.0;
    loop {
        // The victim has n valid pages if all d have at least n, and not all more.
        let mut victim = vec![0.0; pages + 1];
        let mut above = 0.0_f64;
        for n in (0..=pages).rev() {
            victim[n] = (above + share[n]).powi(d) - above.powi(d);
            above += share[n];
        }
        let copies: f64 = victim.iter().enumerate().map(|(n, p)| p * n as f64).sum();
        let new = pages as f64 - copies;
        // Each host write invalidates a page: which, is left to chance.
        let rate = new / (used * pages as f64);
        let step = 0.5 / (pages as f64 * rate + 1.0);
        let fades = |n: usize| share.get(n).map_or(0.0, |s| s * n as f64 * rate);
        let change: Vec<f64> = (0..=pages)
            .map(|n| fades(n + 1) - fades(n) - victim[n] + f64::from(u8::from(n == pages)))
            .collect();
        share.iter_mut().zip(&change).for_each(|(s, c)| *s += step * c);
        if change.iter().map(|c| c.abs()).sum::<f64>() < 1e-7 {
            return pages as f64 / new;
        }
    }
}

/// Steady write amplification of one plane, and its logical pages a physical page (blocks that are free
/// or open aside). Writes go to parts of the device: a part's share of the pages, and of the writes.
fn measured(victim: VictimKind, pages: u32, d: u32, rho: f64, parts: &[(f64, f64)]) -> (f64, f64) {
    let blocks = 1000;
    let mut config = array(1);
    config.geometry.blocks_per_plane = blocks;
    config.geometry.pages_per_block = pages;
    config.gc.victim = victim;
    config.gc.d = d;
    config.gc.copies_in_flight = 1;
    let raw = f64::from((blocks - 2) * pages);
    config.op_ratio = f64::from(blocks * pages) / (raw / (1.0 + rho)) - 1.0;
    let (mut ssd, logical) = filled(&config);
    let mut draw = Stream::new(11, "parts");
    let mut next = move |_| {
        let (mut first, mut chance) = (0.0, draw.unit());
        for &(share, writes) in parts {
            let size = (share * logical as f64) as u64;
            if chance < writes || first + share > 0.999 {
                return (Op::Write, ((first * logical as f64) as u64 + draw.below(size)) * 8, 8);
            }
            first += share;
            chance -= writes;
        }
        unreachable!("the shares add up to one")
    };
    closed(&mut ssd, 1, logical * 5, &mut next);
    let before = programs(&ssd);
    closed(&mut ssd, 1, logical * 2, &mut next);
    ((programs(&ssd) - before) as f64 / (logical * 2) as f64, logical as f64 / raw)
}

#[test]
fn d_choices_follow_the_mean_field() {
    // With two choices and small blocks both are often fully valid, and the drive takes a better one.
    for (pages, d, rho) in [
        (64, 2, 0.3),
        (64, 3, 0.15),
        (128, 2, 0.3),
        (32, 4, 0.15),
        (16, 10, 0.15),
        (64, 10, 0.07),
        (64, 10, 0.3),
        (8, 10, 0.15),
    ] {
        let (waf, used) = measured(VictimKind::DChoices, pages, d, rho, &[(1.0, 1.0)]);
        let theory = mean_field(pages as usize, d as i32, used);
        println!("{d} choices, {pages} pages, rho {rho}: waf {waf:.3}, mean field {theory:.3}");
        assert!((waf / theory - 1.0).abs() < 0.015, "{d} choices, {pages} pages: {waf:.3}, {theory:.3}");
    }
}

/// Shares of the pages and of the writes. With much more skew whole blocks of cold pages stay valid, and
/// the drive, other than the theory, passes over those.
const SKEWS: [&[(f64, f64)]; 4] = [
    &[(1.0, 1.0)],
    &[(0.2, 0.8), (0.8, 0.2)],
    &[(0.1, 0.6), (0.9, 0.4)],
    &[(0.01, 0.3), (0.09, 0.3), (0.4, 0.2), (0.5, 0.2)],
];

/// Write amplification of FIFO collection, `used` logical pages a physical page. All of the flash is
/// written once between two visits of the collector: a page of a part that gets `p` of the writes on
/// `f` of the pages is then still valid with probability exp(-p / (f used A)), wherever it lies, and
/// what is programmed for the parts adds up (Desnoyers 2012, hot and cold data under LRU cleaning).
fn fifo_under_skew(used: f64, parts: &[(f64, f64)]) -> f64 {
    let programs = |a: f64| parts.iter().map(|(f, p)| p / -(-p / (f * used * a)).exp_m1()).sum::<f64>();
    (0..200).fold(1.0, |a, _| f64::midpoint(a, programs(a)))
}

#[test]
fn fifo_follows_its_mean_field_under_skew() {
    for parts in SKEWS {
        for rho in [0.1, 0.3] {
            let (waf, used) = measured(VictimKind::Fifo, 128, 1, rho, parts);
            let theory = fifo_under_skew(used, parts);
            println!("fifo, {parts:?}, rho {rho}: waf {waf:.3}, mean field {theory:.3}");
            assert!((waf / theory - 1.0).abs() < 0.02, "{parts:?}, rho {rho}: {waf:.3}, {theory:.3}");
        }
    }
}

/// Shares of blocks by how many hot and cold valid pages they have: `[hot * (pages + 1) + cold]`.
type Mix = Vec<f64>;

/// What collection makes of its victims: their valid pages, one victim behind the other, cut into blocks. `rest` is
/// what is left of the victim at the last cut, and then of that at the next.
fn cut_into_blocks(victims: &Mix, rest: &mut Mix, pages: usize) -> Mix {
    let at = |h: usize, c: usize| h * (pages + 1) + c;
    let each = |mix: &Mix| -> Vec<(usize, usize, f64)> {
        let mixed = (0..mix.len()).map(|n| (n / (pages + 1), n % (pages + 1), mix[n]));
        mixed.filter(|&(_, _, share)| share > 1e-9).collect()
    };
    let choose = |n: usize, k: usize| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
    let empty = victims[at(0, 0)];
    let victims: Vec<_> = each(victims).into_iter().filter(|&(h, c, _)| h + c > 0).collect();
    let all = victims.iter().map(|v| v.2).sum::<f64>();
    debug_assert!((all + empty - 1.0).abs() < 1e-3);
    let (mut blocks, mut over) = (vec![0.0; rest.len()], vec![0.0; rest.len()]);
    let mut open = std::mem::take(rest);
    while open.iter().sum::<f64>() > 1e-7 {
        let mut longer = vec![0.0; open.len()];
        for (h, c, share) in each(&open) {
            for &(i, j, chance) in &victims {
                let chance = share * chance / all;
                let room = pages - h - c;
                if i + j < room {
                    longer[at(h + i, c + j)] += chance;
                    continue;
                }
                // Which of the victim's pages still fit is left to chance.
                for x in room.saturating_sub(j)..=i.min(room) {
                    let chance = chance * choose(i, x) * choose(j, room - x) / choose(i + j, room);
                    blocks[at(h + x, c + room - x)] += chance;
                    over[at(i - x, j - (room - x))] += chance;
                }
            }
        }
        open = longer;
    }
    *rest = over;
    blocks
}

/// The same as [`mean_field`] with two parts (share of the pages, share of the writes), where what is copied goes
/// to blocks of its own (as Van Houdt, "On the necessity of hot and cold data identification", PEVA 2014, but
/// with a write frontier each for the host and for collection).
fn mean_field_of_two(pages: usize, d: i32, used: f64, parts: &[(f64, f64)]) -> f64 {
    let (hot, p) = parts[0];
    let at = |h: usize, c: usize| h * (pages + 1) + c;
    // The host's blocks: pages drawn one by one.
    let mut by_host = vec![0.0; (pages + 1) * (pages + 1)];
    let mut chance = (1.0 - p).powi(pages as i32);
    for h in 0..=pages {
        by_host[at(h, pages - h)] = chance;
        chance *= (pages - h) as f64 / (h + 1) as f64 * p / (1.0 - p);
    }
    let mut by_gc = by_host.clone();
    let mut rest = vec![0.0; by_host.len()];
    rest[at(0, 0)] = 1.0;
    // At first every block is as full as the average, and as hot.
    let mut share = vec![0.0; by_host.len()];
    let full = (pages as f64 * used).round();
    let first = (full * hot).round();
    share[at(first as usize, (full - first) as usize)] = 1.0;
    for turn in 0.. {
        let mut level = vec![0.0; pages + 1];
        for h in 0..=pages {
            for c in 0..=pages - h {
                level[h + c] += share[at(h, c)];
            }
        }
        let mut of_level = vec![0.0; pages + 1];
        let mut above = 0.0_f64;
        for n in (0..=pages).rev() {
            if level[n] > 0.0 {
                of_level[n] = ((above + level[n]).powi(d) - above.powi(d)) / level[n];
            }
            above += level[n];
        }
        let mut victims = vec![0.0; share.len()];
        let mut copies = 0.0;
        for h in 0..=pages {
            for c in 0..=pages - h {
                victims[at(h, c)] = share[at(h, c)] * of_level[h + c];
                copies += victims[at(h, c)] * (h + c) as f64;
            }
        }
        // Dear, and slow to change.
        if turn % 20 == 0 {
            by_gc = cut_into_blocks(&victims, &mut rest, pages);
        }
        let new = pages as f64 - copies;
        let host = new / pages as f64;
        let rates = [p / hot, (1.0 - p) / (1.0 - hot)].map(|share| share * new / (used * pages as f64));
        let step = 0.5 / (pages as f64 * rates[0].max(rates[1]) + f64::from(d));
        let mut changed = 0.0;
        let mut next = share.clone();
        for h in 0..=pages {
            for c in 0..=pages - h {
                let here = at(h, c);
                let mut change = host * by_host[here] + (1.0 - host) * by_gc[here] - victims[here];
                change -= share[here] * (h as f64 * rates[0] + c as f64 * rates[1]);
                if h + c < pages {
                    change += share[at(h + 1, c)] * (h + 1) as f64 * rates[0];
                    change += share[at(h, c + 1)] * (c + 1) as f64 * rates[1];
                }
                next[here] += step * change;
                changed += change.abs();
            }
        }
        share = next;
        if changed < 1e-4 * host {
            return pages as f64 / new;
        }
    }
    unreachable!("it settles")
}

#[test]
fn choices_and_greedy_follow_the_mean_field_of_hot_and_cold() {
    // Greedy is the best of ever more choices; a hundred of blocks as small as these come near it.
    for (victim, pages, many, within) in [
        (VictimKind::DChoices, 16, 10, 0.015),
        (VictimKind::Greedy, 8, 100, 0.03),
        (VictimKind::Greedy, 16, 100, 0.03),
    ] {
        for parts in [[(0.2, 0.8), (0.8, 0.2)], [(0.1, 0.6), (0.9, 0.4)], [(0.5, 0.5), (0.5, 0.5)]] {
            for rho in [0.1, 0.3] {
                let (waf, used) = measured(victim, pages, 10, rho, &parts);
                let theory = mean_field_of_two(pages as usize, many, used, &parts);
                let name = format!("{victim:?}, {pages} pages, {parts:?}, rho {rho}");
                println!("{name}: waf {waf:.3}, mean field {theory:.3}");
                assert!((waf / theory - 1.0).abs() < within, "{name}: {waf:.3}, {theory:.3}");
            }
        }
    }
}
