//! Commands of a document, carried out as a reader pastes them: by a shell, block by block, with real
//! processes.
//!
//! A block of `sh` is pasted. A block of `text` has lines of its output: tasks may
//! print rows in another order. Addresses and folders that a machine has once are
//! replaced by those of the test.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::free;

/// Longer than any document takes, even on a busy machine.
const LIMIT: &str = "280s";
/// Divides what the blocks print.
const BLOCK: &str = "=== block ";

/// A command of the program whose default ports are those of the test.
const PROGRAM: &str = r#"#!/usr/bin/env bash
set -eu
case "$1" in
coordinator)
    [[ " $* " == *" --listen "* ]] || set -- "$@" --listen "$TEST_LISTEN"
    [[ " $* " == *" --http "* ]] || set -- "$@" --http "$TEST_HTTP"
    ;;
sql | run | demo | explain | worker | certificate | --*) ;;
*) export ANABRANCH_COORDINATOR="${ANABRANCH_COORDINATOR:-http://$TEST_HTTP}" ;;
esac
exec "$TEST_PROGRAM" "$@"
"#;

/// A block of a document.
struct Block {
    language: String,
    lines: Vec<String>,
}

/// Part of a document that is pasted into one shell.
pub(crate) struct Session {
    folder: TempDir,
    blocks: Vec<Block>,
    replaced: Vec<(String, String)>,
}

/// The processes of a session, which end with the test.
struct Processes(Child);

impl Drop for Processes {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The blocks of a text. Those in a list are indented.
fn blocks(text: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<(usize, Block)>) = (Vec::new(), None);
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                let indented = line.len() - line.trim_start().len();
                open = Some((indented, Block { language: language.to_owned(), lines: Vec::new() }));
            }
            (Some(_), Some((_, block))) => blocks.push(block),
            (None, Some((indented, mut block))) => {
                block.lines.push(line.get(indented..).unwrap_or_default().to_owned());
                open = Some((indented, block));
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The sections of a document, by their headings.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let begin = text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section '{heading}'"));
    let rest = &text[begin + 1..];
    rest.find("\n## ").map_or(rest, |end| &rest[..end])
}

impl Session {
    /// All of a document, or these sections of it.
    pub(crate) fn of(document: &str, sections: &[&str]) -> Session {
        let path = repository().join(document);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{document}: {error}"));
        let blocks = match sections {
            [] => blocks(&text),
            sections => sections.iter().flat_map(|heading| blocks(section(&text, heading))).collect(),
        };
        assert!(blocks.iter().any(|block| block.language == "sh"), "{document} has commands");
        let folder = tempfile::tempdir().expect("folder");
        std::os::unix::fs::symlink(repository().join("examples"), folder.path().join("examples")).expect("linked");
        Session { folder, blocks, replaced: Vec::new() }
    }

    /// The blocks of SQL.
    pub(crate) fn sql(&self) -> Vec<String> {
        self.blocks.iter().filter(|block| block.language == "sql").map(|block| block.lines.join("\n")).collect()
    }

    /// The folder in which the commands run.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces a text of the document, such as an address.
    pub(crate) fn replace(mut self, text: &str, by: &str) -> Session {
        self.replaced.push((text.to_owned(), by.to_owned()));
        self
    }

    /// Replaces a port of this machine by a free one.
    pub(crate) fn replace_port(self, port: u16) -> Session {
        let free = free().port();
        self.replace(&format!(":{port}"), &format!(":{free}"))
    }

    fn replaced(&self, text: &str) -> String {
        self.replaced.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// What the shell is given: each block after a line that tells it from the one before, then `last`.
    fn script(&self, last: &str) -> String {
        let mut script = String::from("set -eu -o pipefail\n");
        for (number, block) in self.blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
            let text = self.replaced(&block.lines.join("\n"));
            script.push_str(&format!("echo '{BLOCK}{number}'\n{text}\n"));
        }
        format!("{script}echo '{BLOCK}{}'\n{last}\necho '{BLOCK}end'\n", self.blocks.len())
    }

    /// Pastes all blocks, then runs `last`. Returns what that prints.
    ///
    /// # Panics
    /// When a command fails, or when a block does not print what the document shows.
    pub(crate) fn paste(&self, last: &str) -> String {
        let folder = self.folder.path();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        std::fs::create_dir(folder.join("bin")).expect("created");
        write("bin/anabranch", PROGRAM);
        write("script", &self.script(last));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.join("bin/anabranch"), mode).expect("executable");
        let said = std::fs::File::create(folder.join("said")).expect("created");
        let path = std::env::var("PATH").expect("a path");
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=5s", LIMIT, "bash", "script"]).current_dir(folder);
        command.env("PATH", format!("{}:{path}", folder.join("bin").display())).process_group(0);
        command.env("TEST_PROGRAM", env!("CARGO_BIN_EXE_anabranch")).env("TMPDIR", folder);
        let default = |port: &str| self.replaced(&format!("127.0.0.1:{port}"));
        command.env("TEST_LISTEN", default("8791")).env("TEST_HTTP", default("8790"));
        command.env_remove("ANABRANCH_COORDINATOR").env_remove("ANABRANCH_TOKEN");
        command.stdin(Stdio::null()).stdout(said.try_clone().expect("shared")).stderr(said);
        let mut processes = Processes(command.spawn().expect("starts"));
        let status = processes.0.wait().expect("ends");
        let said = std::fs::read_to_string(folder.join("said")).expect("read");
        assert!(status.success() && said.contains(&format!("{BLOCK}end")), "{status}:\n{said}");
        drop(processes);
        self.compare(&said);
        printed(&said, self.blocks.len()).to_owned()
    }

    /// Compares what each block printed with what the document shows after it.
    fn compare(&self, said: &str) {
        let mut before = None;
        for (number, block) in self.blocks.iter().enumerate() {
            match (block.language.as_str(), before) {
                ("sh", _) => before = Some(number),
                ("text", Some(commands)) => {
                    let printed = printed(said, commands);
                    for expected in &block.lines {
                        let expected = self.replaced(expected.trim_end());
                        let found = printed.lines().any(|line| line.trim_end() == expected);
                        assert!(found, "'{expected}' is not printed:\n{printed}");
                    }
                }
                _ => {}
            }
        }
    }
}

/// What a block printed.
fn printed(said: &str, number: usize) -> &str {
    let head = format!("{BLOCK}{number}\n");
    let rest = said.find(&head).map_or("", |begin| &said[begin + head.len()..]);
    rest.find(BLOCK).map_or(rest, |end| &rest[..end])
}
