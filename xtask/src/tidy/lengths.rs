//! Lengths of files and functions, with a ratchet: longer ones are listed with their lengths, and the list
//! may only shrink.

use std::collections::BTreeMap;

use super::source::{functions, mask};
use super::{File, Problem, RATCHET};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Something that is too long. `name` is its entry in the ratchet: `path` or `path::function`.
#[derive(Debug)]
struct TooLong {
    name: String,
    place: String,
    lines: usize,
    limit: usize,
}

/// Compares lengths with the limits and with the ratchet.
pub(crate) fn check(files: &[File], ratchet: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut entries = BTreeMap::new();
    for (line, name, lines) in parse(ratchet) {
        let place = format!("{RATCHET}:{line}");
        match lines {
            None => problems.push(Problem::new(place, "an entry is 'path LINES' or 'path::function LINES'")),
            Some(lines) => {
                if entries.insert(name, (line, lines)).is_some() {
                    problems.push(Problem::new(place, format!("a second entry for {name}: remove one")));
                }
            }
        }
    }
    for long in too_long(files) {
        let TooLong { name, place, lines, limit } = long;
        let what = if name.contains("::") { "function" } else { "file" };
        match entries.remove(name.as_str()) {
            None => problems.push(Problem::new(
                place,
                format!("{what} of {lines} lines, at most {limit}: split it where one thing ends and another begins"),
            )),
            Some((_, allowed)) if lines > allowed => {
                problems.push(Problem::new(
                    place,
                    format!("{what} of {lines} lines has outgrown its {allowed} in {RATCHET}: make it shorter"),
                ));
            }
            Some((line, allowed)) if lines < allowed => problems.push(Problem::new(
                format!("{RATCHET}:{line}"),
                format!(
                    "{name} has shrunk from {allowed} to {lines} lines: lower the entry (cargo xtask tidy --bless)"
                ),
            )),
            Some(_) => {}
        }
    }
    for (name, (line, _)) in entries {
        problems.push(Problem::new(
            format!("{RATCHET}:{line}"),
            format!("{name} is not too long: remove the entry (cargo xtask tidy --bless)"),
        ));
    }
    problems
}

/// The ratchet with every entry lowered to the current length, without unnecessary entries. It never adds or
/// raises an entry: that is a decision for people.
pub(crate) fn bless(files: &[File], ratchet: &str) -> String {
    let today: BTreeMap<String, usize> = too_long(files).into_iter().map(|long| (long.name, long.lines)).collect();
    let mut out = String::new();
    for line in ratchet.lines() {
        let kept = match parse(line).next() {
            None => Some(line.to_owned()),
            Some((_, name, allowed)) => {
                today.get(name).map(|lines| format!("{name} {}", allowed.map_or(*lines, |a| a.min(*lines))))
            }
        };
        if let Some(kept) = kept {
            out.push_str(&kept);
            out.push('\n');
        }
    }
    out
}

/// Entries of the ratchet: line from 1, name, length if it is a number.
fn parse(ratchet: &str) -> impl Iterator<Item = (usize, &str, Option<usize>)> {
    let entries = ratchet.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
    entries.map(|(index, line)| {
        let (name, lines) = line.trim().rsplit_once(' ').unwrap_or((line.trim(), ""));
        (index + 1, name.trim(), lines.parse().ok())
    })
}

fn too_long(files: &[File]) -> Vec<TooLong> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.is_rust()) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            found.push(TooLong { name: file.path.clone(), place: file.place(1), lines, limit: FILE_LINES_MAX });
        }
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for function in functions(&mask(&file.text)).into_iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
            let count = seen.entry(function.name.clone()).or_default();
            *count += 1;
            // Several long functions of one name in one file: `new`, `new#2`, ...
            let number = if *count == 1 { String::new() } else { format!("#{count}") };
            found.push(TooLong {
                name: format!("{}::{}{number}", file.path, function.name),
                place: file.place(function.line),
                lines: function.lines,
                limit: FUNCTION_LINES_MAX,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    fn messages(files: &[File], ratchet: &str) -> Vec<String> {
        check(files, ratchet).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn long_files_and_functions_are_refused() {
        let files = [
            File::new("a.rs", &"// line\n".repeat(501)),
            File::new("b.rs", &function("long", 71)),
            File::new("c.rs", &format!("{}{}", function("just", 70), "// line\n".repeat(430))),
            File::new("d.md", &"line\n".repeat(900)),
        ];
        let found = messages(&files, "");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: file of 501 lines"), "{}", found[0]);
        assert!(found[1].starts_with("b.rs:1: function of 71 lines"), "{}", found[1]);
    }

    #[test]
    fn the_ratchet_holds_in_both_directions() {
        let files = [File::new("a.rs", &"// line\n".repeat(600)), File::new("b.rs", &function("long", 80))];
        assert_eq!(messages(&files, "# why\na.rs 600\nb.rs::long 80\n"), [""; 0]);
        let grown = messages(&files, "a.rs 599\nb.rs::long 80\n");
        assert!(grown[0].contains("outgrown its 599"), "{grown:?}");
        let shrunk = messages(&files, "a.rs 600\nb.rs::long 81\n");
        assert!(shrunk[0].starts_with("xtask/ratchet.txt:2:") && shrunk[0].contains("lower the entry"), "{shrunk:?}");
        let needless = messages(&files, "a.rs 600\nb.rs::long 80\nc.rs 700\n");
        assert!(needless[0].contains("remove the entry"), "{needless:?}");
        let broken = messages(&files, "a.rs 600\na.rs 600\nb.rs::long 80\nb.rs many\n");
        assert!(broken[0].contains("second entry") && broken[1].contains("an entry is"), "{broken:?}");
    }

    #[test]
    fn two_long_functions_of_one_name_need_two_entries() {
        let files = [File::new("a.rs", &format!("{}{}", function("new", 75), function("new", 90)))];
        assert_eq!(messages(&files, "a.rs::new 75\na.rs::new#2 90\n"), [""; 0]);
        assert_eq!(messages(&files, "a.rs::new 75\n").len(), 1);
    }

    #[test]
    fn bless_lowers_and_removes_but_never_raises_or_adds() {
        let files = [
            File::new("a.rs", &"// line\n".repeat(600)),
            File::new("b.rs", &"// line\n".repeat(550)),
            File::new("c.rs", &"// line\n".repeat(700)),
        ];
        let blessed = bless(&files, "# why\n\na.rs 650\nb.rs 520\ngone.rs 900\n");
        assert_eq!(blessed, "# why\n\na.rs 600\nb.rs 520\n");
        let left = messages(&files, &blessed);
        assert!(left.iter().any(|m| m.contains("outgrown")) && left.iter().any(|m| m.starts_with("c.rs")), "{left:?}");
    }
}
