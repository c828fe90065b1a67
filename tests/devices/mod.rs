//! Small devices of very different kinds, for tests that want trouble.

// Each program of tests asks for some of them.
#![allow(dead_code)]

use nandle_ssd::DeviceConfig;
use nandle_ssd::schemes::{SchemeConfig, Seam};

/// The policies that answer a question, the baseline's first.
pub fn policies(seam: Seam) -> Vec<&'static str> {
    SchemeConfig::policies()
        .into_iter()
        .filter(|policy| policy.seam == seam)
        .map(|policy| policy.name)
        .collect()
}

/// Page mapping, and every sum of mapping schemes.
pub fn mappings() -> Vec<String> {
    let names = policies(Seam::Mapping);
    let (page, schemes) = names.split_first().expect("the baseline is one");
    let sum = |set: u32| {
        let chosen = schemes.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
        chosen.map(|(_, &name)| name).collect::<Vec<_>>().join("+")
    };
    [(*page).into()].into_iter().chain((1..1 << schemes.len()).map(sum)).collect()
}

/// The same device with no more spare than it needs.
pub fn least(mut config: DeviceConfig) -> DeviceConfig {
    config.op_ratio = 0.0;
    for _ in 0..4 {
        let Err(error) = config.validate() else { break };
        assert_eq!(error.field, "op_ratio", "{error}");
        let rest = error.expected.strip_prefix("at least ").expect("a number is named");
        config.op_ratio = rest.split(':').next().and_then(|n| n.parse().ok()).expect("a number");
    }
    config.validate().expect("the least over-provisioning is legal");
    config
}

/// A small SLC device without a buffer.
pub fn base() -> DeviceConfig {
    device("")
}

/// The small device with `settings`.
fn device(settings: &str) -> DeviceConfig {
    made(include_str!("base.toml"), settings)
}

/// The device that `settings` (`key=value`, keys as in a device file with dots) make of the device file `base`.
pub fn made(base: &str, settings: &str) -> DeviceConfig {
    let mut table: toml::Table = base.parse().expect("TOML");
    for setting in settings.split_whitespace() {
        let (key, value) = setting.split_once('=').unwrap_or_else(|| panic!("{setting}: no value"));
        // What is no number, truth value or list is a word.
        let value = match format!("v = {value}").parse::<toml::Table>() {
            Ok(mut parsed) => parsed.remove("v").expect("it was just written"),
            Err(_) => value.into(),
        };
        let mut names: Vec<&str> = key.split('.').collect();
        let last = names.pop().expect("a key");
        let mut inner = &mut table;
        for name in names {
            let entry = inner.entry(name).or_insert_with(|| toml::Table::new().into());
            inner = entry.as_table_mut().unwrap_or_else(|| panic!("{setting}: {name} is no table"));
        }
        inner.insert(last.into(), value);
    }
    table.try_into().unwrap_or_else(|e| panic!("{settings}: {e}"))
}

/// Devices that differ in everything: `small.txt` has a line for each.
pub fn small_devices() -> Vec<(&'static str, DeviceConfig)> {
    listed(|_| true)
}

/// Those under a heading of the list.
pub fn small_devices_of(heading: &str) -> Vec<(&'static str, DeviceConfig)> {
    listed(|under| under == heading)
}

fn listed(wanted: impl Fn(&str) -> bool) -> Vec<(&'static str, DeviceConfig)> {
    let mut under = "";
    let mut found = vec![];
    for line in include_str!("small.txt").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            under = heading;
        } else if let Some((name, settings)) = line.split_once('|').filter(|_| !line.starts_with('#'))
            && wanted(under)
        {
            found.push((name.trim(), device(settings)));
        }
    }
    assert!(!found.is_empty(), "nothing under that heading");
    found
}
