//! Arguments of a workload, as `KEY=VALUE,KEY=VALUE`.

use crate::Error;

/// The arguments that were given to a workload, taken one by one; what is left at the end is refused.
pub(super) struct Options<'a> {
    workload: &'a str,
    given: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Options<'a> {
    pub fn new(workload: &'a str, argument: Option<&'a str>) -> Result<Self, Error> {
        let mut given = Vec::new();
        for part in argument.unwrap_or("").split(',').filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(Error::Input(format!(
                    "{workload}: {part:?}: expected KEY=VALUE, such as used=50%"
                )));
            };
            given.push((key.trim(), value.trim()));
        }
        Ok(Self { workload, given, known: Vec::new() })
    }

    /// The value of `key`; the last one given counts.
    pub fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        let found = self.given.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| *value);
        self.given.retain(|(k, _)| *k != key);
        found
    }

    /// `key` read by `parse`, or what is usual.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        usual: T,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, Error> {
        match self.text(key) {
            None => Ok(usual),
            Some(text) => parse(text).ok_or_else(|| self.refused(key, text, expected)),
        }
    }

    pub fn refused(&self, key: &str, value: &str, expected: &str) -> Error {
        Error::Input(format!("{}: {key}={value}: expected {expected}", self.workload))
    }

    /// A number of at least `least` and at most `most`.
    pub fn number(&mut self, key: &'static str, usual: f64, least: f64, most: f64) -> Result<f64, Error> {
        let within = |text: &str| text.parse().ok().filter(|n| (least..=most).contains(n));
        self.parsed(key, usual, &format!("a number from {least} to {most}"), within)
    }

    /// A count of at least 1.
    pub fn count(&mut self, key: &'static str, usual: u32, most: u32) -> Result<u32, Error> {
        let within = |text: &str| text.parse().ok().filter(|n| (1..=most).contains(n));
        self.parsed(key, usual, &format!("1 to {most}"), within)
    }

    /// Bytes in whole `unit`s, such as `4k` or `1086m`.
    pub fn bytes(&mut self, key: &'static str, usual: u64, unit: u64) -> Result<u64, Error> {
        let whole = |text: &str| bytes(text).filter(|n| *n > 0 && n.is_multiple_of(unit));
        self.parsed(key, usual, &format!("a multiple of {unit} bytes, such as 512k"), whole)
    }

    /// A share of the drive: `50%` or `0.5`.
    pub fn share(&mut self, key: &'static str, usual: f64) -> Result<f64, Error> {
        self.parsed(key, usual, "a share above 0 and up to 1, such as 50% or 0.5", |text| {
            share(text).filter(|share| *share > 0.0 && *share <= 1.0)
        })
    }

    /// Refuses what nobody asked for.
    pub fn end(self) -> Result<(), Error> {
        match self.given.first() {
            None => Ok(()),
            Some((key, _)) => Err(Error::Input(format!(
                "{}: no argument is called {key:?}; expected {}",
                self.workload,
                self.known.join(", ")
            ))),
        }
    }
}

/// `50%` or `0.5`.
pub(super) fn share(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    share.is_finite().then_some(share)
}

/// Bytes with a suffix of 1024: `4k`, `2642.5m`, `1g`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let (number, unit) = match text.char_indices().last()? {
        (at, 'k') => (&text[..at], 1_u64 << 10),
        (at, 'm') => (&text[..at], 1 << 20),
        (at, 'g') => (&text[..at], 1 << 30),
        _ => (&text[..], 1),
    };
    let bytes = number.parse::<f64>().ok()? * unit as f64;
    ((0.0..1e18).contains(&bytes) && bytes.fract() == 0.0).then_some(bytes as u64)
}
