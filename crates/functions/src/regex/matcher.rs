//! Which texts of a column match. Most texts of most searches do not: so first a text that each match
//! contains is looked for, in the bytes of many rows at once, and only rows that have it are tried.

use std::hash::{Hash, Hasher};

use arrow::array::{Array, BooleanArray, BooleanBufferBuilder, ByteView, StringViewArray};
use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind, Look};

/// A text of at most this number of bytes is stored in its view.
const INLINE_BYTES: u32 = 12;
/// Bytes between texts that are searched together.
const GAP_BYTES: usize = 16;
/// A shorter text is in too many rows.
const REQUIRED_BYTES: usize = 3;
/// If more than one in this number of rows has the text, the other rows are tried without the search.
const RARE: usize = 4;

/// A search for a regular expression, or for a text.
#[derive(Clone, Debug)]
pub struct Matcher {
    /// `None`: a row with the text matches.
    regex: Option<Regex>,
    case_insensitive: bool,
    /// A text that each match contains.
    required: Option<Finder<'static>>,
}

impl Matcher {
    /// Searches for a regular expression in the dialect of the library.
    ///
    /// # Errors
    ///
    /// The pattern is wrong.
    pub fn regex(pattern: &str, case_insensitive: bool) -> Result<Matcher, regex::Error> {
        let regex = RegexBuilder::new(pattern).case_insensitive(case_insensitive).build()?;
        let mut parser = regex_syntax::ParserBuilder::new().case_insensitive(case_insensitive).build();
        let literal = parser.parse(pattern).ok().filter(|hir| !fails_soon(hir));
        let literal = literal.and_then(|hir| longest(&hir).map(<[u8]>::to_vec));
        let required = literal.filter(|literal| literal.len() >= REQUIRED_BYTES);
        let required = required.map(|literal| Finder::new(&literal).into_owned());
        Ok(Matcher { regex: Some(regex), case_insensitive, required })
    }

    /// Searches for a text.
    #[must_use]
    pub fn containing(text: &str) -> Matcher {
        Matcher { regex: None, case_insensitive: false, required: Some(Finder::new(text).into_owned()) }
    }

    /// The regular expression.
    pub(super) fn as_regex(&self) -> Option<&Regex> {
        self.regex.as_ref()
    }

    /// Which texts match; NULL where there is none.
    #[must_use]
    pub fn matches(&self, texts: &StringViewArray) -> BooleanArray {
        let mut found = BooleanBufferBuilder::new(texts.len());
        found.append_n(texts.len(), false);
        let rest = match &self.required {
            Some(required) => self.search(texts, required, &mut found),
            None => 0,
        };
        (rest..texts.len()).filter(|row| self.is_match(texts, *row)).for_each(|row| found.set_bit(row, true));
        BooleanArray::new(found.finish(), texts.nulls().cloned())
    }

    fn is_match(&self, texts: &StringViewArray, row: usize) -> bool {
        // The bytes of a NULL may be any: its text is empty.
        let text = if texts.is_valid(row) { texts.value(row) } else { "" };
        match (&self.regex, &self.required) {
            (Some(regex), _) => regex.is_match(text),
            (None, Some(required)) => required.find(text.as_bytes()).is_some(),
            (None, None) => false,
        }
    }

    /// Marks the rows that match, up to the one that is returned: beyond it, the text is too frequent.
    fn search(&self, texts: &StringViewArray, required: &Finder<'_>, found: &mut BooleanBufferBuilder) -> usize {
        let views = texts.views();
        let place = |row: usize| {
            let view = ByteView::from(views[row]);
            let from = view.offset as usize;
            (view.length > INLINE_BYTES).then_some((view.buffer_index as usize, from..from + view.length as usize))
        };
        let (mut row, mut tried) = (0, 0);
        while row < views.len() {
            let Some((buffer, first)) = place(row) else {
                found.set_bit(row, self.is_match(texts, row));
                row += 1;
                continue;
            };
            // Rows whose bytes follow each other.
            let (mut end_row, mut end) = (row + 1, first.end);
            while let Some((of, next)) = (end_row < views.len()).then(|| place(end_row)).flatten() {
                if of != buffer || next.start < end || next.start - end > GAP_BYTES {
                    break;
                }
                (end_row, end) = (end_row + 1, next.end);
            }
            let (bytes, mut at) = (&texts.data_buffers()[buffer][..end], first.start);
            let mut current = first;
            while let Some(hit) = required.find(&bytes[at..]).map(|hit| at + hit) {
                while current.end <= hit {
                    row += 1;
                    let Some((_, next)) = place(row) else { break };
                    current = next;
                }
                if hit < current.start || hit + required.needle().len() > current.end {
                    // Between rows, or in two of them.
                    at = hit + 1;
                    continue;
                }
                found.set_bit(row, self.regex.is_none() || self.is_match(texts, row));
                at = current.end;
                tried += 1;
                if tried * RARE > row + 1 + 64 {
                    return row + 1;
                }
            }
            row = end_row;
        }
        views.len()
    }
}

