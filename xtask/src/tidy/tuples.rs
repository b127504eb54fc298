//! Tuples of more than two members as parameters or fields: a struct has names for them.

use super::source::{closing, line_of, mask, without_tests, word_at, words};
use super::{File, Problem};

const MEMBERS_MAX: usize = 2;

/// Functions and types with such a tuple. The list only shrinks.
const KNOWN: &[&str] =
    &["crates/sim/src/engine/cluster/planted.rs::Carrier", "crates/sim/src/engine/cluster/wires.rs::Wires"];

/// A parameter or a field whose type has such a tuple.
struct Found {
    /// `path::function` or `path::Type`.
    name: String,
    place: String,
    declared: String,
}

/// Refuses such tuples, and entries of the list that nothing needs.
pub(crate) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut unneeded: Vec<&str> = KNOWN.to_vec();
    for found in files.iter().filter(|file| file.is_rust() && !file.is_test()).flat_map(found) {
        unneeded.retain(|name| *name != found.name);
        if !KNOWN.contains(&found.name.as_str()) {
            let message = format!("'{}' is a tuple of more than {MEMBERS_MAX}: give its members names", found.declared);
            problems.push(Problem::new(found.place, message));
        }
    }
    let message = "has no such tuple any more: remove it from the list";
    problems
        .extend(unneeded.into_iter().map(|name| Problem::new("xtask/src/tidy/tuples.rs", format!("{name} {message}"))));
    problems
}

fn found(file: &File) -> Vec<Found> {
    let masked = without_tests(&mask(&file.text));
    let mut all = Vec::new();
    for (word, open) in [("fn", "("), ("struct", "{("), ("enum", "{")] {
        for at in words(&masked, word) {
            let Some(name) = word_at(&masked, at + word.len()) else { continue };
            let Some(list) = list_after(&masked, at, open) else { continue };
            for declared in split(list).into_iter().filter(|declared| has_tuple(type_of(declared))) {
                let declared = declared.split_whitespace().collect::<Vec<_>>().join(" ");
                let place = file.place(line_of(&masked, at));
                all.push(Found { name: format!("{}::{name}", file.path), place, declared });
            }
        }
    }
    all
}

/// What stands between the first of the brackets `open` after `from` that is not within `<...>`, and its end.
fn list_after<'a>(masked: &'a str, from: usize, open: &str) -> Option<&'a str> {
    let (mut depth, mut previous) = (0_i32, ' ');
    for (at, c) in masked[from..].char_indices().map(|(at, c)| (from + at, c)) {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' && previous != '=' => depth -= 1,
            ';' if depth == 0 => return None,
            _ if depth == 0 && open.contains(c) => return Some(&masked[at + 1..closing(masked, at)?]),
            _ => {}
        }
        previous = c;
    }
    None
}

/// The parts of a list between its commas.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut previous, mut start, mut parts) = (0_i32, ' ', 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if previous != '-' && previous != '=' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        previous = c;
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The type of a parameter or a field. What has no name before a colon is a type itself, or a variant.
fn type_of(declared: &str) -> &str {
    let mut depth = 0_i32;
    let bytes = declared.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b':' if depth == 0 && bytes.get(at + 1) != Some(&b':') && (at == 0 || bytes[at - 1] != b':') => {
                return &declared[at + 1..];
            }
            _ => {}
        }
    }
    // The fields of a variant are no tuple: the list begins inside.
    let first = declared.find(['(', '{', '<']).filter(|at| declared.as_bytes()[*at] == b'(');
    first
        .filter(|at| declared[..*at].trim_end().ends_with(char::is_alphanumeric))
        .map_or(declared, |at| &declared[at + 1..])
}

fn has_tuple(data_type: &str) -> bool {
    data_type.match_indices('(').any(|(at, _)| {
        let before = data_type[..at].trim_end();
        let is_call = ["Fn", "FnMut", "FnOnce", "fn", "pub"].iter().any(|word| before.ends_with(word));
        let inner = closing(data_type, at).map(|end| &data_type[at + 1..end]);
        !is_call && inner.is_some_and(|inner| split(inner).len() > MEMBERS_MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        found(&File::new("a.rs", text)).into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn tuples_of_three_are_found_in_parameters_and_fields() {
        for text in [
            "fn f((a, b, c): (u8, u8, u8)) {}",
            "fn f<T: Into<(u8, u8)>>(a: &[(u8, HashMap<u8, u8>, u8)]) {}",
            "fn f(\n    a: u8,\n    b: Option<(u8, u8, u8)>,\n) {}",
            "struct f<T> { pub(crate) a: u8, b: Vec<(u8, T, u8)> }",
            "struct f(Vec<(u8, u8, u8)>);",
            "enum f { A, B(u8, Box<(u8, u8, u8)>) }",
            "enum f { A { a: (u8, u8, u8) } }",
        ] {
            assert_eq!(names(text), ["a.rs::f"], "{text}");
        }
    }

    #[test]
    fn pairs_calls_results_and_tests_pass() {
        for text in [
            "fn f((a, b): (u8, BTreeMap<u8, u8>)) -> (u8, u8, u8) {}",
            "fn f(a: impl Fn(u8, u8, u8) -> u8, b: fn(u8, u8, u8)) {}",
            "struct f(u8, u8, u8);",
            "enum f { A(u8, u8, u8), B { a: u8, b: u8, c: u8 } }",
            "fn f(a: u8) { g((1, 2, 3)); }",
            "#[cfg(test)]\nmod tests {\n    fn f(a: (u8, u8, u8)) {}\n}",
            "// fn f(a: (u8, u8, u8))\nconst F: &str = \"fn f(a: (u8, u8, u8))\";",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }
}
