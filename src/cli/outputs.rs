//! The files that `nandle serve` writes: no two are the same, and all can be written, before there is a drive.

use std::path::Path;

use nandle_lab::output::{file, same};
use nandle_serve::image;

use super::terminal::Failure;

/// Refuses a trace or a summary that would overwrite the image or each other, or that cannot be written.
pub fn check(image: Option<&Path>, record: Option<&Path>, json: Option<&Path>) -> Result<(), Failure> {
    let no = |option: &str, path: &Path, what: &str| {
        Err(Failure::Input(format!("{option} {}: {what}; expected another file", path.display())))
    };
    let is_stdout = |path: &Path| path.as_os_str() == "-";
    let outputs = [("--record", record), ("--json", json)];
    for (option, path) in outputs.into_iter().filter_map(|(option, path)| Some((option, path?))) {
        if is_stdout(path) {
            continue;
        }
        if let Some(image) = image
            && image::may_be_in(image).any(|part| same(&part, path))
        {
            return no(option, path, &format!("it would overwrite the image {}", image.display()));
        }
        file(path, []).map_err(|e| Failure::Input(format!("{option} {e}")))?;
    }
    match (record, json) {
        (Some(record), Some(json))
            if is_stdout(record) && is_stdout(json) || !is_stdout(json) && same(record, json) =>
        {
            no("--json", json, "--record writes there")
        }
        _ => Ok(()),
    }
}
