//! What is claimed of real drives, and why ours differs where it does.

use nandle_lab::config::PRESETS;

pub const UNIFORM: &str = "real-waf-uniform";
pub const SKEWED: &str = "real-waf-skewed";
pub const ZONES: &str = "real-waf-zones";
pub const FDP: &str = "real-waf-fdp";
pub const OVER_TIME: &str = "real-waf-over-time";
pub const THROUGHPUT: &str = "real-throughput";
pub const KNEE: &str = "real-knee";
pub const LATENCY: &str = "real-latency";
pub const SHEET: &str = "real-data-sheet";

/// Names of the claims.
pub const CLAIMS: &[&str] = &[UNIFORM, SKEWED, ZONES, FDP, OVER_TIME, THROUGHPUT, KNEE, LATENCY, SHEET];

/// Whether there is a preset of that name.
pub fn exists(preset: &str) -> bool {
    PRESETS.iter().any(|p| p.name == preset)
}

const SAME_AS_UNIFORM: &str = "the log's throughput is that of uniform writes over the whole drive to three digits: what was \
    written may not be what the run's name says";
const UNPUBLISHED: &str = "how the drive chooses what it collects, and what it keeps apart, is not published: here collection is greedy or \
    weighs age, with one superblock for survivors";
const DISAGREE: &str = "the logs disagree: Zipf 0.8 on this drive implied 0.95 of the WAF of uniform writes in August 2024 (3.97 to 4.17), \
    1.15 in January 2025 (4.35 to 3.78)";
const GUESSED: &str =
    "the size of the drive's superblock, and what it keeps apart, are guessed; nothing was fitted to zones";
const EMULATED: &str = "the streams' shares are those of the logs, but how they interleave follows from times in which the emulator's host \
    has a part";
const NO_COUNTER: &str = "the drive has no counter: what its throughput implies of collection also holds reads, erases and what the \
    controller does meanwhile, and its raw capacity was fitted to such a figure";
const COLLECTION: &str = "collection takes more of the dies' time than on the drive: a page is read for every one to two units that \
    are kept, each read holds its die, and this drive's planes do not read independently, as far as is published";
const PROBED: &str = "beside the probe's 5,000 reads a second the drive takes a quarter fewer writes than alone (117,000 and 160,000 a \
    second in the logs of the MAX), for which the reads' own cost does not account";
const WAITS: &str = "arrivals that find the dies at collection fill the buffer here; the knee is lower than the drive's, and waiting \
    grows before it";
const COMMAND: &str = "what a command costs follows from the data sheet's reads a second, and how many cores share it is guessed";
const BURSTS: &str = "the drive collects in bursts that are not published: its median is that of a lone write, 8 to 10 us, while one write \
    in a hundred waits 1 to 10 ms";
const GUESSED_READS: &str =
    "how long pages of each type are read, and how cores share their work, is guessed";
const SHEET_WRITE: &str = "the sheet's typical figure is an upper one: in the logs the Micron took 9.9 us on average at 10,000 writes a second, the \
    Solidigm 9.0";

/// Why ours differs, where it does.
pub fn why(claim: &str, what: &str, workload: &str) -> &'static str {
    match claim {
        SKEWED if workload.contains("100/50:0/50") => SAME_AS_UNIFORM,
        SKEWED if workload.contains("zipf") && what.contains("solidigm") => DISAGREE,
        SKEWED => UNPUBLISHED,
        ZONES => GUESSED,
        OVER_TIME if workload.starts_with("ssdiq-") => UNPUBLISHED,
        FDP | OVER_TIME => EMULATED,
        KNEE if what.contains("micron") => PROBED,
        THROUGHPUT | KNEE => COLLECTION,
        LATENCY if workload.contains("rate=10000,") => COMMAND,
        LATENCY if what.contains("micron") || what.contains("kioxia") => BURSTS,
        LATENCY => WAITS,
        SHEET if what.contains("lone 4 KiB write") => SHEET_WRITE,
        SHEET if what.contains("read") => GUESSED_READS,
        SHEET => COLLECTION,
        _ => NO_COUNTER,
    }
}
