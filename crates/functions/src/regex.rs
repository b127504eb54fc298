//! Regular expressions in Java's dialect. Constructs that the library lacks (look-around, back references,
//! possessive quantifiers) are refused. `$` matches at the very end only, even if a line break is last.

mod java;
mod matcher;
mod split;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion_common::Result;
use regex::Regex;

use self::java::Refusal;
pub use self::matcher::Matcher;
pub(crate) use self::split::Separator;
use crate::arguments::{Arguments, try_booleans, try_primitives, try_texts};
use crate::array::build;
use crate::array::types::list_of;
use crate::definition::{Definition, Kind, Returns, failure, function};
use crate::pad::Limit;

const EXTRACT: &[&[Kind]] = &[&[Kind::Text, Kind::Text], &[Kind::Text, Kind::Text, Kind::Integer]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("regexp", &[&[Kind::Text, Kind::Text]], Returns::Boolean, regexp).fails_if(|call| !call.is_constant(1)),
    function("regexp_extract", EXTRACT, Returns::Text, extract).fails_if(|call| !call.is_constant(1)),
    function("regexp_replace", &[&[Kind::Text, Kind::Text, Kind::Text]], Returns::Text, replace)
        .fails_if(|call| !call.is_constant(1) || !call.is_short(2)),
    function("regexp_extract_all", EXTRACT, Returns::Of(|_| Ok(list_of(DataType::Utf8View))), extract_all)
        .fails_if(|call| !call.is_constant(1)),
    function("regexp_instr", &[&[Kind::Text, Kind::Text]], Returns::Int, instr).fails_if(|call| !call.is_constant(1)),
    function("regexp_substr", &[&[Kind::Text, Kind::Text]], Returns::Text, substr)
        .fails_if(|call| !call.is_constant(1)),
    function("regexp_count", &[&[Kind::Text, Kind::Text]], Returns::Int, count).fails_if(|call| !call.is_constant(1)),
];

/// Number of compiled patterns that a thread keeps.
const PATTERNS: usize = 64;

thread_local! {
    /// Compiled patterns by their texts. A pattern is usually a constant, and compiling one costs more than a
    /// batch.
    static COMPILED: RefCell<BTreeMap<String, Pattern>> = const { RefCell::new(BTreeMap::new()) };
}

/// A compiled pattern; `None` if it is wrong in Java too.
type Pattern = Option<Rc<Matcher>>;

/// Whether a regular expression in Java's dialect can be used. One that is wrong in Java too can: functions
/// have an answer.
///
/// # Errors
///
/// Names the pattern, and what of it is not supported.
pub fn check_regex(pattern: &str) -> std::result::Result<(), String> {
    build(pattern).map(|_| ())
}

/// Whether the library reads a regular expression in its own dialect.
///
/// # Errors
///
/// What is wrong with the pattern.
pub fn check_library_regex(pattern: &str) -> std::result::Result<(), String> {
    Regex::new(pattern).map(|_| ()).map_err(|error| reason(&error))
}

fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

fn build(pattern: &str) -> std::result::Result<Pattern, String> {
    let refused = |what: &str| {
        let remedy = "look-around, back references and possessive quantifiers are not supported";
        format!("the regular expression '{pattern}' cannot be used: {what}; {remedy}")
    };
    let translated = match java::translate(pattern) {
        Ok(translated) => translated,
        Err(Refusal::Wrong) => return Ok(None),
        Err(Refusal::Unsupported(what)) => return Err(refused(&what)),
    };
    match Matcher::regex(&translated, false) {
        Ok(matcher) => Ok(Some(Rc::new(matcher))),
        Err(_) if is_wrong(&translated) => Ok(None),
        Err(error) => Err(refused(&reason(&error))),
    }
}

/// Whether a pattern has an error that is one in Java too.
fn is_wrong(pattern: &str) -> bool {
    use regex_syntax::ast::ErrorKind::{
        ClassRangeInvalid, ClassUnclosed, GroupUnclosed, GroupUnopened, RepetitionCountDecimalEmpty,
        RepetitionCountInvalid, RepetitionCountUnclosed, RepetitionMissing,
    };
    regex_syntax::ast::parse::Parser::new().parse(pattern).is_err_and(|error| {
        matches!(
            error.kind(),
            ClassRangeInvalid
                | ClassUnclosed
                | GroupUnclosed
                | GroupUnopened
                | RepetitionCountDecimalEmpty
                | RepetitionCountInvalid
                | RepetitionCountUnclosed
                | RepetitionMissing
        )
    })
}

fn compile(pattern: &str) -> Result<Pattern> {
    if let Some(known) = COMPILED.with_borrow(|compiled| compiled.get(pattern).cloned()) {
        return Ok(known);
    }
    let regex = build(pattern).map_err(failure)?;
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= PATTERNS {
            compiled.clear();
        }
        compiled.insert(pattern.to_owned(), regex.clone());
    });
    Ok(regex)
}

/// The pattern of the last row, which is usually that of the next row.
#[derive(Default)]
struct Last(Option<(String, Pattern)>);

impl Last {
    fn get(&mut self, pattern: &str) -> Result<Option<&Regex>> {
        if self.0.as_ref().is_none_or(|last| last.0 != pattern) {
            self.0 = Some((pattern.to_owned(), compile(pattern)?));
        }
        Ok(self.0.as_ref().and_then(|last| last.1.as_deref()?.as_regex()))
    }
}

