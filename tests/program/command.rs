//! The program as tests call it.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

pub fn nandle(args: &[&str], dir: &Path) -> Output {
    Command::cargo_bin("nandle").expect("built").args(args).current_dir(dir).output().expect("it runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All that it printed.
pub fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Standard output of a command that must succeed.
pub fn good(args: &[&str], dir: &Path) -> String {
    let out = nandle(args, dir);
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    text(&out.stdout)
}

/// The message of a command that must end with this code.
pub fn bad(args: &[&str], code: i32, dir: &Path) -> String {
    let out = nandle(args, dir);
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{args:?}: {message}");
    assert!(!message.contains("panicked"), "{args:?}: {message}");
    message
}

/// The message of a command that must be refused.
pub fn refused(args: &[&str], dir: &Path) -> String {
    bad(args, 2, dir)
}

pub fn temp() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// What it printed as JSON.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// What a file holds.
pub fn file(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
