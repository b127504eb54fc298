//! Parts of texts between matches, as Java's `String.split` gives them.

use datafusion_common::Result;

use super::{Last, each_match};
use crate::definition::failure;

/// A regular expression that separates parts. It is compiled again only if it is another one than that of the
/// last row.
#[derive(Default)]
pub(crate) struct Separator(Last);

impl Separator {
    /// All parts, without empty ones at the end. An empty pattern divides the text into UTF-16 units, of
    /// which half a character is shown as `?`.
    pub(crate) fn split<'a>(&mut self, pattern: &str, text: &'a str, parts: &mut Vec<&'a str>) -> Result<()> {
        parts.clear();
        if pattern.is_empty() {
            let units = |(start, c): (usize, char)| {
                let (unit, count) = match c.len_utf16() {
                    1 => (&text[start..start + c.len_utf8()], 1),
                    _ => ("?", 2),
                };
                std::iter::repeat_n(unit, count)
            };
            parts.extend(text.char_indices().flat_map(units));
            return Ok(());
        }
        let mut rest = 0;
        self.each(pattern, text, |start, end| {
            if end > 0 {
                parts.push(&text[rest..start]);
                rest = end;
            }
            true
        })?;
        parts.push(&text[rest..]);
        // A text without a separator is one part, even if it is empty.
        while rest > 0 && parts.last().is_some_and(|part| part.is_empty()) {
            parts.pop();
        }
        Ok(())
    }

    /// The parts before and after the first separator; `None` if there is none.
    pub(crate) fn split_once<'a>(&mut self, pattern: &str, text: &'a str) -> Result<Option<(&'a str, &'a str)>> {
        let mut found = None;
        self.each(pattern, text, |start, end| {
            found = (end > 0).then(|| (&text[..start], &text[end..]));
            found.is_none()
        })?;
        Ok(found)
    }

    /// Calls `found` with the bounds of each match, until it returns false.
    fn each(&mut self, pattern: &str, text: &str, mut found: impl FnMut(usize, usize) -> bool) -> Result<()> {
        if !pattern.is_empty() && !pattern.contains(|c: char| r"\.$|()[]{}^?*+".contains(c)) {
            let mut from = 0;
            while let Some(start) = text[from..].find(pattern) {
                let end = from + start + pattern.len();
                if !found(from + start, end) {
                    break;
                }
                from = end;
            }
            return Ok(());
        }
        let regex = self.0.get(pattern)?;
        let regex = regex.ok_or_else(|| failure(format!("'{pattern}' is not a regular expression")))?;
        let mut more = true;
        each_match(regex, text, |start, end| {
            more = more && found(start, end);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, all: &[&str], once: Option<(&str, &str)>) {
        let (mut separator, mut parts) = (Separator::default(), Vec::new());
        separator.split(pattern, text, &mut parts).expect("a pattern");
        assert_eq!(parts, all, "{text:?} by {pattern:?}");
        assert_eq!(separator.split_once(pattern, text).expect("a pattern"), once, "{text:?} by {pattern:?}");
    }

    /// The values are those of Java.
    #[test]
    fn parts_are_those_of_java() {
        check(",", "a,b,,c,,", &["a", "b", "", "c"], Some(("a", "b,,c,,")));
        check(",", ",a", &["", "a"], Some(("", "a")));
        check(",", ",,", &[], Some(("", ",")));
        check(",", "a", &["a"], None);
        check("[0-9]+", "1a22b333", &["", "a", "b"], Some(("", "a22b333")));
        check("x*", "axb", &["a", "", "b"], Some(("a", "b")));
        check("|", "ab", &["a", "b"], Some(("a", "b")));
        check("", "a😀", &["a", "?", "?"], Some(("a", "😀")));
        check(".", "ab", &[], Some(("", "b")));
        check("ab", "xaby", &["x", "y"], Some(("x", "y")));
    }

    #[test]
    fn a_wrong_pattern_is_an_error() {
        assert!(Separator::default().split("[", "a", &mut Vec::new()).is_err());
    }
}
