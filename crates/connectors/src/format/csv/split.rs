//! Where the fields of a record are.

use memchr::{memchr, memchr_iter};

/// A field within a record: the bytes between its quotes if it has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldRange {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The field stands in quotes.
    pub(crate) quoted: bool,
    /// The field holds doubled quotes that stand for single ones.
    pub(crate) escaped: bool,
}

/// Splits `record` into `fields`; line ends after it do not count.
pub(crate) fn split_fields(record: &[u8], delimiter: u8, fields: &mut Vec<FieldRange>) -> Result<(), String> {
    fields.clear();
    let mut length = record.len();
    while length > 0 && matches!(record[length - 1], b'\n' | b'\r') {
        length -= 1;
    }
    let record = &record[..length];
    if record.is_empty() {
        return Err("the record is empty".into());
    }
    let mut start = 0;
    loop {
        let (field, next) = if record.get(start) == Some(&b'"') {
            quoted_field(record, start, delimiter)?
        } else {
            let end = memchr(delimiter, &record[start..]).map_or(record.len(), |at| start + at);
            (FieldRange { start, end, quoted: false, escaped: false }, end)
        };
        fields.push(field);
        if next >= record.len() {
            return Ok(());
        }
        start = next + 1;
    }
}

/// The field whose opening quote is at `open`, and where its delimiter is.
fn quoted_field(record: &[u8], open: usize, delimiter: u8) -> Result<(FieldRange, usize), String> {
    let start = open + 1;
    let mut escaped = false;
    let mut quotes = memchr_iter(b'"', &record[start..]);
    while let Some(at) = quotes.next() {
        let end = start + at;
        if record.get(end + 1) == Some(&b'"') {
            escaped = true;
            quotes.next();
            continue;
        }
        if record.get(end + 1).is_some_and(|byte| *byte != delimiter) {
            return Err(format!("byte {}: a delimiter should follow the closing quote", end + 1));
        }
        return Ok((FieldRange { start, end, quoted: true, escaped }, end + 1));
    }
    Err(format!("byte {open}: the quote is not closed"))
}

/// A field's bytes with its doubled quotes made single.
pub(crate) fn unquote(field: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let mut rest = field;
    while let Some(at) = memchr(b'"', rest) {
        into.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    into.extend_from_slice(rest);
}
