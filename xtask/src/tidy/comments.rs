//! Widths of comments: at most [`COLUMNS_MAX`], which rustfmt does not check. `cargo xtask tidy --bless`
//! wraps wider ones.

use super::source::pieces;
use super::{File, Problem};

const COLUMNS_MAX: usize = 110;

/// A line that is a comment and nothing else.
struct Comment<'a> {
    indent: &'a str,
    /// `//`, `///` or `//!`.
    marker: &'a str,
    text: &'a str,
}

/// Refuses comments that are too wide and can be wrapped.
pub(crate) fn check(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        // Only where wrapping changes something is a line too wide: a link, a table or code may be.
        let wrapped = wrap(&file.text);
        if wrapped == file.text {
            continue;
        }
        let same = file.text.lines().zip(wrapped.lines()).take_while(|(before, after)| before == after).count();
        let message = format!("a comment of more than {COLUMNS_MAX} columns: wrap it (cargo xtask tidy --bless)");
        problems.push(Problem::new(file.place(same + 1), message));
    }
    problems
}

/// The text with paragraphs of comments wrapped that have a line that is too wide.
pub(crate) fn wrap(text: &str) -> String {
    let comments = whole_lines(text);
    let lines: Vec<&str> = text.split('\n').collect();
    let mut out: Vec<String> = Vec::new();
    let mut is_code = false;
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = comments[at].as_ref() else {
            is_code = false;
            out.push(lines[at].to_owned());
            at += 1;
            continue;
        };
        is_code ^= first.text.trim_start().starts_with("```");
        let mut end = at + 1;
        while comments.get(end).and_then(Option::as_ref).is_some_and(|next| first.is_continued_by(next)) {
            end += 1;
        }
        let is_wide = |line: &&str| line.chars().count() > COLUMNS_MAX;
        if is_code || !first.is_prose() || !lines[at..end].iter().any(is_wide) {
            out.push(lines[at].to_owned());
            at += 1;
            continue;
        }
        let words = comments[at..end].iter().flatten().flat_map(|comment| comment.text.split_whitespace());
        out.extend(first.wrapped(words));
        at = end;
    }
    out.join("\n")
}

/// For each line the comment that it is, if it is nothing else.
fn whole_lines(text: &str) -> Vec<Option<Comment<'_>>> {
    let mut starts = pieces(text).into_iter().map(|piece| piece.start).peekable();
    let mut from = 0;
    let mut found = Vec::new();
    for line in text.split('\n') {
        let comment = comment_of(line).filter(|comment| {
            let at = from + comment.indent.len();
            while starts.next_if(|start| *start < at).is_some() {}
            // Within a text of several lines it is none.
            starts.peek() == Some(&at)
        });
        found.push(comment);
        from += line.len() + 1;
    }
    found
}

fn comment_of(line: &str) -> Option<Comment<'_>> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let rest = &line[indent.len()..];
    let marker = ["//!", "///", "//"].into_iter().find(|marker| rest.starts_with(marker))?;
    Some(Comment { indent, marker, text: &rest[marker.len()..] })
}

impl Comment<'_> {
    /// Neither empty nor a heading, a table or an indented line.
    fn is_prose(&self) -> bool {
        let text = self.text.strip_prefix(' ').unwrap_or(self.text);
        !(text.is_empty() || text.starts_with(['#', '|', ' ']) || text.starts_with("```"))
    }

    /// Where a list's item begins, after `* ` or `1. `: the number of columns before its text.
    fn hanging(&self) -> usize {
        let text = self.text.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        match () {
            () if text.starts_with("* ") || text.starts_with("- ") => 2,
            () if digits > 0 && text[digits..].starts_with(". ") => digits + 2,
            () => 0,
        }
    }

    /// Whether the next line belongs to the same paragraph.
    fn is_continued_by(&self, next: &Comment<'_>) -> bool {
        let indented = next.text.len() - next.text.trim_start().len() - usize::from(next.text.starts_with(' '));
        let is_same = (self.indent, self.marker) == (next.indent, next.marker);
        let text = next.text.trim_start();
        let begins_anew =
            text.is_empty() || next.hanging() > 0 || text.starts_with(['#', '|']) || text.starts_with("```");
        is_same && !begins_anew && indented == self.hanging()
    }

    fn wrapped<'w>(&self, words: impl Iterator<Item = &'w str>) -> Vec<String> {
        let begin = format!("{}{}", self.indent, self.marker);
        let hanging = " ".repeat(self.hanging());
        let mut lines = vec![begin.clone()];
        let mut is_first_word = true;
        for word in words {
            let line = lines.last_mut().expect("there is a first one");
            if !is_first_word && line.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
                lines.push(format!("{begin} {hanging}{word}"));
            } else {
                line.push(' ');
                line.push_str(word);
            }
            is_first_word = false;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_paragraphs_are_wrapped_and_nothing_else() {
        let word = "words ".repeat(16);
        let text = format!(
            "/// Short.\n///\n/// {word}and more than fits.\n/// End.\n/// * {word}and more than fits.\n///   End.\nfn f() {{\n    \
             let x = \"\n// {word}{word}\";\n}}\n/// ```\n/// {word}{word}\n/// ```\n/// | {word}{word}|\n// {}\n",
            "x".repeat(200)
        );
        let wrapped = wrap(&text);
        let expected = text
            .replace("and more than fits.\n/// End.", "and more\n/// than fits. End.")
            .replace("and more than fits.\n///   End.", "and more\n///   than fits. End.");
        assert_eq!(wrapped, expected);
        assert_eq!(wrap(&wrapped), wrapped, "once is enough");
        let found = check(&[File::new("a.rs", &text), File::new("a.md", &text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().starts_with("a.rs:3: a comment of more than 110 columns"), "{found:?}");
    }
}