/// Whether most texts are known not to match by how they begin.
fn fails_soon(hir: &Hir) -> bool {
    let HirKind::Concat(parts) = hir.kind() else { return false };
    let may_be_long = |part: &Hir| part.properties().maximum_len().is_none();
    matches!(parts.as_slice(), [begin, first, ..] if matches!(begin.kind(), HirKind::Look(Look::Start)) && !may_be_long(first))
}

/// The longest text that each match contains.
fn longest(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(capture) => longest(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => longest(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(longest).max_by_key(|literal| literal.len()),
        _ => None,
    }
}

/// Matchers are equal if they search for the same.
impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        self.sought() == other.sought()
    }
}

impl Eq for Matcher {}

impl Hash for Matcher {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sought().hash(state);
    }
}

impl Matcher {
    fn sought(&self) -> (Option<&str>, bool, Option<&[u8]>) {
        (self.regex.as_ref().map(Regex::as_str), self.case_insensitive, self.required.as_ref().map(Finder::needle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_contains_the_longest_text_of_its_pattern() {
        let of = |pattern: &str| {
            let matcher = Matcher::regex(pattern, false).expect("a pattern");
            matcher.required.map(|required| String::from_utf8(required.needle().to_vec()).expect("text"))
        };
        assert_eq!(of("timeout after [0-9]+ ms").as_deref(), Some("timeout after "));
        assert_eq!(of("(?s)^(?:.*failed.*at.*)$").as_deref(), Some("failed"));
        assert_eq!(of("(abcd)+x?").as_deref(), Some("abcd"));
        assert_eq!(of("^.*failed").as_deref(), Some("failed"));
        for pattern in ["(abcd)*", "abcd|efgh", "(?i)abcd", "[a-z]+", "ab", "", "^abcd", "(?s)^(?:abcd.*)$"] {
            assert_eq!(of(pattern), None, "{pattern}");
        }
        assert!(Matcher::regex("abcd", true).expect("a pattern").required.is_none());
    }

    /// Whatever the texts and where they lie, each is as if it had been tried alone.
    #[test]
    fn rows_match_as_each_would_alone() {
        let mut rng = numbers(7);
        let parts =
            ["abcd", "ab", "cd", "x", "\u{e9}", " 12 ms", "timeout after ", "-", "a long text without any of it"];
        let matchers = [
            Matcher::regex("timeout after *[0-9]+ ms", false).expect("a pattern"),
            Matcher::regex("abcd.?x", false).expect("a pattern"),
            Matcher::regex("ABCD", true).expect("a pattern"),
            Matcher::regex("^$", false).expect("a pattern"),
            Matcher::containing("abcd"),
            Matcher::containing("-"),
        ];
        for round in 0..400 {
            let often = rng(4);
            let texts: Vec<Option<String>> = (0..rng(40))
                .map(|_| {
                    let text = (0..rng(6)).map(|_| parts[rng(parts.len() - 2 * usize::from(often == 0))]).collect();
                    (rng(9) > 0).then_some(text)
                })
                .collect();
            let all = match round % 3 {
                0 => texts.iter().map(Option::as_deref).collect::<StringViewArray>(),
                // In one buffer, with a byte between them, as lines of a file.
                _ => lines(&texts, if round % 3 == 1 { "\n" } else { "" }),
            };
            let from = rng(all.len() + 1);
            let slice = all.slice(from, rng(all.len() - from + 1));
            for matcher in &matchers {
                let found = matcher.matches(&slice);
                let alone = |text: Option<&str>| {
                    let text = text?;
                    Some(match &matcher.regex {
                        Some(regex) => regex.is_match(text),
                        None => matcher.required.as_ref().is_some_and(|of| of.find(text.as_bytes()).is_some()),
                    })
                };
                assert_eq!(found, slice.iter().map(alone).collect::<BooleanArray>(), "round {round}, {slice:?}");
            }
        }
    }

    fn lines(texts: &[Option<String>], between: &str) -> StringViewArray {
        let mut text = String::new();
        let mut places = Vec::new();
        for of in texts {
            let of = of.as_deref().unwrap_or("abcd of a row that is NULL");
            places.push((text.len(), of.len()));
            text.push_str(of);
            text.push_str(between);
        }
        let views = places.iter().map(|(at, length)| {
            arrow::array::make_view(&text.as_bytes()[*at..at + length], 0, u32::try_from(*at).expect("small"))
        });
        let nulls = texts.iter().map(Option::is_some).collect::<Vec<bool>>();
        let views = views.collect::<Vec<u128>>().into();
        StringViewArray::try_new(views, vec![text.into_bytes().into()], Some(nulls.into())).expect("views")
    }

    /// Numbers below a bound, by chance.
    fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below.max(1)
        }
    }
}
