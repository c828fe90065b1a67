//! Files in memory: what the program sees, and every state that is built from what it did.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::event::{FileId, Kind, Place, ROOT, What};

/// Bytes of a page of a file, as the kernel's cache has them.
pub const PAGE: u64 = 4096;

/// A page's contents.
pub type Page = [u8; PAGE as usize];

/// What a regular file holds; pages that are not there are zeros.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    size: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Contents {
    /// Bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// One page, if it is not zeros.
    #[must_use]
    pub fn page(&self, index: u64) -> Option<&Arc<Page>> {
        self.pages.get(&index)
    }

    /// All pages that are there.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &Arc<Page>)> {
        self.pages.iter().map(|(&index, page)| (index, page))
    }

    /// Sets one page, beyond the end too.
    pub fn set_page(&mut self, index: u64, page: Option<Arc<Page>>) {
        match page {
            Some(page) => self.pages.insert(index, page),
            None => self.pages.remove(&index),
        };
    }

    /// Sets the size and leaves pages beyond it alone.
    pub fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Writes, and grows if need be.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut at = 0;
        while at < data.len() {
            let position = offset + at as u64;
            let within = (position % PAGE) as usize;
            let count = (PAGE as usize - within).min(data.len() - at);
            let page = self.pages.entry(position / PAGE).or_insert_with(|| Arc::new([0; PAGE as usize]));
            Arc::make_mut(page)[within..within + count].copy_from_slice(&data[at..at + count]);
            at += count;
        }
        self.size = self.size.max(offset + data.len() as u64);
    }

    /// Makes a range zeros; the size stays.
    pub fn zero(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        if end <= offset {
            return;
        }
        let touched: Vec<u64> = self.pages.range(offset / PAGE..=(end - 1) / PAGE).map(|(&i, _)| i).collect();
        for index in touched {
            let start = index * PAGE;
            let (from, to) = (offset.max(start) - start, end.min(start + PAGE) - start);
            if from == 0 && to == PAGE {
                self.pages.remove(&index);
            } else if let Some(page) = self.pages.get_mut(&index) {
                Arc::make_mut(page)[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Sets the size; what is cut off is zeros if the file grows again.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size.next_multiple_of(PAGE) - size);
        }
        self.size = size;
    }

    /// Bytes from `offset` on, as many as there are of `bytes`.
    #[must_use]
    pub fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let end = offset.saturating_add(bytes).min(self.size);
        let mut data = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut position = offset;
        while position < end {
            let within = position % PAGE;
            let count = (PAGE - within).min(end - position);
            match self.pages.get(&(position / PAGE)) {
                Some(page) => data.extend_from_slice(&page[within as usize..(within + count) as usize]),
                None => data.resize(data.len() + count as usize, 0),
            }
            position += count;
        }
        data
    }
}

/// A file, folder or link.
#[derive(Clone, Debug)]
pub enum Node {
    /// A regular file.
    File(Contents),
    /// A folder: names and what they stand for.
    Folder(BTreeMap<OsString, FileId>),
    /// A symbolic link.
    Link(PathBuf),
}

/// A file with what is known of it beside its contents.
#[derive(Clone, Debug)]
pub struct Inode {
    /// What it is.
    pub node: Node,
    /// Permissions.
    pub mode: u32,
    /// How many names it has; of a folder 2 and its subfolders.
    pub links: u32,
}

/// A folder with all that is in it. A copy shares what is not changed.
#[derive(Clone, Debug)]
pub struct Tree {
    inodes: HashMap<FileId, Arc<Inode>>,
    next: FileId,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Inode { node: Node::Folder(BTreeMap::new()), mode: 0o755, links: 2 };
        Self { inodes: HashMap::from([(ROOT, Arc::new(root))]), next: ROOT + 1 }
    }
}

