//! What is claimed of real drives, and why ours differs where it does.

use crate::config::PRESETS;

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
const APPENDED: &str = "all writes go to one open superblock here, whichever zone they belong to; the Micron loses less with 16 and 32 \
    open zones than with 4, as if it kept them apart. Other seeds move ours by a twentieth";
const SEPARATES: &str = "the drive amplifies less where writes are skewed or data stays than greedy collection with one superblock for \
    survivors does: it must keep hot and cold data apart in some way that is not published";
const GUESSED: &str =
    "the size of the drive's superblock, and what it keeps apart, are guessed; nothing was fitted to zones";
const EMULATED: &str = "the streams' shares are those of the logs, but how they interleave follows from times in which the emulator's host \
    has a part";
const NO_COUNTER: &str = "the drive has no counter: what its throughput implies of collection also holds reads, erases and what the \
    controller does meanwhile, and its raw capacity was fitted to such a figure";
const COLLECTION: &str = "collection takes more of the dies' time than on the drive: a page is read for every one to two units that \
    are kept, each read holds its die, and this drive's planes do not read independently, as far as is published";
const WAITS: &str = "arrivals that find the dies at collection fill the buffer here; the knee is lower than the drive's, and waiting \
    grows before it";
const GUESSED_READS: &str =
    "how long pages of each type are read, and how cores share their work, is guessed";
const SHEET_WRITE: &str =
    "the sheet's typical figure is an upper one: the drive's own median in the logs is 9 us";

/// Why ours differs, where it does.
pub fn why(claim: &str, what: &str, workload: &str) -> &'static str {
    match claim {
        SKEWED if workload.contains("100/50:0/50") => SAME_AS_UNIFORM,
        ZONES | OVER_TIME if workload.contains("seq-zones") && what.contains("micron-7450-max") => APPENDED,
        SKEWED => SEPARATES,
        ZONES => GUESSED,
        OVER_TIME if workload.contains("zipf") => SEPARATES,
        FDP | OVER_TIME => EMULATED,
        THROUGHPUT | KNEE => COLLECTION,
        LATENCY => WAITS,
        SHEET if what.contains("lone 4 KiB write") => SHEET_WRITE,
        SHEET if what.contains("read") => GUESSED_READS,
        SHEET => COLLECTION,
        _ => NO_COUNTER,
    }
}
