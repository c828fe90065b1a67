//! FlashAlloc (Park et al., PVLDB 16(11), 2023): the host names the logical ranges of an object, and
//! the drive keeps the object's pages in flash blocks of its own (section 4).
//!
//! `FlashAlloc({LBA, LENGTH}*)` makes an *FA instance*: its ranges, as many clean blocks as they need,
//! striped over the planes, and the place of the next write. A write is matched page by page
//! (a flag a logical page tells the common miss, section 5.2) and appended to its instance in order of
//! arrival; an overwrite takes a further page. When its pages are used up the instance is at its end
//! and later writes are normal; its blocks stay dedicated until they are erased.
//!
//! *GC-By-Block-Type* (section 4.3): collection for normal writes takes normal victims only. A call
//! that lacks clean blocks merges blocks until it has them: normal ones, the emptiest of the device
//! first, or those of one object whose live pages fit fewer blocks. Blocks of an object without a
//! live page are erased whole, as a trim of the object leaves them.
//!
//! Where the paper is silent:
//! - A trim takes its sectors out of the instance; trimmed wholly, the instance is at its end and its
//!   unwritten blocks are normal again. So they are after `FlashFree`, which the paper lacks: a file
//!   that turned out shorter than it was allocated would keep clean blocks for ever.
//! - A page on the border of two ranges belongs to the object that comes first in it.
//! - A call may take what a normal write may: all clean blocks but those that collection works with.
//! - A call that lacks blocks waits in the host's queue while others are merged. It is refused when
//!   nothing is left to merge, and at once if all live instances together could hold more pages at the
//!   cost of other data than the drive has to spare: dedicated pages beyond the object's size, and
//!   older copies of its pages elsewhere, which stay live until they are overwritten.
//! - If normal blocks are all fully valid, collection for normal writes does take blocks of ended
//!   objects, and their survivors become normal: only in this way does a drive whose objects were
//!   overwritten piecemeal not stop (`Stats::dedicated_demoted`).
//! - Of planes that have clean blocks, objects get those first in which the fewest blocks of objects are
//!   being written, so that small objects written side by side share no plane.
//! - Under static striping a page of an object lies in any plane. A normal write whose own plane can
//!   gain nothing goes to another one.
//!
//! Beyond the paper, each off by default: blocks taken when first written (`on_demand`, footnote 1),
//! tiny objects of one stream id in one block (`share_tiny`, footnote 2), collection of ended objects whose
//! pages die one by one (`collect_ended`), and objects that nobody
//! announced: aligned ranges (`auto_align`) and sequential runs (`auto_run`). Those are only made
//! of blocks that are clean already, and the oldest ends when there are more than `auto_live`. An aligned
//! range that starts with a write of one page at most, which may be a random one, is an object from the next
//! write on, if that goes on where the first ended. Nobody promised that the pages of such an object die
//! together: when it has ended, collection takes its blocks for normal ones (those of objects that ended before a
//! power cut aside, which nothing tells from the others).

use nandle_nand::Geometry;

use super::{
    Facts, Interests, Name, ObjectInfo, Objects, Plan, Published, Refusal, Scheme, Seam, StreamsConfig,
};
use crate::error::ConfigError;
use crate::flash::{Flash, SchemeRecord};
use crate::space::DedicatedPlan;

mod guess;
mod instances;
mod records;

use guess::Runs;
use instances::Instances;

/// The policy's state.
#[derive(Clone, Debug)]
pub struct FlashAlloc {
    instances: Instances,
    config: StreamsConfig,
    /// Clean blocks that the call at the front of the queue waits for.
    demand: u32,
    /// Nothing is left to merge for it.
    failed: bool,
    runs: Runs,
    /// At power-on: records before this one say nothing.
    since: u64,
}

impl Scheme for FlashAlloc {
    fn interests(&self) -> Interests {
        Interests::OBJECTS.and(Interests::TRIM)
    }
    fn objects(&mut self) -> Option<&mut dyn Objects> {
        Some(self)
    }
    fn objects_ref(&self) -> Option<&dyn Objects> {
        Some(self)
    }
    fn trimmed(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        self.trim(flash, lsn, sectors);
    }

