//! How long the flash lasts under a workload, and what of its making a byte that the host writes uses up.

use nandle_ssd::DeviceConfig;
use nandle_ssd::nand::CellKind;

use super::summary::Lifetime;

/// kg CO2e of making a GB of flash: Tannu and Nair, "The Dirty Secret of SSDs: Embodied Carbon", HotCarbon 2022.
const KG_CO2E_PER_GB: f64 = 0.16;
const DAY: f64 = 86_400.0;
const YEAR: f64 = 365.25 * DAY;

/// Erases that a block stands, where the device file does not say.
fn usual_endurance(kind: CellKind) -> u32 {
    match kind {
        CellKind::Slc => 100_000,
        CellKind::Mlc => 10_000,
        CellKind::Tlc => 3_000,
        CellKind::Qlc => 1_000,
    }
}

/// After `written` host bytes in `seconds`, at a write amplification of `waf` from now on.
pub(super) fn lifetime(
    config: &DeviceConfig,
    logical_bytes: u64,
    written: u64,
    seconds: f64,
    waf: Option<f64>,
) -> Lifetime {
    let given = config.cell.endurance;
    let endurance = if given > 0 { given } else { usual_endurance(config.cell.kind) };
    let raw = config.geometry.raw_bytes() as f64;
    // What the host may write in all.
    let most = waf.filter(|&waf| waf > 0.0).map(|waf| f64::from(endurance) * raw / waf);
    let rate = (written > 0 && seconds > 0.0).then(|| written as f64 / seconds);
    Lifetime {
        dwpd: rate.map(|rate| rate * DAY / logical_bytes as f64),
        years: most.zip(rate).map(|(most, rate)| most / rate / YEAR),
        kg_co2e_per_tb: most.map(|most| KG_CO2E_PER_GB * raw / 1e9 / (most / 1e12)),
        endurance,
        endurance_assumed: given == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Wanted;

    #[test]
    fn bytes_that_the_flash_stands_are_bytes_that_are_written() {
        // 800 GB that stand 7,000 erases, at two bytes of flash a byte: written over once a day.
        let drive = Wanted { device: "micron-7450-max-800g", ..Default::default() }.load().expect("a preset");
        let (raw, logical) = (drive.config.geometry.raw_bytes() as f64, drive.layout.logical_bytes);
        let daily = lifetime(&drive.config, logical, logical, DAY, Some(2.0));
        assert!((daily.dwpd.expect("it wrote") - 1.0).abs() < 1e-12, "{daily:?}");
        let years = daily.years.expect("it wears");
        let programmed = years * 365.25 * logical as f64 * 2.0;
        assert!((programmed / (7000.0 * raw) - 1.0).abs() < 1e-12, "{daily:?}");
        // 160 kg a TB of flash, each byte of which takes 3,500 of the host's.
        assert!((daily.kg_co2e_per_tb.expect("it wears") - 160.0 / 3500.0).abs() < 1e-12, "{daily:?}");
        assert_eq!((daily.endurance, daily.endurance_assumed), (7000, false));
        // What is not known is not said.
        let idle = lifetime(&drive.config, logical, 0, DAY, None);
        assert_eq!((idle.dwpd, idle.years, idle.kg_co2e_per_tb), (None, None, None));
        let untimed = lifetime(&drive.config, logical, logical, 0.0, Some(2.0));
        assert_eq!((untimed.dwpd, untimed.years, untimed.kg_co2e_per_tb), (None, None, daily.kg_co2e_per_tb));
    }
}
