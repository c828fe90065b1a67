//! An image in several files, where the file system takes none that is so long.
//!
//! The first one has the image's name, and says in its header how long each of them is; the others have its name with
//! `.1`, `.2` and so on. Of what is written across a border each piece takes its part.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::medium::Medium;

/// Files that an image may be in.
pub(super) const MOST: u64 = 256;

/// The files of an image, each but the last one of the same length.
#[derive(Debug)]
pub(super) struct Pieces {
    files: Vec<File>,
    each: u64,
}

/// The name of a piece of the image at `path`.
pub(super) fn name(path: &Path, piece: u64) -> PathBuf {
    if piece == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{piece}"));
    name.into()
}

/// How many there are of `each` bytes.
pub(super) fn count(bytes: u64, each: u64) -> u64 {
    bytes.div_ceil(each)
}

/// How long pieces have to be so that all of them hold `bytes`: none if one file does. `file` may have any length then.
///
/// # Errors
/// If no file may be that long, or the system cannot say.
pub(super) fn needed(file: &File, bytes: u64) -> io::Result<Option<u64>> {
    let fits = |length: u64| match file.set_len(length) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => Ok(false),
        Err(e) => Err(e),
    };
    if fits(bytes)? {
        return Ok(None);
    }
    let mut each = 1 << bytes.ilog2();
    while count(bytes, each) <= MOST {
        if fits(each)? {
            return Ok(Some(each));
        }
        each /= 2;
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

impl Pieces {
    /// Of these files, in order.
    pub fn new(files: Vec<File>, each: u64) -> Self {
        Self { files, each }
    }

    /// The file in which a place lies, with its place there, and how many bytes from there on it has room for.
    fn at(&self, at: u64) -> Option<(&File, u64, u64)> {
        let file = self.files.get(usize::try_from(at / self.each).ok()?)?;
        Some((file, at % self.each, self.each - at % self.each))
    }
}

fn part(bytes: usize, room: u64) -> usize {
    usize::try_from(room).map_or(bytes, |room| bytes.min(room))
}

impl Medium for Pieces {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let Some((file, at, room)) = self.at(at) else { return Ok(0) };
        let part = part(into.len(), room);
        Medium::read_at(file, &mut into[..part], at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let Some((file, at, room)) = self.at(at) else { return Err(io::ErrorKind::FileTooLarge.into()) };
        Medium::write_at(file, &bytes[..part(bytes.len(), room)], at)
    }

    fn punch(&self, mut from: u64, mut bytes: u64) -> io::Result<()> {
        while bytes > 0 {
            let Some((file, at, room)) = self.at(from) else { break };
            let part = bytes.min(room);
            file.punch(at, part)?;
            (from, bytes) = (from + part, bytes - part);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.files.iter().try_for_each(Medium::sync)
    }

    /// As far as no piece is too short.
    fn length(&self) -> io::Result<u64> {
        let mut all = 0;
        for file in &self.files {
            let length = file.length()?;
            all += length.min(self.each);
            if length < self.each {
                break;
            }
        }
        Ok(all)
    }

    fn set_length(&self, mut bytes: u64) -> io::Result<()> {
        for file in &self.files {
            let part = bytes.min(self.each);
            file.set_length(part)?;
            bytes -= part;
        }
        if bytes > 0 { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        let mut from = from;
        while let Some((file, at, room)) = self.at(from) {
            if let Some(found) = file.next_data(at)? {
                return Ok(Some(from - at + found));
            }
            from += room;
        }
        Ok(None)
    }

    fn is_at(&self, path: &Path) -> bool {
        (0..).zip(&self.files).all(|(piece, file)| file.is_at(&name(path, piece)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pieces are one file to whoever uses them. Method: the same random steps on both.
    #[test]
    fn pieces_do_what_one_file_does() {
        const BYTES: u64 = 5 * 4096 + 100;
        let file = || tempfile::tempfile().expect("a file");
        let (one, pieces) = (file(), Pieces::new(vec![file(), file(), file()], 8192));
        let mut draw = nandle_random::Stream::new(1, "pieces");
        for medium in [&one as &dyn Medium, &pieces] {
            medium.set_length(BYTES).expect("it fits");
            assert_eq!(medium.length().expect("a length"), BYTES);
        }
        assert!(pieces.set_length(3 * 8192 + 1).is_err());
        pieces.set_length(BYTES).expect("it fits");
        for _ in 0..300 {
            let from = draw.below(BYTES);
            let bytes = 1 + draw.below(BYTES - from);
            if draw.below(3) == 0 {
                for medium in [&one as &dyn Medium, &pieces] {
                    medium.punch(from, bytes).expect("a hole");
                }
            } else {
                let data = vec![draw.below(255) as u8 + 1; bytes as usize];
                for medium in [&one as &dyn Medium, &pieces] {
                    let (mut left, mut at) = (&data[..], from);
                    while !left.is_empty() {
                        let n = medium.write_at(left, at).expect("written");
                        (left, at) = (&left[n..], at + n as u64);
                    }
                }
            }
            let all = [&one as &dyn Medium, &pieces].map(|medium| {
                let mut all = vec![0; BYTES as usize];
                crate::image::store::read(medium, &mut all, 0).expect("read");
                all
            });
            assert!(all[0] == all[1], "{bytes} from {from}");
            // Blocks of the file system are whole in both.
            let at = draw.below(5) * 4096;
            assert_eq!(one.next_data(at).expect("there"), pieces.next_data(at).expect("there"), "from {at}");
        }
        pieces.files[1].set_len(10).expect("shorter");
        assert_eq!(pieces.length().expect("a length"), 8192 + 10);
    }

    #[test]
    fn pieces_are_as_long_as_the_system_takes_them() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(needed(&file, 1 << 20).expect("it fits"), None);
        // More than any file: Linux counts in 63 bits.
        let each = needed(&file, u64::MAX / 2 + 1);
        assert!(each.is_err() || each.is_ok_and(|each| each.is_some()));
    }
}
