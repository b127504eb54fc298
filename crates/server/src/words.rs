//! The words of a statement, for completion and for statements about jobs, which only the shell understands.

use std::ops::Range;

/// A part of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotes.
    pub text: String,
    /// The quotes around it.
    pub quote: Option<char>,
    /// The closing quote is missing.
    pub is_open: bool,
    /// Bytes of the statement.
    pub place: Range<usize>,
}

impl Word {
    /// Whether it is this keyword.
    #[must_use]
    pub fn is(&self, keyword: &str) -> bool {
        !self.is_quoted() && self.text.eq_ignore_ascii_case(keyword)
    }

    /// Whether it stands in quotes.
    #[must_use]
    pub fn is_quoted(&self) -> bool {
        self.quote.is_some()
    }

    /// Whether it is the name of something, a keyword or a number, and no sign.
    #[must_use]
    pub fn is_name(&self) -> bool {
        match self.quote {
            Some(quote) => quote != '\'',
            None => self.text.chars().next().is_some_and(is_of_word),
        }
    }
}

/// The words, quoted texts and signs of a statement without its comments.
#[must_use]
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let plain = |length: usize| (length, Some((rest[..length].to_owned(), None, false)));
        let (length, word) = match first {
            _ if rest.starts_with("--") => (rest.find('\n').unwrap_or(rest.len()), None),
            _ if rest.starts_with("/*") => (rest.find("*/").map_or(rest.len(), |end| end + 2), None),
            '\'' | '"' | '`' => {
                let (length, word, is_open) = quoted(rest, first);
                (length, Some((word, Some(first), is_open)))
            }
            c if c.is_whitespace() => (c.len_utf8(), None),
            c if is_of_word(c) => plain(rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())),
            sign => plain(sign.len_utf8()),
        };
        let place = at..at + length;
        words.extend(word.map(|(text, quote, is_open)| Word { text, quote, is_open, place }));
        at += length;
    }
    words
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// A quoted text at the beginning: its length with quotes, its content, and whether its end is missing. A
/// quote is doubled in it.
fn quoted(text: &str, quote: char) -> (usize, String, bool) {
    let mut content = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            match chars.next_if(|(_, next)| *next == quote) {
                Some(_) => {}
                None => return (at + c.len_utf8(), content, false),
            }
        }
        content.push(c);
    }
    (text.len(), content, true)
}
