//! Paths into JSON documents: `$.a.b[0]`, `lax $['a b'][*]`.
//!
//! A path is `strict` unless it says otherwise, as in Flink: a value that is not there is an error, which the
//! function's `ON ERROR` decides. In a `lax` path it is empty.

use std::iter::Peekable;
use std::str::Chars;

/// A path as parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) lax: bool,
    pub(super) steps: Vec<Step>,
}

/// One step from a value to values within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Property(String),
    /// From 0; a negative one counts from the end.
    Index(i64),
    Indices(Vec<i64>),
    /// From a place up to another one, which is left out.
    Slice(Option<i64>, Option<i64>),
    Wildcard,
}

impl Step {
    /// The items that the step chooses of an array of that length.
    pub(super) fn chosen(&self, length: usize) -> impl Iterator<Item = usize> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let indices: Vec<i64> = match self {
            Step::Index(index) => vec![*index],
            Step::Indices(indices) => indices.clone(),
            Step::Slice(from, to) => {
                let from_end = |place: i64| if place < 0 { length + place } else { place };
                // Only a bound that stands alone counts from the end.
                let (from, to) = match (*from, *to) {
                    (Some(from), None) => (from_end(from).max(0), length),
                    (None, Some(to)) => (0, from_end(to)),
                    (from, to) => (from.unwrap_or(0), to.unwrap_or(length)),
                };
                (from.max(-length)..to.min(length)).collect()
            }
            Step::Property(_) | Step::Wildcard => Vec::new(),
        };
        indices.into_iter().filter_map(move |index| {
            let index = if index < 0 { length.checked_add(index)? } else { index };
            usize::try_from(index).ok().filter(|_| index < length)
        })
    }

    fn is_definite(&self) -> bool {
        matches!(self, Step::Property(_) | Step::Index(_))
    }
}

impl Path {
    /// Whether the path selects one value at most; otherwise its result is an array.
    pub(super) fn is_definite(&self) -> bool {
        self.steps.iter().all(Step::is_definite)
    }

    /// Parses a path, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Path, String> {
        let wrong = |what: String| format!("the JSON path '{text}' cannot be used: {what}");
        let (lax, path) = mode(text);
        if path.is_empty() {
            return Err(wrong("it is empty".into()));
        }
        let (rest, implied) = match path.strip_prefix(['$', '@']) {
            Some(rest) => (rest, false),
            None => (path, true),
        };
        let mut rest = rest.chars().peekable();
        let mut steps = Vec::new();
        if implied && rest.peek() != Some(&'[') {
            steps.push(property(&mut rest).map_err(wrong)?);
        }
        while let Some(c) = rest.next() {
            steps.push(
                match c {
                    '.' => property(&mut rest),
                    '[' => bracket(&mut rest),
                    other => Err(format!("'{other}' is not expected here")),
                }
                .map_err(wrong)?,
            );
        }
        Ok(Path { lax, steps })
    }
}

/// Whether the path is lax, and the path without the word.
fn mode(text: &str) -> (bool, &str) {
    let start = text.trim_start();
    for (word, lax) in [("lax", true), ("strict", false)] {
        if let Some((head, rest)) = start.split_at_checked(word.len())
            && head.eq_ignore_ascii_case(word)
            && rest.starts_with(char::is_whitespace)
        {
            return (lax, rest.trim_start());
        }
    }
    (false, text)
}

const SUPPORTED: &str = "use .name, ['name'], [0], [-1], [0,2], [1:3], [*] and .*";

/// What follows a point.
fn property(rest: &mut Peekable<Chars>) -> Result<Step, String> {
    let mut name = String::new();
    while let Some(c) = rest.next_if(|c| !matches!(c, '.' | '[')) {
        match c {
            '(' => return Err(format!("functions such as {name}() are not supported; {SUPPORTED}")),
            ' ' => return Err("a name with blanks is written as ['a b']".into()),
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" if rest.peek() == Some(&'.') => Err(format!(".. is not supported; {SUPPORTED}")),
        "" => Err("a name is missing after '.'".into()),
        "*" => Ok(Step::Wildcard),
        _ => Ok(Step::Property(name)),
    }
}

/// What follows a square bracket, with the closing one.
fn bracket(rest: &mut Peekable<Chars>) -> Result<Step, String> {
    blanks(rest);
    if let Some(quote @ ('\'' | '"')) = rest.peek().copied() {
        rest.next();
        let name = quoted(rest, quote)?;
        blanks(rest);
        return match rest.next() {
            Some(']') => Ok(Step::Property(name)),
            Some(',') => Err(format!("several names in brackets are not supported; {SUPPORTED}")),
            _ => Err("']' is missing".into()),
        };
    }
    let mut inner = String::new();
    loop {
        match rest.next() {
            Some(']') => break,
            Some('?') => return Err(format!("filters are not supported; {SUPPORTED}")),
            Some(c) => inner.push(c),
            None => return Err("']' is missing".into()),
        }
    }
    indices(inner.trim()).ok_or_else(|| format!("[{inner}] is no index; {SUPPORTED}"))
}

fn blanks(rest: &mut Peekable<Chars>) {
    while rest.next_if_eq(&' ').is_some() {}
}

/// A name up to the closing quote; a backslash stands before a quote within it.
fn quoted(rest: &mut Peekable<Chars>, quote: char) -> Result<String, String> {
    let mut name = String::new();
    loop {
        match rest.next() {
            Some('\\') => name.extend(rest.next()),
            Some(c) if c == quote => return Ok(name),
            Some(c) => name.push(c),
            None => return Err(format!("{quote} is missing")),
        }
    }
}

fn indices(text: &str) -> Option<Step> {
    // Java's indices have 32 bits.
    let index = |text: &str| text.trim().parse::<i32>().ok().map(i64::from);
    let bound = |text: &str| if text.trim().is_empty() { Some(None) } else { index(text).map(Some) };
    if text == "*" {
        return Some(Step::Wildcard);
    }
    if let Some((from, to)) = text.split_once(':') {
        let (from, to) = (bound(from)?, bound(to)?);
        return (from.is_some() || to.is_some()).then_some(Step::Slice(from, to));
    }
    if text.contains(',') {
        return text.split(',').map(index).collect::<Option<_>>().map(Step::Indices);
    }
    index(text).map(Step::Index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_or_refused_with_what_to_write() {
        let property = |name: &str| Step::Property(name.to_owned());
        let steps = |text: &str| Path::parse(text).map(|path| (path.lax, path.steps));
        assert_eq!(steps("$"), Ok((false, vec![])));
        assert_eq!(steps(" LAX  $.a[ -1 ]"), Ok((true, vec![property("a"), Step::Index(-1)])));
        assert_eq!(steps("a.b"), Ok((false, vec![property("a"), property("b")])));
        assert_eq!(steps(r"$['it\'s'].*"), Ok((false, vec![property("it's"), Step::Wildcard])));
        assert_eq!(steps("$[0,2][1:]"), Ok((false, vec![Step::Indices(vec![0, 2]), Step::Slice(Some(1), None)])));
        for wrong in
            ["", "lax ", "$.", "$..a", "$.a b", "$x", "$[", "$['a", "$[x]", "$[?(@.a)]", "$.a.length()", " $.a"]
        {
            assert!(Path::parse(wrong).is_err_and(|message| message.contains("cannot be used")), "{wrong}");
        }
    }
}
