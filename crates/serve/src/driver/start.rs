//! A drive is switched on: a new one, or the one in an image.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use nandle_lab::config::Drive;
use nandle_lab::measure::Meter;
use nandle_lab::memory;
use nandle_ssd::Ssd;
use nandle_ssd::nand::Silicon;
use nandle_trace::Format;

use super::faults::Faults;
use super::{Driver, Options};
use crate::buffers::Buffers;
use crate::clients::Roll;
use crate::device::Seat;
use crate::image::Opened;
use crate::live::shadow;
use crate::report::Health;
use crate::timing::Timing;
use crate::{Clock, Device, Error, Shape};

/// Memory that a drive may take before its first request.
const MOST_FILLED: u64 = 16 << 30;
/// The most that a drive is slowed down.
const MOST_DILATION: f64 = 1e6;

impl Driver {
    /// Switches a drive on: a new one, or the one in `image`. Its clock starts.
    ///
    /// # Errors
    /// If the configuration does not stand, or image or trace cannot be written.
    pub fn start(drive: &Drive, image: Option<Opened>, options: &Options) -> Result<(Self, Device), Error> {
        if drive.config.timing.untimed && options.timing != Timing::None {
            return Err(Error::input(
                "timing.untimed = true: a drive without clocks keeps no time; expected --timing none",
            ));
        }
        let clocked = |drive: &Drive| match options.timing {
            Timing::None => drive.clone().untimed(),
            _ => drive.clone(),
        };
        let config = &clocked(drive).config;
        let dilation = options.dilation.unwrap_or(1.0);
        if !(1.0..=MOST_DILATION).contains(&dilation) {
            return Err(Error::input(format!(
                "--dilation {dilation}: expected a factor from 1 to {MOST_DILATION:.0}"
            )));
        }
        if dilation != 1.0 && options.timing != Timing::Real {
            return Err(Error::input(format!(
                "--dilation: with --timing {} there is no clock to slow down; expected one of the two",
                options.timing.name()
            )));
        }
        if config.precondition.age_with.is_some() {
            return Err(Error::input(
                "precondition.age_with is not carried out when serving: expected a device without it \
                 (precondition.used and precondition.valid are possible)",
            ));
        }
        if config.recovery.plp && image.is_some() {
            return Err(Error::input(
                "recovery.plp = true: when the process is killed no capacitor empties its buffer; expected \
                 --set recovery.plp=false with an image",
            ));
        }
        let used = if config.precondition.steady { 1.0 } else { config.precondition.used };
        let filled = (used * config.geometry.raw_bytes() as f64) as u64;
        if filled > MOST_FILLED {
            return Err(Error::input(format!(
                "{}: {} of contents would be kept in memory; expected at most {}, or a smaller device",
                if config.precondition.steady {
                    "precondition.steady = true".to_owned()
                } else {
                    format!("precondition.used = {used}")
                },
                nandle_lab::units::bytes(filled),
                nandle_lab::units::bytes(MOST_FILLED)
            )));
        }
        let unit = config.geometry.sector_bytes as usize;
        let shadows = options.shadows.iter().map(|(_, shadow)| memory::tables(shadow, 0)).sum::<u64>();
        memory::check("the device", memory::tables(drive, unit) + shadows)
            .map_err(|e| Error::input(e.to_string()))?;
        let stands = |e: nandle_ssd::ConfigError| Error::input(e.to_string());
        let mut health = Health::default();
        let (mut ssd, mut image) = match image {
            Some(Opened { image, array: Some(array), damage, .. }) => {
                let some_lost = array.any_lost();
                let mut ssd = Ssd::power_on(config, Silicon(*array), options.seed).map_err(stands)?;
                drive.complete(&mut ssd);
                health.damaged = damage.len() as u64;
                if some_lost {
                    health.unreadable_sectors = ssd.inspect().unreadable;
                    ssd.note_unreadable(health.unreadable_sectors);
                }
                (ssd, Some(image))
            }
            other => {
                let mut ssd = Ssd::new(config, unit, options.seed).map_err(stands)?;
                drive.complete(&mut ssd);
                ssd.keep_changes();
                let image = match other {
                    Some(opened) => {
                        ssd.keep_stale();
                        Some(opened.image.filled(drive, options.seed, ssd.flash().array())?)
                    }
                    None => None,
                };
                (ssd, image)
            }
        };
        ssd.take_huge_pages(options.timing != Timing::Real);
        let mut changes = Vec::new();
        ssd.take_changes(&mut changes);
        if let Some(image) = &mut image {
            image.follow(ssd.flash().array(), &changes)?;
        }
        changes.clear();
        let record = match &options.record {
            Some(path) => {
                let parquet = path.extension().is_some_and(|e| e == "parquet");
                let format = if parquet { Format::NandleParquet } else { Format::Nandle };
                Some(nandle_trace::create(path, format)?)
            }
            None => None,
        };
        let shape = Shape {
            bytes: drive.layout.logical_bytes,
            sector_bytes: config.geometry.sector_bytes,
            page_bytes: config.unit_bytes(),
            queue_depth: config.queue.depth,
        };
        let mut feeds = Vec::new();
        let mut shadows = Vec::new();
        for (name, other) in &options.shadows {
            let (feed, running) = shadow::start(name, &clocked(other), options.seed, shape.bytes)?;
            feeds.push(feed);
            shadows.push(running);
        }
        let clock = Clock::started(dilation);
        let buffers = Buffers::new();
        let roll = Roll::new(clock, options.timing == Timing::Real);
        roll.begin_charging(&ssd);
        let seat = Arc::<Seat<Option<Self>>>::default();
        let (device, inbox) = Device::of(seat.clone(), shape, &roll, &buffers);
        let mut meter = Meter::default();
        meter.begin_phase(1, &mut ssd);
        let driver = Self {
            ssd,
            clock,
            timing: options.timing,
            inbox,
            seat,
            asleep_until: None,
            failed: None,
            shape,
            image,
            health,
            looked: 0,
            changes,
            meter,
            roll,
            buffers,
            window: None,
            scheme: drive.names(),
            seed: options.seed,
            feeds,
            shadows,
            record,
            cut_after: options.power_cut_after,
            submitted: 0,
            tasks: HashMap::new(),
            next_task: 0,
            ready: VecDeque::new(),
            held: Vec::new(),
            merges: 0,
            done: Vec::new(),
            last_job: 0,
            next_look: 0,
            closing: 0,
            faults: Faults::default(),
        };
        Ok((driver, device))
    }
}
