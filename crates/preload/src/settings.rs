//! What the environment says.
//!
//! | variable | what |
//! | --- | --- |
//! | `NANDLE_TO` | where the drive is served, as `nandle flashalloc --to`; without it nothing is done |
//! | `NANDLE_FS` | a path on the file system that lies on the drive; files elsewhere are left alone |
//! | `NANDLE_OFFSET` | where that file system's block device begins on the drive, in bytes; found in sysfs if not given |
//! | `NANDLE_FILES` | patterns of file names, with commas: `*.sst,*.log`; with a slash, of whole paths; all if not given |
//! | `NANDLE_MIN` | smallest allocation that becomes an object, in bytes; 65536 if not given |
//! | `NANDLE_TRIM` | 1: trim what `unlink` and `ftruncate` give back, for a file system without `discard` |
//! | `NANDLE_CYCLIC` | `PATTERN@OFFSET+BYTES`, with commas: a region that is written from its beginning again and again |
//! | `NANDLE_DEBUG` | 1: say at the end what was done, and failures at once, on standard error; a path: append it there |

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nandle_host::Address;

const MIN: u64 = 65536;

#[derive(Debug)]
pub(crate) struct Settings {
    pub to: Address,
    pub fs: PathBuf,
    pub offset: Option<u64>,
    pub files: Vec<Pattern>,
    pub min: u64,
    pub trim: bool,
    pub cyclic: Vec<Cyclic>,
    pub debug: Debug,
}

/// A region of a file that is written from its beginning again and again, and holds nothing of worth
/// when it begins again.
#[derive(Debug)]
pub(crate) struct Cyclic {
    pub files: Pattern,
    pub offset: u64,
    pub bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Debug {
    Off,
    Stderr,
    File(PathBuf),
}

/// A pattern of the shell.
#[derive(Debug)]
pub(crate) struct Pattern {
    glob: CString,
    whole: bool,
}

impl Pattern {
    fn new(text: &[u8]) -> Self {
        // The environment holds no zeros.
        Self { glob: CString::new(text).unwrap_or_default(), whole: text.contains(&b'/') }
    }

