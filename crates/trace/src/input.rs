//! Bytes of a file or of standard input, decompressed, and the lines in them.
use crate::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Longest line believed; anything longer is not a trace.
pub(crate) const MAX_LINE: usize = 64 << 10;
/// How much of the beginning is looked at to find the format and the clock's unit.
const HEAD: usize = 256 << 10;
/// Small enough for the cache, larger than any line believed.
const BUFFER: usize = 256 << 10;
/// Memory that a decompressor may claim.
const XZ_MEMORY: u64 = 512 << 20;

/// Decompressed bytes with their beginning at hand.
pub(crate) struct Input {
    pub path: PathBuf,
    /// The first bytes; all of them if `whole`.
    pub head: Vec<u8>,
    pub whole: bool,
    /// A regular file, which can be read again.
    pub again: bool,
    pub compressed: bool,
    rest: Box<dyn Read + Send>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        if path.as_os_str() == "-" {
            return Self::of("<stdin>".into(), Box::new(io::stdin()), false).map_err(io);
        }
        let file = File::open(path).map_err(io)?;
        let meta = file.metadata().map_err(io)?;
        if meta.is_dir() {
            return Err(Error::Input(format!("{}: a directory; expected a trace file", path.display())));
        }
        Self::of(path.to_owned(), Box::new(file), meta.is_file()).map_err(io)
    }

    pub fn of(path: PathBuf, mut raw: Box<dyn Read + Send>, again: bool) -> io::Result<Self> {
        let mut magic = Vec::new();
        raw.by_ref().take(6).read_to_end(&mut magic)?;
        let raw = io::Cursor::new(magic.clone()).chain(raw);
        let mut compressed = true;
        let mut rest: Box<dyn Read + Send> = match magic[..] {
            [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(raw)),
            // The second begins a frame to be skipped, as some compressors put before the others.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Box::new(zstd::stream::read::Decoder::new(raw)?)
            }
            [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                let stream =
                    liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
                Box::new(liblzma::read::XzDecoder::new_stream(
                    io::BufReader::with_capacity(1 << 16, raw),
                    stream,
                ))
            }
            _ => {
                compressed = false;
                Box::new(raw)
            }
        };
        let mut head = Vec::with_capacity(HEAD);
        rest.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let whole = head.len() < HEAD;
        // Windows programs like to put a byte order mark before the text.
        if head.starts_with(&[0xef, 0xbb, 0xbf]) {
            head.drain(..3);
        }
        Ok(Input { path, head, whole, again, compressed, rest })
    }

    /// The complete lines of the head.
    pub fn head_lines(&self) -> &[u8] {
        if self.whole {
            return &self.head;
        }
        memchr::memrchr(b'\n', &self.head).map_or(&[], |end| &self.head[..=end])
    }

    /// All bytes from the first.
    pub fn into_reader(self) -> Box<dyn Read + Send> {
        Box::new(io::Cursor::new(self.head).chain(self.rest))
    }
}

/// Lines out of a reader, through one large buffer.
pub(crate) struct Lines {
    input: Box<dyn Read + Send>,
    pub path: PathBuf,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    done: bool,
    /// Number of the line handed out last.
    pub number: u64,
}

impl Lines {
    pub fn new(input: Box<dyn Read + Send>, path: PathBuf) -> Self {
        Lines { input, path, buffer: vec![0; BUFFER], start: 0, end: 0, done: false, number: 0 }
    }

    /// The next line without its end.
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        let mut searched = self.start;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                let line = self.start..searched + at;
                self.start = line.end + 1;
                self.number += 1;
                if line.len() > MAX_LINE {
                    return Err(self.too_long());
                }
                return Ok(Some(trim_cr(&self.buffer[line])));
            }
            searched = self.end;
            if self.end - self.start > MAX_LINE {
                self.number += 1;
                return Err(self.too_long());
            }
            if self.done {
                let line = self.start..self.end;
                self.start = self.end;
                if line.is_empty() {
                    return Ok(None);
                }
                self.number += 1;
                return Ok(Some(trim_cr(&self.buffer[line])));
            }
            searched -= self.start;
            self.refill()?;
        }
    }

    /// The lines to come, as far as they are read.
    #[inline]
    pub fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the next line, of so many bytes with its end.
    #[inline]
    pub fn skip(&mut self, length: usize) {
        self.start += length;
        self.number += 1;
    }

    fn refill(&mut self) -> Result<(), Error> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.done = true,
            Ok(n) => self.end += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
        }
        Ok(())
    }

    pub fn error(&self, what: String) -> Error {
        Error::Line { path: self.path.clone(), line: self.number, what }
    }

    #[cold]
    fn too_long(&self) -> Error {
        self.error(format!("a line of more than {MAX_LINE} bytes; expected a text trace"))
    }
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static [u8]) -> Result<Vec<Vec<u8>>, Error> {
        let mut lines = Lines::new(Box::new(text), "t".into());
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_vec());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_in_any_way() {
        assert_eq!(lines(b"a\r\n\nbc").unwrap(), [&b"a"[..], b"", b"bc"]);
        assert!(lines(b"").unwrap().is_empty());
    }

    #[test]
    fn endless_lines_are_refused() {
        let mut lines = Lines::new(Box::new(io::repeat(b'x')), "t".into());
        assert!(lines.next().is_err());
    }
}
