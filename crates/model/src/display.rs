//! Text from outside, made fit to be shown: control characters from data could steer a terminal, and a value
//! of a megabyte would bury the message about it.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with control characters written as `\u{1b}`; line ends and tabs stay. Also escaped are the marks
/// that reorder text (bidirectional overrides), which could make a message read differently from its real
/// text.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The text if it has at most `chars_max` characters, else its beginning and how much is left out.
#[must_use]
pub fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes in all)", &text[..end], text.len())),
    }
}

fn is_unsafe(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_escaped() {
        assert!(matches!(visible("plain text\n\tÜ 漢"), Cow::Borrowed(_)));
        assert_eq!(visible("a\x1b[2Jb\rc\u{7f}\u{9b}31m\u{202e}"), "a\\u{1b}[2Jb\\u{d}c\\u{7f}\\u{9b}31m\\u{202e}");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("漢字", 2), "漢字");
        assert_eq!(shortened("漢字漢字", 2), "漢字... (12 bytes in all)");
    }
}
