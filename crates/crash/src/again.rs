//! A state in a file: what failed can be checked again, and looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nandle_observe::disk::Disk;
use nandle_observe::event::{FileId, Kind, Place, ROOT, What};
use nandle_observe::tree::{Node, PAGE, Page, Tree};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::check::{Bench, Check, Verdict};

const VERSION: u32 = 1;

/// A state, its check and its story.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    /// The check that it failed.
    pub check: String,
    /// The check stays.
    pub stays: bool,
    patience_s: u64,
    /// The file system on the drive, and its options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mount: Option<(String, String)>,
    /// What happened.
    pub story: String,
    output: String,
    files: Vec<File>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct File {
    path: PathBuf,
    /// The same number: the same file under two names.
    number: FileId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    folder: bool,
    mode: u32,
    #[serde(default)]
    size: u64,
    /// Runs of pages that are not zeros: the first one's number, and the bytes.
    #[serde(default)]
    pages: Vec<(u64, String)>,
}

impl Saved {
    /// What is needed to check `state` again.
    #[must_use]
    pub fn new(check: &Check, state: &Tree, output: &[u8], story: &str) -> Self {
        let file = |(path, number): (PathBuf, FileId)| {
            let inode = state.get(number)?;
            let mut file =
                File { path, number, link: None, folder: false, mode: inode.mode, size: 0, pages: vec![] };
            match &inode.node {
                Node::Folder(_) => file.folder = true,
                Node::Link(to) => file.link = Some(to.clone()),
                Node::File(contents) => {
                    file.size = contents.size();
                    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
                    for (index, page) in contents.pages().filter(|(index, _)| index * PAGE < contents.size())
                    {
                        match runs.last_mut() {
                            Some((first, run)) if *first + run.len() as u64 / PAGE == index => {
                                run.extend_from_slice(&page[..]);
                            }
                            _ => runs.push((index, page.to_vec())),
                        }
                    }
                    file.pages = runs.iter().map(|(first, run)| (*first, STANDARD.encode(run))).collect();
                }
            }
            Some(file)
        };
        Self {
            version: VERSION,
            check: check.command.clone(),
            stays: check.stays,
            patience_s: check.patience.as_secs(),
            mount: check.disk.as_ref().map(|disk| (disk.kind.clone(), disk.options.clone())),
            story: story.to_owned(),
            output: STANDARD.encode(output),
            files: state.walk().into_iter().filter_map(file).collect(),
        }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string(self).unwrap_or_default() + "\n";
        let wrong = |e: std::io::Error| {
            Error::File(path.display().to_string(), e.to_string(), "a file that can be written")
        };
        std::fs::write(path, text).map_err(wrong)
    }

    /// Reads it.
    ///
    /// # Errors
    /// If there is no such file, or it is something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |e: String| {
            Error::File(path.display().to_string(), e, "a file that `nandle crash-test` has written")
        };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        let saved: Self = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if saved.version == VERSION { Ok(saved) } else { Err(wrong(format!("version {}", saved.version))) }
    }

    fn state(&self) -> Option<Tree> {
        let mut tree = Tree::default();
        for file in &self.files {
            let mut folder = ROOT;
            let names: Vec<_> = file.path.iter().collect();
            let (last, above) = names.split_last()?;
            for name in above {
                folder = tree.find(&Place { folder, name: (*name).to_owned() })?;
            }
            let place = Place { folder, name: (*last).to_owned() };
            if tree.get(file.number).is_some() {
                tree.enter(&place, file.number);
                continue;
            }
            let kind = match &file.link {
                Some(to) => Kind::Link(to.clone()),
                None if file.folder => Kind::Folder,
                None => Kind::File,
            };
            tree.apply(&What::Create { place, file: file.number, kind, mode: file.mode });
            if let Some(contents) = tree.contents_mut(file.number) {
                for (first, run) in &file.pages {
                    for (index, page) in (*first..).zip(STANDARD.decode(run).ok()?.chunks(PAGE as usize)) {
                        contents.set_page(index, Some(Arc::new(Page::try_from(page).ok()?)));
                    }
                }
                contents.set_size(file.size);
            }
        }
        Some(tree)
    }

    /// Checks it, by another command if one is given; with `into`, an empty directory or none yet, its files are laid
    /// out there too.
    ///
    /// # Errors
    /// If it is damaged, the directory is not empty, or the check cannot be run.
    pub fn check(&self, command: Option<&str>, into: Option<&Path>) -> Result<Verdict, Error> {
        let damaged =
            || Error::Use("the saved state is damaged; expected one as `nandle crash-test` wrote it".into());
        let (state, output) =
            (self.state().ok_or_else(damaged)?, STANDARD.decode(&self.output).map_err(|_| damaged())?);
        if let Some(into) = into {
            let wrong = |e: std::io::Error| {
                Error::File(into.display().to_string(), e.to_string(), "an empty directory")
            };
            std::fs::create_dir_all(into).map_err(wrong)?;
            if std::fs::read_dir(into).map_err(wrong)?.next().is_some() {
                return Err(wrong(std::io::ErrorKind::DirectoryNotEmpty.into()));
            }
            state.store(into).map_err(wrong)?;
        }
        let check = Check {
            command: command.map_or_else(|| self.check.clone(), str::to_owned),
            stays: self.stays,
            patience: Duration::from_secs(self.patience_s),
            disk: self.mount.clone().map(|(kind, options)| Disk { kind, options, bytes: 0 }),
        };
        Bench::new(&check)?.check(&state, &output)
    }
}
