//! One file per trace format.
mod alibaba;
pub(crate) mod biosnoop;
mod blkparse;
pub(crate) mod blktrace;
mod diskmon;
mod disksim;
mod fio_iolog;
mod fiu;
mod flashsim;
mod msps;
mod msr;
pub(crate) mod nandle;
pub(crate) mod parquet;
mod regex;
mod spc;
pub(crate) mod srt;
mod systor17;
mod tencent;
pub(crate) mod tsv;
pub(crate) mod vscsi;
mod wiscsee;

use crate::Error;
use crate::input::{Input, Lines};
use crate::options::{Format, Options, TimeUnit};
use crate::row::{Context, LineFormat, Parsed, Row, Rows};

/// The unit of the format's clock, if the user does not say otherwise.
pub(crate) fn time_unit(format: Format) -> TimeUnit {
    match format {
        Format::Msr => TimeUnit::Filetime,
        Format::Msps | Format::Alibaba | Format::Vscsi | Format::Srt | Format::FioIolog => TimeUnit::Us,
        Format::Disksim | Format::Flashsim => TimeUnit::Ms,
        Format::Spc
        | Format::Systor17
        | Format::Tencent
        | Format::Diskmon
        | Format::Wiscsee
        | Format::Biosnoop
        | Format::Blkparse
        | Format::Tsv
        | Format::Regex => TimeUnit::S,
        Format::Fiu
        | Format::Ssdsim
        | Format::Mqsim
        | Format::Blktrace
        | Format::Nandle
        | Format::NandleParquet => TimeUnit::Ns,
    }
}

/// A reader of `input` in `format`; `unit` is the clock's.
pub(crate) fn rows(
    input: Input,
    format: Format,
    unit: TimeUnit,
    options: &Options,
) -> Result<Box<dyn Rows>, Error> {
    let unit = unit.ns();
    Ok(match format {
        Format::Msr => text(input, msr::Msr { unit }),
        Format::Msps => text(input, msps::Msps { unit }),
        Format::Spc => text(input, spc::Spc { unit }),
        Format::Systor17 => text(input, systor17::Systor17 { unit }),
        Format::Alibaba => text(input, alibaba::Alibaba { unit }),
        Format::Tencent => text(input, tencent::Tencent { unit }),
        Format::Fiu => text(input, fiu::Fiu { unit }),
        Format::Disksim => text(input, disksim::Disksim { unit, flags: true }),
        Format::Ssdsim | Format::Mqsim => text(input, disksim::Disksim { unit, flags: false }),
        Format::Flashsim => text(input, flashsim::Flashsim { unit }),
        Format::Diskmon => text(input, diskmon::Diskmon { unit }),
        Format::Wiscsee => text(input, wiscsee::Wiscsee::new(unit, options.action.unwrap_or('D'))?),
        Format::Blkparse => text(input, blkparse::Blkparse::new(unit, options.action.unwrap_or('D'))?),
        Format::Blktrace => Box::new(blktrace::Blktrace::new(input, unit, options.action.unwrap_or('D'))?),
        Format::Biosnoop => text(input, biosnoop::Biosnoop::new(unit)),
        Format::FioIolog => text(input, fio_iolog::FioIolog::new(unit)),
        Format::Nandle => text(input, nandle::Nandle::new(unit)),
        Format::Regex => text(input, regex::Lines::new(unit, options)?),
        Format::Tsv => text(input, tsv::Tsv::new(unit, options.time_unit.is_some())),
        Format::Srt => Box::new(srt::Srt::new(input, unit)),
        Format::Vscsi => Box::new(vscsi::Vscsi::new(input, unit)),
        Format::NandleParquet => Box::new(parquet::Parquet::open(input)?),
    })
}

fn text<F: LineFormat + 'static>(input: Input, format: F) -> Box<dyn Rows> {
    let path = input.path.clone();
    Box::new(Text { lines: Lines::new(input.into_reader(), path), format })
}

/// Rows out of lines.
struct Text<F> {
    lines: Lines,
    format: F,
}

impl<F: LineFormat> Rows for Text<F> {
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, Error> {
        let full = out.len().saturating_add(max);
        while out.len() < full {
            if let Some((row, length)) = self.format.plain(self.lines.ahead(), &mut ctx.volumes)
                && let Ok(None) = row.check()
            {
                self.lines.skip(length);
                ctx.rows += 1;
                out.push(row);
                continue;
            }
            let Some(line) = self.lines.next()? else {
                ctx.warnings.extend(self.format.warnings());
                return Ok(false);
            };
            ctx.rows += 1;
            let blank = match line.trim_ascii_start().first() {
                None => Some("empty line"),
                Some(b'#') => Some("comment"),
                Some(_) => None,
            };
            if let Some(why) = blank {
                ctx.skip(why);
                continue;
            }
            let what = match self.format.line(line, &mut ctx.volumes) {
                Ok(Parsed::Skip(why)) => {
                    ctx.skip(why);
                    continue;
                }
                Ok(Parsed::Row(row)) => match row.check() {
                    Ok(None) => {
                        out.push(row);
                        continue;
                    }
                    Ok(Some(why)) => {
                        ctx.skip(why);
                        continue;
                    }
                    Err(what) => what,
                },
                Err(what) => what,
            };
            return Err(self.lines.error(what));
        }
        Ok(true)
    }
}