impl Tree {
    /// The files of a folder of this machine.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn load(path: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.load_folder(path, ROOT)?;
        Ok(tree)
    }

    fn load_folder(&mut self, path: &Path, folder: FileId) -> io::Result<()> {
        let mut entries = std::fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, meta) = (entry.path(), std::fs::symlink_metadata(entry.path())?);
            let kind = if meta.is_dir() {
                Kind::Folder
            } else if meta.is_symlink() {
                Kind::Link(std::fs::read_link(&path)?)
            } else if meta.is_file() {
                Kind::File
            } else {
                continue;
            };
            let file = self.fresh();
            let place = Place { folder, name: entry.file_name() };
            let is_folder = kind == Kind::Folder;
            let is_file = kind == Kind::File;
            self.apply(&What::Create { place, file, kind, mode: meta.permissions().mode() & 0o7777 });
            if is_folder {
                self.load_folder(&path, file)?;
            } else if is_file && let Some(contents) = self.contents_mut(file) {
                contents.write(0, &std::fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// A number that no file has had.
    pub fn fresh(&mut self) -> FileId {
        self.next += 1;
        self.next - 1
    }

    /// The file of this number.
    #[must_use]
    pub fn get(&self, file: FileId) -> Option<&Inode> {
        self.inodes.get(&file).map(Arc::as_ref)
    }

    /// What a regular file holds.
    #[must_use]
    pub fn contents(&self, file: FileId) -> Option<&Contents> {
        match &self.get(file)?.node {
            Node::File(contents) => Some(contents),
            _ => None,
        }
    }

    /// What a regular file holds, to be changed.
    pub fn contents_mut(&mut self, file: FileId) -> Option<&mut Contents> {
        match &mut Arc::make_mut(self.inodes.get_mut(&file)?).node {
            Node::File(contents) => Some(contents),
            _ => None,
        }
    }

    /// The names in a folder.
    #[must_use]
    pub fn entries(&self, folder: FileId) -> Option<&BTreeMap<OsString, FileId>> {
        match &self.get(folder)?.node {
            Node::Folder(entries) => Some(entries),
            _ => None,
        }
    }

    fn entries_mut(&mut self, folder: FileId) -> Option<&mut BTreeMap<OsString, FileId>> {
        match &mut Arc::make_mut(self.inodes.get_mut(&folder)?).node {
            Node::Folder(entries) => Some(entries),
            _ => None,
        }
    }

    /// The file of this name.
    #[must_use]
    pub fn find(&self, place: &Place) -> Option<FileId> {
        self.entries(place.folder)?.get(&place.name).copied()
    }

    /// Changes permissions.
    pub fn set_mode(&mut self, file: FileId, mode: u32) {
        if let Some(inode) = self.inodes.get_mut(&file) {
            Arc::make_mut(inode).mode = mode;
        }
    }

    fn relink(&mut self, file: FileId, by: i32) {
        if let Some(inode) = self.inodes.get_mut(&file) {
            let inode = Arc::make_mut(inode);
            inode.links = inode.links.saturating_add_signed(by);
        }
    }

    fn is_folder(&self, file: FileId) -> bool {
        matches!(self.get(file), Some(Inode { node: Node::Folder(_), .. }))
    }

    /// A name begins to stand for a file.
    pub fn enter(&mut self, place: &Place, file: FileId) {
        let is_folder = self.is_folder(file);
        if let Some(entries) = self.entries_mut(place.folder)
            && entries.insert(place.name.clone(), file).is_none()
            && is_folder
        {
            self.relink(place.folder, 1);
        }
        if !is_folder {
            self.relink(file, 1);
        }
    }

    /// A name ends; its file stays, if only for those who have it open.
    pub fn leave(&mut self, place: &Place) {
        let Some(file) = self.entries_mut(place.folder).and_then(|entries| entries.remove(&place.name))
        else {
            return;
        };
        if self.is_folder(file) {
            self.relink(place.folder, -1);
        } else {
            self.relink(file, -1);
        }
    }

    /// Makes a file that has no name yet.
    pub fn make(&mut self, file: FileId, kind: &Kind, mode: u32) {
        let (node, links) = match kind {
            Kind::File => (Node::File(Contents::default()), 0),
            Kind::Folder => (Node::Folder(BTreeMap::new()), 2),
            Kind::Link(path) => (Node::Link(path.clone()), 0),
        };
        self.inodes.insert(file, Arc::new(Inode { node, mode, links }));
        self.next = self.next.max(file + 1);
    }

    /// Does what was done.
    pub fn apply(&mut self, what: &What) {
        match what {
            What::Write { file, offset, data, .. } => {
                if let Some(contents) = self.contents_mut(*file) {
                    contents.write(*offset, data);
                }
            }
            What::Resize { file, size } => {
                if let Some(contents) = self.contents_mut(*file) {
                    contents.resize(*size);
                }
            }
            What::Zero { file, offset, bytes } => {
                if let Some(contents) = self.contents_mut(*file) {
                    contents.zero(*offset, *bytes);
                }
            }
            What::Create { place, file, kind, mode } => {
                self.make(*file, kind, *mode);
                self.enter(place, *file);
            }
            What::Link { .. } | What::Unlink { .. } | What::Rename { .. } => {
                for step in names(what) {
                    match step {
                        (place, Some(file)) => self.enter(&place, file),
                        (place, None) => self.leave(&place),
                    }
                }
            }
            What::Read { .. }
            | What::Allocate { .. }
            | What::Placed { .. }
            | What::Flush { .. }
            | What::FlushFolder { .. }
            | What::FlushAll
            | What::Output(_) => {}
        }
    }

    /// Whether `file` is `folder` or lies under it.
    #[must_use]
    pub fn is_under(&self, file: FileId, folder: FileId) -> bool {
        file == folder
            || self.entries(folder).is_some_and(|entries| {
                entries.values().any(|&inside| self.is_folder(inside) && self.is_under(file, inside))
            })
    }

    /// All files with their paths, folders before what is in them; a file with two names comes twice.
    #[must_use]
    pub fn walk(&self) -> Vec<(PathBuf, FileId)> {
        let mut found = Vec::new();
        let mut folders = vec![(PathBuf::new(), ROOT)];
        while let Some((path, folder)) = folders.pop() {
            for (name, &file) in self.entries(folder).into_iter().flatten() {
                let path = path.join(name);
                if self.is_folder(file) {
                    folders.push((path.clone(), file));
                }
                found.push((path, file));
            }
        }
        found
    }

    /// Writes all files to an empty folder of this machine.
    ///
    /// # Errors
    /// If one of them cannot be written.
    pub fn store(&self, to: &Path) -> io::Result<()> {
        let mut first_name: HashMap<FileId, PathBuf> = HashMap::new();
        for (path, file) in self.walk() {
            let (path, Some(inode)) = (to.join(path), self.get(file)) else { continue };
            match &inode.node {
                Node::Folder(_) => {
                    std::fs::create_dir(&path)?;
                    if inode.mode != 0o755 {
                        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(inode.mode | 0o700))?;
                    }
                }
                Node::Link(target) => std::os::unix::fs::symlink(target, &path)?,
                Node::File(contents) => {
                    if let Some(other) = first_name.get(&file) {
                        std::fs::hard_link(other, &path)?;
                        continue;
                    }
                    contents.store(&path)?;
                    if inode.mode != 0o644 {
                        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(inode.mode | 0o600))?;
                    }
                    first_name.insert(file, path);
                }
            }
        }
        Ok(())
    }

    /// A number that is the same for the same names and contents.
    #[must_use]
    pub fn digest(&self) -> u64 {
        use std::hash::{DefaultHasher, Hasher};
        let mut hasher = DefaultHasher::new();
        let mut files = self.walk();
        files.sort();
        for (path, file) in files {
            hasher.write(path.as_os_str().as_bytes());
            hasher.write_u8(0);
            match self.get(file).map(|inode| &inode.node) {
                Some(Node::File(contents)) => contents.digest(&mut hasher),
                Some(Node::Link(target)) => hasher.write(target.as_os_str().as_bytes()),
                Some(Node::Folder(_)) | None => hasher.write_u8(1),
            }
        }
        hasher.finish()
    }
}