    fn record_count(&self) -> usize {
        self.instances.record_count()
    }
    fn renew_records(&mut self, flash: &mut Flash) -> Vec<SchemeRecord> {
        self.renew(flash)
    }
    fn expect_records(&mut self, records: &[SchemeRecord]) {
        self.expect(records);
    }
    fn learn(&mut self, flash: &mut Flash, record: &SchemeRecord) {
        self.learn_record(flash, record);
    }
    fn forget(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        if let Some(dedicated) = flash.space_mut().dedicated_mut() {
            dedicated.claims_mut().forget(lsn, lsn + sectors);
        }
    }
    fn restore(&mut self, flash: &mut Flash) {
        self.resume(flash);
    }
    fn check(&self, flash: &Flash) {
        self.instances.check(flash);
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

impl Objects for FlashAlloc {
    fn most_ranges(&self) -> u32 {
        self.config.max_ranges
    }
    fn prepare(&mut self, flash: &mut Flash, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        self.clear_the_way(flash, ranges)
    }
    fn name(&mut self, flash: &mut Flash, ranges: &[(u64, u64)], stream: u16) -> Result<(), Refusal> {
        self.make(flash, ranges, stream, false)
    }
    fn complete(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        let Some(dedicated) = flash.space().dedicated() else { return };
        for slot in dedicated.claims().overlapping(lsn, lsn + sectors) {
            self.end(flash, slot, true);
        }
    }
    fn notice_write(&mut self, flash: &mut Flash, lsn: u64, sectors: u64, stream: u16) {
        self.guess(flash, lsn, sectors, stream);
    }
    fn settle(&mut self, flash: &mut Flash) {
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        for slot in dedicated.take_exhausted() {
            self.end(flash, slot, true);
        }
    }
    fn end_oldest(&mut self, flash: &mut Flash) -> bool {
        let oldest = self.instances.oldest();
        if let Some(slot) = oldest {
            self.end(flash, slot, true);
        }
        oldest.is_some()
    }
    fn list(&self, flash: &Flash) -> Vec<ObjectInfo> {
        let Some(dedicated) = flash.space().dedicated() else { return vec![] };
        let live = dedicated.claims().live();
        live.map(|(slot, claim)| ObjectInfo {
            ranges: claim.ranges.iter().map(|&(start, end)| (start, end - start)).collect(),
            pages_left: claim.left,
            blocks: dedicated.group(claim.group).blocks().len() as u32,
            auto: self.instances.is_guessed(slot),
        })
        .collect()
    }
    fn live(&self) -> u32 {
        self.instances.live()
    }
    fn demand(&self) -> u32 {
        self.demand
    }
    fn answer_demand(&mut self, failed: bool) {
        (self.demand, self.failed) = (0, failed);
    }
    fn collects_ended(&self) -> bool {
        self.config.collect_ended
    }
}

impl Published for FlashAlloc {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Streams,
        name: "flashalloc",
        line: "Each object that the host names has blocks of its own.",
    }];
    const RECORD_KINDS: &'static [u8] = records::KINDS;
    type Config<'a> = &'a StreamsConfig;
    const KEYED: &'static [&'static str] = &[
        "streams.max_ranges",
        "streams.on_demand",
        "streams.share_tiny",
        "streams.auto_align",
        "streams.auto_run",
        "streams.auto_live",
        "streams.collect_ended",
    ];

    fn plan(config: &StreamsConfig, _: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        let unannounced = config.auto_align > 0 || config.auto_run > 0;
        plan.space.dedicated = Some(DedicatedPlan { on_demand: config.on_demand, unannounced });
        Ok(())
    }
    fn new(config: &StreamsConfig, facts: &Facts<'_>, _: u32) -> Self {
        let g: &Geometry = facts.geometry;
        let block = u64::from(g.pages_per_block) * u64::from(g.sectors_per_page());
        Self {
            instances: Instances::default(),
            runs: Runs::new(config, g.sector_bytes, g.sectors_per_page(), block),
            config: config.clone(),
            demand: 0,
            failed: false,
            since: 0,
        }
    }
}
