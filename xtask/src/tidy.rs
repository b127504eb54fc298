//! The checks, and what they share: the repository's files and the problems found in them.

mod code_map;
mod comments;
mod dependencies;
mod leftovers;
mod lengths;
mod names;
mod source;
mod terms;
mod tuples;
mod wings;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A problem that a check found: where, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    place: String,
    message: String,
}

impl Problem {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Problem { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// A text file of the repository.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/`.
    path: String,
    /// Contents.
    text: String,
}

impl File {
    #[cfg(test)]
    fn new(path: &str, text: &str) -> Self {
        File { path: path.into(), text: text.into() }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }

    /// A problem at a position of the text.
    fn problem(&self, at: usize, message: impl Into<String>) -> Problem {
        Problem::new(self.place(source::line_of(&self.text, at)), message)
    }

    /// Writes a text into the file.
    fn replace(&mut self, root: &Path, text: String) -> Result<(), String> {
        let path = root.join(&self.path);
        std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
        self.text = text;
        Ok(())
    }
}

/// Folders without files of the repository.
const FOREIGN_FOLDERS: [&str; 4] = [".git", ".cache", "target", "node_modules"];
/// Endings (or whole names) of the files that the checks read.
const TEXT_FILES: [&str; 12] =
    [".rs", ".md", ".toml", ".sh", ".sql", ".py", ".yaml", ".plan", ".err", "Makefile", ".ci/run", "ratchet.txt"];
const RATCHET: &str = "xtask/ratchet.txt";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const LIFE_OF_A_RECORD: &str = "docs/life-of-a-record.md";
const CONNECTORS_SOURCE: &str = "crates/connectors/src/lib.rs";
const CONNECTORS_GUIDE: &str = "docs/connectors.md";

/// Runs every check on the repository at `root`. With `bless`, wraps wide comments and lowers the entries of
/// the ratchet first.
pub(crate) fn run(root: &Path, bless: bool) -> Result<Vec<Problem>, String> {
    let mut files = read_files(root)?;
    if bless {
        wrap_comments(root, &mut files)?;
        let lowered = lengths::bless(&files, &text_of(&files, RATCHET)?);
        if let Some(file) = files.iter_mut().find(|f| f.path == RATCHET) {
            file.replace(root, lowered)?;
        }
    }
    let architecture = text_of(&files, ARCHITECTURE)?;
    let crates = crates_of(&files);
    let mut problems = dependencies::check(&architecture, &cargo_metadata(root)?)?;
    problems.extend(lengths::check(&files, &text_of(&files, RATCHET)?));
    problems.extend(names::check(&files, LIFE_OF_A_RECORD, &text_of(&files, LIFE_OF_A_RECORD)?));
    problems.extend(leftovers::check(&files));
    problems.extend(terms::check(&files));
    problems.extend(comments::check(&files));
    problems.extend(tuples::check(&files));
    problems.extend(wings::check(&files));
    problems.extend(code_map::check_crates(&architecture, &crates));
    let connectors = text_of(&files, CONNECTORS_SOURCE)?;
    problems.extend(code_map::check_connectors(&connectors, &text_of(&files, CONNECTORS_GUIDE)?));
    Ok(problems)
}

fn wrap_comments(root: &Path, files: &mut [File]) -> Result<(), String> {
    for file in files.iter_mut().filter(|file| file.is_rust()) {
        let wrapped = comments::wrap(&file.text);
        if wrapped != file.text {
            file.replace(root, wrapped)?;
        }
    }
    Ok(())
}

fn text_of(files: &[File], path: &str) -> Result<String, String> {
    let file = files.iter().find(|f| f.path == path).ok_or_else(|| format!("{path} is missing"))?;
    Ok(file.text.clone())
}

/// Names of the folders under `crates/` that hold a crate, in order.
fn crates_of(files: &[File]) -> Vec<String> {
    let name = |f: &File| f.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").map(str::to_owned);
    files.iter().filter_map(name).filter(|n| !n.contains('/')).collect()
}

fn read_files(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", folder.display()))?;
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let kind = entry.file_type().map_err(|e| format!("{}: {e}", path.display()))?;
            if kind.is_dir() && !FOREIGN_FOLDERS.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() {
                let relative = relative(root, &path);
                if TEXT_FILES.iter().any(|end| relative.ends_with(end)) {
                    let text = std::fs::read_to_string(&path).map_err(|e| format!("{relative}: {e}"))?;
                    files.push(File { path: relative, text });
                }
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn relative(root: &Path, path: &Path) -> String {
    let inside: PathBuf = path.strip_prefix(root).unwrap_or(path).to_owned();
    inside.to_string_lossy().replace('\\', "/")
}

/// The metadata of the workspace's packages, without network access.
fn cargo_metadata(root: &Path) -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_the_folders_with_a_manifest() {
        let files = [
            File::new("crates/plan/Cargo.toml", ""),
            File::new("crates/plan/src/lib.rs", ""),
            File::new("crates/plan/fixtures/inner/Cargo.toml", ""),
            File::new("xtask/Cargo.toml", ""),
        ];
        assert_eq!(crates_of(&files), ["plan"]);
    }

    #[test]
    fn the_repository_is_found_and_its_foreign_folders_are_not_read() {
        let root = crate::root().expect("root");
        let files = read_files(&root).expect("files");
        assert!(files.iter().any(|f| f.path == "xtask/src/tidy.rs"));
        assert!(files.iter().all(|f| !f.path.starts_with(".git/") && !f.path.contains("target/")));
        assert!(crates_of(&files).contains(&"model".to_owned()));
    }
}
