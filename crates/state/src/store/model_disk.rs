//! An in-memory disk that behaves as badly as a disk may: a power failure loses, tears or keeps what was not
//! made durable, in any order; and any operation may fail. For simulation.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_model::Rng;

use super::disk::{Disk, DiskEntry};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The power fails: this operation and all later ones fail, until [`ModelDisk::restart`].
    PowerFailure,
    /// No space (ENOSPC): part of a file's content may be written.
    Full,
    /// An error of the device (EIO). What a failed sync should have made durable is not durable, and later
    /// syncs do not report it.
    Device,
}

/// A model of a disk.
#[derive(Debug, Default)]
pub struct ModelDisk(Mutex<Model>);

#[derive(Debug, Default)]
struct Model {
    files: Vec<Content>,
    /// The files that programs see.
    seen: BTreeMap<PathBuf, Node>,
    /// The files that certainly survive a power failure.
    durable: BTreeMap<PathBuf, Node>,
    /// Changes of names that are not durable, oldest first.
    pending: Vec<Change>,
    operations: u64,
    fault: Option<(u64, DiskFault)>,
    is_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Debug)]
struct Content {
    seen: Vec<u8>,
    is_durable: bool,
}

/// Names of one folder that change together.
#[derive(Debug)]
struct Change {
    folder: PathBuf,
    names: Vec<(PathBuf, Option<Node>)>,
    /// A sync of the folder has failed: no later sync makes this durable.
    is_lost: bool,
}

impl Model {
    /// Counts an operation, which fails if it is the one with the fault.
    fn step(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.is_off {
            return Err(io::Error::other("the power is off"));
        }
        match self.fault {
            Some((at, DiskFault::PowerFailure)) if at == number => {
                self.is_off = true;
                Err(io::Error::other("the power has failed"))
            }
            Some((at, DiskFault::Full)) if at == number => Err(io::ErrorKind::StorageFull.into()),
            Some((at, DiskFault::Device)) if at == number => Err(io::Error::other("input/output error")),
            _ => Ok(()),
        }
    }

    fn change(&mut self, folder: &Path, names: Vec<(PathBuf, Option<Node>)>) {
        apply(&mut self.seen, &names);
        self.pending.push(Change { folder: folder.to_owned(), names, is_lost: false });
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.seen.get(path) {
            Some(Node::File(file)) => Ok(*file),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn folder_of<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        match self.seen.get(folder) {
            Some(Node::Folder) => Ok(folder),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_free(&self, path: &Path) -> io::Result<()> {
        if self.seen.contains_key(path) { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, changes: &[(PathBuf, Option<Node>)]) {
    for (path, node) in changes {
        match node {
            Some(node) => _ = names.insert(path.clone(), *node),
            None => _ = names.remove(path),
        }
    }
}

impl ModelDisk {
    /// A disk with these empty folders.
    #[must_use]
    pub fn new(folders: &[&Path]) -> ModelDisk {
        let names = || folders.iter().flat_map(|folder| folder.ancestors());
        let names: BTreeMap<PathBuf, Node> = names().map(|folder| (folder.to_owned(), Node::Folder)).collect();
        ModelDisk(Mutex::new(Model { seen: names.clone(), durable: names, ..Model::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Makes the operation of this number fail; the first one has number 0.
    pub fn set_fault(&self, operation: u64, fault: DiskFault) {
        self.lock().fault = Some((operation, fault));
    }

    /// Restores the power, after a power failure if there was none before. The seed decides which parts of
    /// the data that was not durable survive.
    pub fn restart(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        let mut model = self.lock();
        let Model { files, durable, pending, .. } = &mut *model;
        for change in std::mem::take(pending) {
            if rng.below(2) == 0 {
                apply(durable, &change.names);
            }
        }
        let whole = durable.clone();
        durable.retain(|path, _| path.ancestors().skip(1).all(|folder| whole.get(folder) == Some(&Node::Folder)));
        for file in files.iter_mut().filter(|file| !file.is_durable) {
            let kept = rng.below(file.seen.len() as u64 + 1) as usize;
            match rng.below(4) {
                0 => {}
                1 => file.seen.truncate(kept),
                2 => file.seen[kept..].fill(0),
                _ => file.seen.clear(),
            }
            file.is_durable = true;
        }
        model.seen = model.durable.clone();
        (model.fault, model.is_off) = (None, false);
    }
}

impl Disk for ModelDisk {
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut model = self.lock();
        model.step()?;
        let folder = model.folder_of(path)?.to_owned();
        model.is_free(path)?;
        let file = model.files.len();
        model.files.push(Content { seen: Vec::new(), is_durable: false });
        model.change(&folder, vec![(path.to_owned(), Some(Node::File(file)))]);
        let written = model.step();
        let length = if written.is_ok() { content.len() } else { content.len() / 2 };
        model.files[file].seen = content[..length].to_vec();
        written?;
        model.step()?;
        model.files[file].is_durable = true;
        Ok(())
    }

    fn write_private(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.write_file(path, content)
    }

    /// Rights are not modelled.
    fn make_private(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.lock();
        model.step()?;
        let (file, folder) = (model.file(from)?, model.folder_of(to)?.to_owned());
        model.is_free(to)?;
        model.change(&folder, vec![(to.to_owned(), Some(Node::File(file)))]);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut model = self.lock();
        model.step()?;
        let (file, folder) = (model.file(from)?, model.folder_of(to)?.to_owned());
        model.change(&folder, vec![(from.to_owned(), None), (to.to_owned(), Some(Node::File(file)))]);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut model = self.lock();
        model.step()?;
        model.file(path)?;
        let folder = model.folder_of(path)?.to_owned();
        model.change(&folder, vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut model = self.lock();
        model.step()?;
        let folder = model.folder_of(path)?.to_owned();
        model.is_free(path)?;
        model.change(&folder, vec![(path.to_owned(), Some(Node::Folder))]);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut model = self.lock();
        let synced = model.step();
        let Model { durable, pending, .. } = &mut *model;
        if synced.is_err() {
            pending.iter_mut().filter(|change| change.folder == path).for_each(|change| change.is_lost = true);
            return synced;
        }
        let done: Vec<Change> = pending.extract_if(.., |change| change.folder == path && !change.is_lost).collect();
        for change in &done {
            apply(durable, &change.names);
        }
        // Earlier changes of the same name no longer matter.
        let is_done = |path: &PathBuf| done.iter().flat_map(|change| &change.names).any(|(name, _)| name == path);
        for change in pending.iter_mut() {
            change.names.retain(|(name, _)| !is_done(name));
        }
        Ok(())
    }

    fn read(&self, path: &Path, content: &mut Vec<u8>) -> io::Result<()> {
        let model = self.lock();
        if model.is_off {
            return Err(io::Error::other("the power is off"));
        }
        content.clone_from(&model.files[model.file(path)?].seen);
        Ok(())
    }

    fn written_ms(&self, path: &Path) -> io::Result<i64> {
        self.read(path, &mut Vec::new()).map(|()| 0)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<DiskEntry>> {
        let model = self.lock();
        if model.is_off {
            return Err(io::Error::other("the power is off"));
        }
        let within = model.seen.iter().filter(|(path, _)| path.parent() == Some(folder));
        let entry = |(path, node): (&PathBuf, &Node)| DiskEntry {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            is_folder: *node == Node::Folder,
        };
        Ok(within.map(entry).collect())
    }
}
