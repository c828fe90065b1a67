//! Power: cuts, capacitors, and power-on.

use nandle_io::{Command, Op};
use nandle_nand::{Silicon, Time};

use super::Ssd;
use crate::config::DeviceConfig;
use crate::durability::{Look, Recovery, RecoveryReport};
use crate::error::ConfigError;
use crate::flash::Record;
use crate::media::Media;

impl Ssd {
    /// The drive after a power cut: map, blocks and log are rebuilt from the flash.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_on(config: &DeviceConfig, silicon: Silicon, seed: u64) -> Result<Self, ConfigError> {
        Self::recovered(config, silicon, seed, Look::Checkpoint)
    }

    /// As [`Ssd::power_on`], but as if no checkpoint had been written: the out-of-band area of every page
    /// is read.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_on_by_full_scan(
        config: &DeviceConfig,
        silicon: Silicon,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        Self::recovered(config, silicon, seed, Look::Everything)
    }

    /// Powers a drive on and cuts the power again during the erase behind the first `erases` of its
    /// recovery; none if it has no more than that.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn interrupt_power_on(
        config: &DeviceConfig,
        silicon: &Silicon,
        seed: u64,
        erases: u32,
    ) -> Result<Option<Silicon>, ConfigError> {
        let mut ssd = Self::assemble(config, seed, |nand| Media::power_on(nand, silicon.clone()))?;
        let report = ssd.recover(Look::Checkpoint, &[], Some(erases));
        Ok(report.is_none().then(|| ssd.flash.into_media().cut_power(false)))
    }

    fn recovered(
        config: &DeviceConfig,
        silicon: Silicon,
        seed: u64,
        look: Look,
    ) -> Result<Self, ConfigError> {
        let mut ssd = Self::assemble(config, seed, |nand| Media::power_on(nand, silicon))?;
        let report = ssd.recover(look, &[], None).unwrap_or_default();
        ssd.start(report);
        Ok(ssd)
    }

    fn recover(&mut self, look: Look, kept: &[Record], erases: Option<u32>) -> Option<RecoveryReport> {
        let Self { flash, schemes, collect, durability, .. } = self;
        Recovery { flash, schemes, collect, durability, kept }.run(look, erases)
    }

    /// The recovery is over: the drive begins to work.
    fn start(&mut self, report: RecoveryReport) {
        self.recovery = Some(report);
        let fits = self.flash.space().fits();
        self.flash.set_read_only(!fits);
        self.expect_failures();
        self.run_collection();
        self.flash.media_mut().settle();
    }

    /// Counts `sectors` that were found unreadable without a read of the host, as when the flash was laid down.
    pub fn note_unreadable(&mut self, sectors: u64) {
        self.flash.stats_mut().unreadable_sectors += sectors;
    }

    /// Cuts the power and powers the drive on again: clock, counters and digest go on, and the
    /// recovery takes its time. Requests under way are gone.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_cycle(mut self, seed: u64) -> Result<Self, ConfigError> {
        let protected = self.config.recovery.plp;
        let hold_up_ns = if protected { self.flush_on_capacitors() } else { 0 };
        let (at, digest) = (self.now(), self.digest);
        let accounts = self.flash.accounts();
        let (on_link, controller) = (self.link_busy_ns(), self.flash.media().controller().cloned());
        let Self { config, flash, schemes, buffer, .. } = self;
        let records = flash.records().to_vec();
        let silicon = flash.into_media().cut_power(protected);
        let mut ssd = Self::assemble(&config, seed, |nand| Media::power_on(nand, silicon))?;
        ssd.schemes.take_over(&schemes);
        // What a read-only drive has no page for is kept beside the flash.
        let mut kept: &[Record] = &[];
        if protected {
            (ssd.buffer, kept) = (buffer, &records);
        }
        ssd.prefer_page_types();
        let mut report = ssd.recover(Look::Checkpoint, kept, None).unwrap_or_default();
        report.hold_up_ns = hold_up_ns;
        let digest = nandle_random::mix(digest ^ at ^ report.time_ns);
        ssd.flash.carry_over(accounts, at + report.time_ns);
        if let (Some(link), Some(before)) = (&mut ssd.link, on_link) {
            link.carry_over(before);
        }
        if let (Some(now), Some(before)) = (ssd.flash.media_mut().controller_mut(), controller) {
            now.carry_over(&before);
        }
        ssd.digest = digest;
        ssd.start(report);
        Ok(ssd)
    }

    /// Cuts the power: RAM is gone, the flash is left as it was at this instant. With `recovery.plp`
    /// the capacitors first carry the drive through a flush of everything that it has taken; what a read-only drive
    /// finds no page for is kept by [`Ssd::power_cycle`] alone.
    pub fn cut_power(mut self) -> Silicon {
        let protected = self.config.recovery.plp;
        if protected {
            self.flush_on_capacitors();
        }
        let mut silicon = self.flash.into_media().cut_power(protected);
        silicon.0.forget_aside();
        silicon
    }

    /// Flushes with what is left of the power; nanoseconds that it took.
    fn flush_on_capacitors(&mut self) -> Time {
        let start = self.now();
        self.on_capacitors = true;
        let command =
            Command { id: u64::MAX, op: Op::Flush, lsn: 0, sectors: 0, fua: false, stream: 0, data: &[] };
        self.submit(start, &command);
        let (mut done, mut flushed) = (Vec::new(), false);
        while !flushed && let Some(next) = self.next_event() {
            self.advance(next, &mut done);
            flushed = done.drain(..).any(|completion| completion.id == u64::MAX);
        }
        self.now() - start
    }

    /// Whether what the drive has taken survives a power cut before it is on flash.
    pub(super) fn ram_is_durable(&self) -> bool {
        self.config.recovery.plp && !self.on_capacitors
    }

    /// How long the capacitors would have to last if the power went now (ns), and the pages that would
    /// be programmed meanwhile; nothing without `recovery.plp`. Real drives need less of either: they
    /// dump their RAM to a place that is kept erased for it, instead of flushing.
    pub fn hold_up(&self) -> (Time, u64) {
        if !self.config.recovery.plp {
            return (0, 0);
        }
        let mut drive = self.clone();
        let programs = |ssd: &Self| ssd.counters().programs.iter().flatten().sum::<u64>();
        let before = programs(&drive);
        let time = drive.flush_on_capacitors();
        (time, programs(&drive) - before)
    }
}