    /// Whether it is the name of the file at `path`, or with a slash in it the path.
    pub fn fits(&self, path: &Path) -> bool {
        let name = if self.whole { path.as_os_str() } else { path.file_name().unwrap_or_default() };
        let Ok(name) = CString::new(name.as_bytes()) else { return false };
        #[allow(unsafe_code)]
        // SAFETY: two strings that end with a zero.
        let result = unsafe { libc::fnmatch(self.glob.as_ptr(), name.as_ptr(), 0) };
        result == 0
    }
}

impl Settings {
    /// Settings from variables; none if `NANDLE_TO` is not there.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, String> {
        let get = |name: &str| get(name).filter(|text| !text.is_empty());
        let text = |name: &str| get(name).map(|text| text.to_string_lossy().into_owned());
        let Some(to) = text("NANDLE_TO") else { return Ok(None) };
        let number = |name: &str| match text(name) {
            None => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("{name}={text}: expected bytes")),
        };
        let fs =
            get("NANDLE_FS").ok_or("NANDLE_FS is not set: expected a path on the drive's file system")?;
        let list = |name: &str| -> Vec<Vec<u8>> {
            let text = get(name).map(OsString::into_vec).unwrap_or_default();
            text.split(|&b| b == b',').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
        };
        let cyclic = |part: Vec<u8>| {
            let part = String::from_utf8_lossy(&part).into_owned();
            let region = || {
                let (files, region) = part.rsplit_once('@')?;
                let (offset, bytes) = region.split_once('+')?;
                let bytes = bytes.parse().ok().filter(|&bytes| bytes > 0)?;
                Some(Cyclic { files: Pattern::new(files.as_bytes()), offset: offset.parse().ok()?, bytes })
            };
            region().ok_or_else(|| format!("NANDLE_CYCLIC={part}: expected PATTERN@OFFSET+BYTES"))
        };
        let files = list("NANDLE_FILES");
        Ok(Some(Self {
            to: to.parse().map_err(|e| format!("NANDLE_TO={e}"))?,
            fs: fs.into(),
            offset: number("NANDLE_OFFSET")?,
            files: if files.is_empty() {
                vec![Pattern::new(b"*")]
            } else {
                files.iter().map(|f| Pattern::new(f)).collect()
            },
            min: number("NANDLE_MIN")?.unwrap_or(MIN),
            trim: match text("NANDLE_TRIM").as_deref() {
                None | Some("0") => false,
                Some("1") => true,
                Some(other) => return Err(format!("NANDLE_TRIM={other}: expected 0 or 1")),
            },
            cyclic: list("NANDLE_CYCLIC").into_iter().map(cyclic).collect::<Result<_, _>>()?,
            debug: match text("NANDLE_DEBUG").as_deref() {
                None | Some("0") => Debug::Off,
                Some("1") => Debug::Stderr,
                Some(path) => Debug::File(path.into()),
            },
        }))
    }

    pub fn wants(&self, path: &Path) -> bool {
        self.files.iter().any(|pattern| pattern.fits(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn nothing_is_done_without_an_address() {
        assert!(read(&[]).expect("fine").is_none());
        assert!(read(&[("NANDLE_FS", "/"), ("NANDLE_TO", "")]).expect("fine").is_none());
    }

    #[test]
    fn settings_have_defaults() {
        let settings = read(&[("NANDLE_TO", "4420"), ("NANDLE_FS", "/mnt")]).expect("fine").expect("some");
        assert_eq!((settings.to.to_string().as_str(), settings.min), ("127.0.0.1:4420", 65536));
        assert!(settings.wants(Path::new("/mnt/any.sst")) && !settings.trim && settings.offset.is_none());
        assert_eq!(settings.debug, Debug::Off);
    }

    #[test]
    fn patterns_are_of_names_or_of_paths() {
        let files = [("NANDLE_TO", "4420"), ("NANDLE_FS", "/"), ("NANDLE_FILES", "*.sst,/db/wal/*")];
        let settings = read(&files).expect("fine").expect("some");
        for (path, wanted) in
            [("/x/1.sst", true), ("/x.sst/1", false), ("/db/wal/7", true), ("/db/walk", false), ("7", false)]
        {
            assert_eq!(settings.wants(Path::new(path)), wanted, "{path}");
        }
    }

    #[test]
    fn bad_settings_are_named() {
        let base = [("NANDLE_TO", "4420"), ("NANDLE_FS", "/")];
        for (name, value, part) in [
            ("NANDLE_TO", "nobody", "expected HOST:PORT"),
            ("NANDLE_FS", "", "NANDLE_FS is not set"),
            ("NANDLE_OFFSET", "1M", "NANDLE_OFFSET=1M: expected bytes"),
            ("NANDLE_MIN", "-1", "NANDLE_MIN=-1: expected bytes"),
            ("NANDLE_TRIM", "yes", "NANDLE_TRIM=yes: expected 0 or 1"),
            ("NANDLE_CYCLIC", "ibdata1", "expected PATTERN@OFFSET+BYTES"),
            ("NANDLE_CYCLIC", "ibdata1@0+0", "expected PATTERN@OFFSET+BYTES"),
        ] {
            let mut variables = vec![(name, value)];
            variables.extend(base);
            let said = read(&variables).expect_err("bad");
            assert!(said.contains(part), "{said}");
        }
        let region = [base[0], base[1], ("NANDLE_CYCLIC", "ibdata1@1048576+2097152")];
        let settings = read(&region).expect("fine").expect("some");
        assert_eq!((settings.cyclic[0].offset, settings.cyclic[0].bytes), (1 << 20, 2 << 20));
    }
}