/// Whether the pattern matches anywhere. An empty pattern, and a wrong one, match nothing.
fn regexp(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, pattern, mut last) = (arguments.text(0), arguments.text(1), Last::default());
    if arguments.is_constant(1)
        && !arguments.is_constant(0)
        && let Some(pattern) = pattern.get(0).filter(|of| !of.is_empty())
        && let Some(matcher) = compile(pattern)?
    {
        return Ok(Arc::new(matcher.matches(arguments.array(0).as_string_view())));
    }
    try_booleans(arguments.rows, |row| {
        let (Some(text), Some(pattern)) = (text.get(row), pattern.get(row)) else { return Ok(None) };
        Ok(Some(!pattern.is_empty() && last.get(pattern)?.is_some_and(|regex| regex.is_match(text))))
    })
}

/// A group of the first match, or the whole match; NULL if there is none, or if the pattern is wrong.
fn extract(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, pattern, mut last) = (arguments.text(0), arguments.text(1), Last::default());
    let group = arguments.integer_or(2, 0);
    try_texts(arguments, |row, out| {
        let (Some(text), Some(pattern), Some(group)) = (text.get(row), pattern.get(row), group.get(row)) else {
            return Ok(None);
        };
        let Ok(group) = usize::try_from(group) else { return Ok(None) };
        let captures = last.get(pattern)?.and_then(|regex| regex.captures(text));
        Ok(captures.and_then(|captures| captures.get(group)).map(|part| out.push_str(part.as_str())))
    })
}

/// A group of each match; NULL if the pattern is wrong or has no such group. A group that has no part in a
/// match is NULL.
fn extract_all(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, pattern, mut last) = (arguments.text(0), arguments.text(1), Last::default());
    let group = arguments.integer_or(2, 1);
    build::try_texts(arguments, |row, parts| {
        let (Some(text), Some(pattern), Some(group)) = (text.get(row), pattern.get(row), group.get(row)) else {
            return Ok(None);
        };
        let Some(regex) = last.get(pattern)? else { return Ok(None) };
        let Some(group) = usize::try_from(group).ok().filter(|group| *group < regex.captures_len()) else {
            return Ok(None);
        };
        each_match(regex, text, |start, _| {
            let captures = regex.captures_at(text, start);
            parts.append_option(captures.and_then(|captures| captures.get(group)).map(|part| part.as_str()));
            Ok(())
        })?;
        Ok(Some(()))
    })
}

/// The place of the first match, in UTF-16 units from 1; 0 if there is none. NULL if the pattern is wrong.
fn instr(arguments: &Arguments) -> Result<ArrayRef> {
    number(arguments, |regex, text| {
        let place = |at: usize| i32::try_from(text[..at].encode_utf16().count() + 1).unwrap_or(i32::MAX);
        Ok(regex.find(text).map_or(0, |found| place(found.start())))
    })
}

/// A number for each text and its pattern. NULL if the pattern is wrong.
fn number(arguments: &Arguments, of: impl Fn(&Regex, &str) -> Result<i32>) -> Result<ArrayRef> {
    let (text, pattern, mut last) = (arguments.text(0), arguments.text(1), Last::default());
    try_primitives::<Int32Type>(arguments.rows, |row| {
        let (Some(text), Some(pattern)) = (text.get(row), pattern.get(row)) else { return Ok(None) };
        last.get(pattern)?.map(|regex| of(regex, text)).transpose()
    })
}

/// The first match; NULL if there is none, or if the pattern is wrong.
fn substr(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, pattern, mut last) = (arguments.text(0), arguments.text(1), Last::default());
    try_texts(arguments, |row, out| {
        let (Some(text), Some(pattern)) = (text.get(row), pattern.get(row)) else { return Ok(None) };
        let found = last.get(pattern)?.and_then(|regex| regex.find(text));
        Ok(found.map(|found| out.push_str(found.as_str())))
    })
}

/// Calls `found` with the bounds of each match. An empty match may directly follow another match, as in Java.
fn each_match(regex: &Regex, text: &str, mut found: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
    let mut from = 0;
    while let Some(hit) = regex.find_at(text, from) {
        found(hit.start(), hit.end())?;
        from = hit.end();
        if hit.is_empty() {
            let Some(next) = text[from..].chars().next() else { break };
            from += next.len_utf8();
        }
    }
    Ok(())
}

/// Replaces every match by the literal replacement. NULL if the pattern is wrong.
fn replace(arguments: &Arguments) -> Result<ArrayRef> {
    let (text, pattern, new) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let mut last = Last::default();
    try_texts(arguments, |row, out| {
        let (Some(text), Some(pattern), Some(new)) = (text.get(row), pattern.get(row), new.get(row)) else {
            return Ok(None);
        };
        let Some(regex) = last.get(pattern)? else { return Ok(None) };
        let limit = Limit::new("REGEXP_REPLACE", text.len() + new.len());
        let mut rest = 0;
        each_match(regex, text, |start, end| {
            out.push_str(&text[rest..start]);
            out.push_str(new);
            rest = end;
            limit.check(out)
        })?;
        out.push_str(&text[rest..]);
        Ok(Some(()))
    })
}

fn count(arguments: &Arguments) -> Result<ArrayRef> {
    number(arguments, |regex, text| {
        let mut count = 0;
        each_match(regex, text, |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    })
}
