//! Reading and writing an image, wherever it lies.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nandle_ssd::nand::Geometry;

use super::layout::Layout;
use super::medium::Medium;
use crate::Error;

/// What an image lies in, and where everything is in it.
#[derive(Debug)]
pub(super) struct Store {
    pub medium: Box<dyn Medium>,
    pub path: PathBuf,
    pub layout: Layout,
}

/// Reads what is at `at`; zeros behind the end of a file that is too short.
pub(super) fn read(medium: &dyn Medium, mut into: &mut [u8], mut at: u64) -> std::io::Result<()> {
    while !into.is_empty() {
        match medium.read_at(into, at) {
            Ok(0) => {
                into.fill(0);
                break;
            }
            Ok(n) => {
                into = &mut into[n..];
                at += n as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Store {
    pub fn new(medium: Box<dyn Medium>, path: &Path, geometry: &Geometry) -> Self {
        Self { medium, path: path.to_owned(), layout: Layout::new(geometry) }
    }

    pub fn fail(&self, e: impl Into<std::io::Error>) -> Error {
        Error::io(self.path.display().to_string(), e)
    }

    pub fn length(&self) -> Result<u64, Error> {
        self.medium.length().map_err(|e| self.fail(e))
    }

    pub fn set_length(&self, bytes: u64) -> Result<(), Error> {
        self.medium.set_length(bytes).map_err(|e| self.fail(e))
    }

    pub fn read(&self, into: &mut [u8], at: u64) -> Result<(), Error> {
        read(&*self.medium, into, at).map_err(|e| self.fail(e))
    }

    /// What is in an area up to the last `step` bytes in which there is anything, in memory that is used again.
    pub fn read_area(&self, into: &mut Vec<u8>, (from, bytes): (u64, u64), step: u64) -> Result<(), Error> {
        into.clear();
        let (mut at, end) = (from, from + bytes);
        loop {
            let data = self.next_data(at)?;
            if data >= end {
                return Ok(());
            }
            at += (data - at) / step * step;
            let step = step.min(end - at);
            let begin = (at - from) as usize;
            into.resize(begin + step as usize, 0);
            self.read(&mut into[begin..], at)?;
            at += step;
        }
    }

    pub fn write(&self, mut bytes: &[u8], mut at: u64) -> Result<(), Error> {
        while !bytes.is_empty() {
            match self.medium.write_at(bytes, at) {
                Ok(0) => return Err(self.fail(ErrorKind::WriteZero)),
                Ok(n) => {
                    bytes = &bytes[n..];
                    at += n as u64;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    pub fn punch(&self, (from, bytes): (u64, u64)) -> Result<(), Error> {
        self.medium.punch(from, bytes).map_err(|e| self.fail(e))
    }

    pub fn sync(&self) -> Result<(), Error> {
        self.medium.sync().map_err(|e| self.fail(e))
    }

    /// Whether there is nothing at all: such areas are many, and are not looked at page by page.
    pub fn is_hole(&self, (from, bytes): (u64, u64)) -> Result<bool, Error> {
        Ok(self.next_data(from)? >= from + bytes)
    }

    /// The first place from `from` on where there may be something.
    fn next_data(&self, from: u64) -> Result<u64, Error> {
        let data = self.medium.next_data(from).map_err(|e| self.fail(e))?;
        Ok(data.unwrap_or(u64::MAX))
    }
}
