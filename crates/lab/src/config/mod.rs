//! Device files: TOML to a checked [`DeviceConfig`], with every complaint naming field, value and
//! what was expected, and the line for files.

mod brackets;
pub(crate) mod complain;
mod fraction;
mod outside;
mod overrides;
mod parse;
mod presets;
mod resolved;
mod scheme;

pub use brackets::{form, split_outside_brackets};
pub use fraction::whole;
pub use outside::{Outside, registered};
pub use parse::parse;
pub use presets::{PRESETS, Preset};
pub(crate) use resolved::RESOLVED;
pub use resolved::resolved;
pub use scheme::{Policy, SHORTHANDS, Shorthand, policies, register};

use std::path::Path;

use nandle_ssd::{ConfigError, DeviceConfig, Layout, Ssd};
use toml::Table;

use crate::Error;
use scheme::Named;

/// A configuration that stands, and what follows from it.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Every setting.
    pub config: DeviceConfig,
    /// Sizes derived from them.
    pub layout: Layout,
    /// Schemes from outside, to be asked before its own.
    pub outside: Vec<Outside>,
    /// What its scheme was called by who asked for it, and the settings that went with it, FIELD=VALUE: on a fraction of
    /// a drive they are those of the whole.
    called: Option<String>,
    sets: Vec<String>,
}

/// What a drive's scheme is called.
#[derive(Clone, Debug, Default)]
pub struct SchemeNames {
    /// By who asked for it.
    pub called: String,
    /// As a sum of policies.
    pub resolved: String,
}

impl Drive {
    /// Its scheme as who asked for it called it, else as a sum of policies.
    #[must_use]
    pub fn scheme(&self) -> String {
        let mut name = self.called.clone().unwrap_or_else(|| scheme::name_of(&self.config));
        for outside in &self.outside {
            // Who asked for it by name has named it already.
            if !split_outside_brackets(&name, '+').contains(&outside.name()) {
                name = format!("{name}+{}", outside.name());
            }
        }
        name
    }
    /// The settings that who asked for it changed, each with its value.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sets
            .iter()
            .filter_map(|set| set.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
    }

    /// Its scheme as it is called, and as a sum of policies.
    #[must_use]
    pub fn names(&self) -> SchemeNames {
        SchemeNames { called: self.scheme(), resolved: self.resolved_scheme() }
    }
    /// Its scheme as a sum of policies, whatever it was called.
    #[must_use]
    pub fn resolved_scheme(&self) -> String {
        let own = scheme::name_of(&self.config);
        self.outside.iter().fold(own, |sum, outside| format!("{sum}+{}", outside.name()))
    }
    /// A drive of this configuration and these sizes, as a program has them.
    #[must_use]
    pub fn new(config: DeviceConfig, layout: Layout) -> Self {
        Self { config, layout, outside: Vec::new(), called: None, sets: Vec::new() }
    }
    /// The same drive without clocks: operations end as soon as they may begin, in the order in which they were decided.
    #[must_use]
    pub fn untimed(mut self) -> Self {
        self.config.timing.untimed = true;
        self
    }
    /// Adds the schemes from outside to a drive that was made of the configuration.
    pub fn complete(&self, ssd: &mut Ssd) {
        self.outside.iter().for_each(|outside| outside.add_to(ssd));
    }
}

/// What a device is made of: a preset or file, then a scheme, then single settings.
#[derive(Clone, Debug, Default)]
pub struct Wanted<'a> {
    /// Name of a preset, or path of a TOML file; with @1/16 behind it, a sixteenth of that.
    pub device: &'a str,
    /// A policy name or a sum of them, as `--scheme` takes it.
    pub scheme: Option<&'a str>,
    /// Overrides such as `gc.soft=0.05`, applied in order.
    pub sets: &'a [String],
}

