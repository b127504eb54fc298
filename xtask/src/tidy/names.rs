//! Names in `docs/life-of-a-record.md`: every `` `crate::...::name` `` must exist in the source, so that the
//! page cannot become outdated.
//!
//! A name consists of the folder of a crate, modules (each a file or a folder), optionally a type, and the
//! named item: `runtime::task::Task::run` is a function `run` in an `impl` (or the trait) of `Task`,
//! somewhere under `crates/runtime/src/task`; `plan::plan_script` is a function anywhere in
//! `crates/plan/src`.

use super::source::{block_after, is_word, mask, words};
use super::{File, Problem};

/// Checks every name of `text`, the contents of `document`.
pub(crate) fn check(files: &[File], document: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names = 0;
    for (index, line) in text.lines().enumerate() {
        for name in line.split('`').skip(1).step_by(2).filter(|code| is_name(code)) {
            names += 1;
            if let Err(message) = find(files, name.trim_end_matches("()")) {
                problems.push(Problem::new(format!("{document}:{}", index + 1), format!("`{name}`: {message}")));
            }
        }
    }
    if names == 0 {
        problems.push(Problem::new(document, "names no function at all"));
    }
    problems
}

fn is_name(code: &str) -> bool {
    let name = code.trim_end_matches("()");
    let segments = || name.split("::");
    segments().count() > 1 && segments().all(|segment| !segment.is_empty() && segment.bytes().all(is_word))
}

fn is_type(segment: &str) -> bool {
    segment.starts_with(|c: char| c.is_ascii_uppercase()) && segment.bytes().any(|b| b.is_ascii_lowercase())
}

fn find(files: &[File], name: &str) -> Result<(), String> {
    let segments: Vec<&str> = name.split("::").collect();
    let [package, middle @ .., last] = segments.as_slice() else { return Err("is no path".into()) };
    let folder = format!("crates/{package}/src/");
    if !files.iter().any(|f| f.path.starts_with(&folder)) {
        return Err(format!("there is no crate 'crates/{package}'"));
    }
    let (modules, owner) = match middle {
        [modules @ .., owner] if is_type(owner) => (modules, Some(*owner)),
        modules => (modules, None),
    };
    let base = format!("{folder}{}", modules.join("/"));
    let inside = |f: &&File| {
        f.is_rust()
            && f.path.starts_with(&folder)
            && (modules.is_empty() || f.path == format!("{base}.rs") || f.path.starts_with(&format!("{base}/")))
    };
    let mut sources = files.iter().filter(inside).peekable();
    if sources.peek().is_none() {
        return Err(format!("there is no file {base}.rs"));
    }
    if sources.any(|f| defines(&mask(&f.text), owner, last)) {
        return Ok(());
    }
    Err(match owner {
        Some(owner) => format!("no `{last}` of `{owner}` under {base}"),
        None => format!("no `{last}` under {base}"),
    })
}

/// Whether a masked source defines `name`, within a block of `owner` if given.
fn defines(masked: &str, owner: Option<&str>, name: &str) -> bool {
    let Some(owner) = owner else { return declares(masked, name) };
    for keyword in ["impl", "trait", "enum"] {
        for at in words(masked, keyword) {
            let Some(block) = block_after(masked, at) else { continue };
            let header = &masked[at..block.start];
            let body = &masked[block];
            let variant = keyword == "enum" && is_type(name) && words(body, name).next().is_some();
            if words(header, owner).next().is_some() && (variant || declares(body, name)) {
                return true;
            }
        }
    }
    false
}

/// Whether a masked text declares an item `name`.
fn declares(masked: &str, name: &str) -> bool {
    let keywords = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "macro_rules!"];
    words(masked, name).any(|at| {
        let before = masked[..at].trim_end();
        before.len() < at && keywords.iter().any(|k| before.ends_with(k) && !ends_in_longer_word(before, k))
    })
}

fn ends_in_longer_word(text: &str, keyword: &str) -> bool {
    text.as_bytes()[..text.len() - keyword.len()].last().is_some_and(|b| is_word(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<File> {
        let task = "pub struct Task;\nimpl Task {\n    // fn dream() {}\n    pub fn run(&self) {}\n}\nfn helper() {}\n\
                    pub enum Kind { Cut, Stop }\n";
        vec![
            File::new("crates/runtime/src/lib.rs", "pub fn start() {}\npub trait Drive { fn step(&self); }"),
            File::new("crates/runtime/src/task.rs", task),
            File::new("crates/runtime/src/task/inbox.rs", "pub fn align() {}\nconst LIMIT: u8 = 3;"),
        ]
    }

    #[test]
    fn names_that_exist_are_found() {
        let text = "`runtime::start`, `runtime::task::Task::run`, `runtime::Task::run()`, `runtime::task::align`,\n\
                    `runtime::task::inbox::align`, `runtime::Drive::step`, `runtime::task::Kind::Cut`,\n\
                    `runtime::task::Task`, `runtime::task::inbox::LIMIT`; `not a::name`, `plain`, `::`.";
        assert_eq!(check(&files(), "doc.md", text), []);
    }

    #[test]
    fn names_that_do_not_exist_are_reported_with_their_line() {
        let cases = [
            ("runtime::gone", "no `gone` under"),
            ("runtime::task::Task::helper", "no `helper` of `Task`"),
            ("runtime::task::Task::dream", "no `dream` of `Task`"),
            ("runtime::inbox::align", "there is no file crates/runtime/src/inbox.rs"),
            ("runtime::task::Kind::Go", "no `Go` of `Kind`"),
            ("railway::start", "there is no crate"),
            ("runtime::task::star", "no `star` under"),
        ];
        for (name, expected) in cases {
            let found = check(&files(), "doc.md", &format!("first\nsee `{name}`\n"));
            assert_eq!(found.len(), 1, "{name}");
            assert!(found[0].to_string().starts_with("doc.md:2: "), "{}", found[0]);
            assert!(found[0].message.contains(expected), "{name}: {}", found[0]);
        }
    }

    #[test]
    fn a_page_without_names_is_a_problem() {
        assert_eq!(check(&files(), "doc.md", "words only").len(), 1);
    }
}