impl Contents {
    fn store(&self, path: &Path) -> io::Result<()> {
        let file = std::fs::File::create_new(path)?;
        let mut run: Vec<u8> = Vec::new();
        let mut start = 0;
        for (&index, page) in &self.pages {
            let position = index * PAGE;
            if position >= self.size {
                break;
            }
            if position != start + run.len() as u64 {
                file.write_all_at(&run, start)?;
                run.clear();
                start = position;
            }
            let count = PAGE.min(self.size - position) as usize;
            run.extend_from_slice(&page[..count]);
        }
        file.write_all_at(&run, start)?;
        if start + (run.len() as u64) < self.size {
            file.set_len(self.size)?;
        }
        Ok(())
    }

    fn digest(&self, hasher: &mut impl std::hash::Hasher) {
        hasher.write_u64(self.size);
        for (&index, page) in &self.pages {
            if index * PAGE >= self.size {
                break;
            }
            let count = PAGE.min(self.size - index * PAGE) as usize;
            if page[..count].iter().any(|&byte| byte != 0) {
                hasher.write_u64(index);
                hasher.write(&page[..count]);
            }
        }
    }
}

/// What an event does to names, step by step: the name, and the file that it then stands for.
#[must_use]
pub fn names(what: &What) -> Vec<(Place, Option<FileId>)> {
    match what {
        What::Create { place, file, .. } | What::Link { place, file } => vec![(place.clone(), Some(*file))],
        What::Unlink { place, .. } => vec![(place.clone(), None)],
        What::Rename { from, to, file, over, exchange } => {
            let mut steps = vec![(from.clone(), None)];
            if over.is_some() {
                steps.push((to.clone(), None));
            }
            steps.push((to.clone(), Some(*file)));
            if *exchange && let Some(other) = over {
                steps.push((from.clone(), Some(*other)));
            }
            steps
        }
        _ => Vec::new(),
    }
}