impl Wanted<'_> {
    /// The device, checked.
    ///
    /// # Errors
    /// If there is no such device, or a setting is unknown, of the wrong type or out of range.
    pub fn load(&self) -> Result<Drive, Error> {
        let (device, fraction) = fraction::split(self.device)?;
        let (text, place) = text_of(device)?;
        let whole = self.load_text(&text, &place)?;
        let Some(fraction) = fraction else { return Ok(whole) };
        let plain = Wanted { scheme: None, ..*self }.load_text(&text, &place)?;
        let mut config = fraction.of(device, &plain.config, &whole.config)?;
        // Sizes of RAM that are given by hand are meant as they stand.
        let by_hand: Vec<String> = self.sets.iter().filter(|set| fraction::scales(set)).cloned().collect();
        if !by_hand.is_empty() {
            config = overridden(Table::try_from(&config).unwrap_or_default(), &by_hand)?;
        }
        Ok(Drive { outside: whole.outside, called: whole.called, sets: whole.sets, ..check(config)? })
    }

    /// The device in `text`, which complaints call `place`.
    ///
    /// # Errors
    /// As those of [`Wanted::load`].
    pub fn load_text(&self, text: &str, place: &str) -> Result<Drive, Error> {
        let text = &overrides::without_units(text);
        // The file alone first: its complaints have line numbers.
        let mut config = match parse(text) {
            Ok(config) => config,
            // An override may bring what is missing.
            Err(e) if e.message().starts_with("missing field") && !self.sets.is_empty() => {
                let table = text.parse().map_err(|e| Error::input(complain::syntax(place, text, &e)))?;
                overridden(table, self.sets).map_err(|_| Error::input(complain::syntax(place, text, &e)))?
            }
            Err(e) => return Err(Error::input(complain::syntax(place, text, &e))),
        };
        let named = match self.scheme {
            Some(sum) => scheme::apply(sum, &mut config)?,
            None => Named::default(),
        };
        // A setting given by hand outranks the sum.
        if !self.sets.is_empty() {
            config = overridden(Table::try_from(&config).unwrap_or_default(), self.sets)?;
        }
        let layout = config
            .validate()
            .map_err(|e| Error::input(complain::range(place, text, self.sets, named.giver(&e.field), &e)))?;
        let called = self.scheme.map(str::to_owned);
        Ok(Drive { config, layout, outside: named.outside, called, sets: self.sets.to_vec() })
    }
}

impl Preset {
    /// The device, checked.
    ///
    /// # Errors
    /// Never: a test loads every preset.
    pub fn load(&self) -> Result<Drive, Error> {
        Wanted { device: self.name, ..Default::default() }.load()
    }
}

/// Checks a configuration made by a program rather than read from a file.
///
/// # Errors
/// If a setting is out of range.
pub fn check(config: DeviceConfig) -> Result<Drive, Error> {
    let layout = config.validate().map_err(|e: ConfigError| Error::input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}

/// Whether a sum of policies is one that some device may have.
///
/// # Errors
/// If one of its terms is unknown, or two do not go together.
pub fn is_known(scheme: &str) -> Result<(), Error> {
    let mut some = Wanted { device: "demo", scheme: None, sets: &[] }.load()?.config;
    scheme::apply(scheme, &mut some).map(|_| ())
}

/// Another configuration with a scheme and single settings changed.
///
/// # Errors
/// If one of them is unknown, of the wrong type or out of range.
pub fn amended(mut config: DeviceConfig, scheme: Option<&str>, sets: &[String]) -> Result<Drive, Error> {
    let outside = match scheme {
        Some(sum) => scheme::apply(sum, &mut config)?.outside,
        None => Vec::new(),
    };
    if !sets.is_empty() {
        config = overridden(Table::try_from(&config).unwrap_or_default(), sets)?;
    }
    Ok(Drive { outside, called: scheme.map(str::to_owned), sets: sets.to_vec(), ..check(config)? })
}

/// The device in `table` after the overrides `sets`; the first that does not fit is blamed.
fn overridden(mut table: Table, sets: &[String]) -> Result<DeviceConfig, Error> {
    let mut result = None;
    for (number, set) in sets.iter().enumerate() {
        overrides::apply(set, &mut table)?;
        result = match parse::table(&table) {
            Err(e) if e.message().starts_with("missing field") && number + 1 < sets.len() => None,
            Err(e) => return Err(Error::input(complain::set(set, e.message()))),
            Ok(config) => Some(config),
        };
    }
    result.ok_or_else(|| Error::input("no override was given"))
}

/// The text of a preset or file, and what to call it in messages.
fn text_of(device: &str) -> Result<(String, String), Error> {
    if let Some(preset) = presets::find(device) {
        return Ok((preset.text.to_owned(), format!("preset {device}")));
    }
    let path = Path::new(device);
    if path.is_file() {
        let text = std::fs::read_to_string(path).map_err(|e| {
            let what = if e.kind() == std::io::ErrorKind::InvalidData {
                "not a text file; expected a device in TOML".into()
            } else {
                e.to_string()
            };
            Error::input(format!("{device}: {what}"))
        })?;
        return Ok((text, device.to_owned()));
    }
    let looks_like_file = device.contains(['/', '\\', '.']);
    if looks_like_file {
        return Err(Error::input(format!("{device}: no such device file")));
    }
    let names: Vec<&str> = PRESETS.iter().map(|p| p.name).collect();
    Err(Error::input(format!(
        "no device is called {device:?}{}; expected a TOML file or one of the presets {}",
        complain::did_you_mean(device, names.iter().copied()),
        names.join(", ")
    )))
}

/// The JSON schema of device files.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(DeviceConfig).to_value();
    if let Some(map) = schema.as_object_mut() {
        map.insert("title".into(), "nandle device".into());
    }
    schema
}

#[cfg(test)]
mod tests;
