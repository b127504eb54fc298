//! Searches for a pattern by hand: line by line like a filter, and over the whole text like grep programs.

use anabranch_model::{Error, Result};
use regex::bytes::Regex;

use crate::answer::Answer;
use crate::contestant::RunResult;
use crate::workload::{LogLines, PATTERN};

/// The compiled pattern.
pub(crate) fn pattern() -> Result<Regex> {
    Regex::new(PATTERN).map_err(|error| Error::internal(format!("pattern: {error}")))
}

/// Each line separately.
pub(crate) fn by_line(log: &LogLines) -> Result<RunResult> {
    let regex = pattern()?;
    let text = log.text.bytes();
    let mut answer = Answer::default();
    let (mut events, mut start) = (0, 0);
    for end in memchr::memchr_iter(b'\n', text) {
        let line = &text[start..end];
        if regex.is_match(line) {
            answer.add_line(line);
        }
        start = end + 1;
        events += 1;
    }
    Ok(RunResult { events, result_hash: Some(answer.hash()) })
}

/// The whole text: line ends are searched for only around matches. The pattern matches no newline.
pub(crate) fn whole(log: &LogLines) -> Result<RunResult> {
    let regex = pattern()?;
    let text = log.text.bytes();
    let mut answer = Answer::default();
    let mut at = 0;
    while let Some(found) = regex.find_at(text, at) {
        let start = memchr::memrchr(b'\n', &text[..found.start()]).map_or(0, |n| n + 1);
        let end = memchr::memchr(b'\n', &text[found.end()..]).map_or(text.len(), |n| found.end() + n);
        answer.add_line(&text[start..end]);
        at = end;
    }
    Ok(RunResult { events: log.text.count(), result_hash: Some(answer.hash()) })
}
