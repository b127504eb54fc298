//! JSON values as texts: scalars without their quotes and escapes, arrays and objects without blanks and with
//! their keys in order. Numbers are written as Java writes them.

use std::cmp::Ordering;
use std::fmt::Write;

use super::scan::{Kind, Malformed, Scanner, kind};

/// The characters of a text between quotes, its escapes resolved. Half a character of UTF-16 is shown as `?`.
fn characters(raw: &str) -> impl Iterator<Item = char> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let c = rest.chars().next()?;
        if c != '\\' {
            rest = &rest[c.len_utf8()..];
            return Some(c);
        }
        let escape = *rest.as_bytes().get(1)?;
        if escape != b'u' {
            rest = &rest[2..];
            return Some(match escape {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                other => char::from(other),
            });
        }
        let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
        let first = unit(rest)?;
        rest = &rest[6..];
        let pair = [first, unit(rest).unwrap_or(0)];
        match char::decode_utf16(pair).next()? {
            Ok(c) => {
                if c.len_utf16() == 2 {
                    rest = &rest[6..];
                }
                Some(c)
            }
            Err(_) => Some('?'),
        }
    })
}

/// Whether a key, as it is written, is that name.
pub(super) fn same_key(raw: &str, name: &str) -> bool {
    if raw.contains('\\') { characters(raw).eq(name.chars()) } else { raw == name }
}

/// A key as it is written, in the order of its UTF-16 units, as in Java.
#[derive(Clone, Copy, Default)]
pub(super) struct Key<'a>(pub(super) &'a str);

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let plain = |text: &str| text.is_ascii() && !text.contains('\\');
        if plain(self.0) && plain(other.0) {
            return self.0.cmp(other.0);
        }
        let units = |raw| characters(raw).flat_map(|c| c.encode_utf16(&mut [0; 2]).to_vec());
        units(self.0).cmp(units(other.0))
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key<'_> {}

/// What is between the quotes of a text, if it is one.
fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Appends a scalar: a text without quotes.
pub(super) fn scalar(value: &str, out: &mut String) {
    match unquoted(value) {
        Some(raw) if raw.contains('\\') => out.extend(characters(raw)),
        Some(raw) => out.push_str(raw),
        None if kind(value) == Kind::Scalar && !value.starts_with(['t', 'f']) => number(value, out),
        None => out.push_str(value),
    }
}

/// Appends a comma, unless the array or object has just begun.
pub(super) fn comma(out: &mut String) {
    if !out.ends_with(['[', '{']) {
        out.push(',');
    }
}

/// Appends a text in quotes.
pub(super) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    text.chars().for_each(|c| escaped(c, out));
    out.push('"');
}

fn escaped(c: char, out: &mut String) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // Writing into a text does not fail.
        c if c < ' ' => {
            let _ = write!(out, "\\u{:04X}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Appends a text in quotes, with escapes for all that is not ASCII: one for each character, and one for its
/// second half in UTF-16.
pub(super) fn ascii_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '/' => out.push_str("\\/"),
            c if c.is_ascii() => escaped(c, out),
            c => {
                let mut units = [0; 2];
                let second = c.encode_utf16(&mut units).get(1).copied();
                for code in std::iter::once(u32::from(c)).chain(second.map(u32::from)) {
                    let _ = write!(out, "\\u{code:04x}");
                }
            }
        }
    }
    out.push('"');
}

fn string(raw: &str, out: &mut String) {
    out.push('"');
    match raw.contains('\\') {
        true => characters(raw).for_each(|c| escaped(c, out)),
        false => out.push_str(raw),
    }
    out.push('"');
}

/// A value of a document, in the order in which the document has them.
#[derive(Clone, Copy)]
struct Node<'a> {
    kind: Kind,
    /// Of a scalar.
    text: &'a str,
    /// Of a member of an object.
    key: Key<'a>,
    /// The node that follows the last one within this value.
    end: usize,
}

/// Appends values without blanks. It reads each value once, however deep the value is.
#[derive(Default)]
pub(super) struct Writer<'a> {
    nodes: Vec<Node<'a>>,
    /// The members of the objects that are being written.
    members: Vec<usize>,
}

impl<'a> Writer<'a> {
    /// Appends a value.
    pub(super) fn value(&mut self, value: &'a str, out: &mut String) -> Result<(), Malformed> {
        self.nodes.clear();
        self.read(&mut Scanner::new(value), Key::default())?;
        self.write(0, out);
        Ok(())
    }

    fn read(&mut self, scanner: &mut Scanner<'a>, key: Key<'a>) -> Result<(), Malformed> {
        let index = self.nodes.len();
        self.nodes.push(Node { kind: Kind::Scalar, text: "", key, end: 0 });
        let kind = match scanner.next()? {
            b'{' => {
                scanner.members(|scanner, key| self.read(scanner, Key(key)))?;
                Kind::Object
            }
            b'[' => {
                scanner.items(|scanner, _| self.read(scanner, Key::default()))?;
                Kind::Array
            }
            _ => {
                self.nodes[index].text = scanner.value()?;
                Kind::Scalar
            }
        };
        let end = self.nodes.len();
        let node = &mut self.nodes[index];
        (node.kind, node.end) = (kind, end);
        Ok(())
    }

    fn write(&mut self, index: usize, out: &mut String) {
        let Node { kind, text, end, .. } = self.nodes[index];
        match kind {
            Kind::Array => self.array(index + 1, end, out),
            Kind::Object => self.object(index + 1, end, out),
            Kind::Null | Kind::Scalar => match unquoted(text) {
                Some(raw) => string(raw, out),
                None => scalar(text, out),
            },
        }
    }

    fn array(&mut self, start: usize, end: usize, out: &mut String) {
        out.push('[');
        let mut item = start;
        while item < end {
            comma(out);
            self.write(item, out);
            item = self.nodes[item].end;
        }
        out.push(']');
    }

    fn object(&mut self, start: usize, end: usize, out: &mut String) {
        let own = self.members.len();
        let mut member = start;
        while member < end {
            self.members.push(member);
            member = self.nodes[member].end;
        }
        self.members[own..].sort_by_key(|member| self.nodes[*member].key);
        out.push('{');
        for place in own..self.members.len() {
            let member = self.members[place];
            let key = self.nodes[member].key;
            // The last one of equal keys counts.
            if self.members.get(place + 1).is_some_and(|next| self.nodes[*next].key == key) {
                continue;
            }
            comma(out);
            string(key.0, out);
            out.push(':');
            self.write(member, out);
        }
        self.members.truncate(own);
        out.push('}');
    }
}

/// Appends a number: a whole one as it is, others as Java writes decimals, `1.50`, `1E+3`, `1.2E-10`.
pub(super) fn number(text: &str, out: &mut String) {
    if !text.contains(['.', 'e', 'E']) {
        out.push_str(if text == "-0" { "0" } else { text });
        return;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let length = |text: &str| i64::try_from(text.len()).unwrap_or(i64::MAX);
    let scale = length(fraction) - exponent.parse::<i64>().unwrap_or(0);
    let all = || whole.bytes().chain(fraction.bytes()).map(char::from);
    let zeros = all().take_while(|digit| *digit == '0').count().min(whole.len() + fraction.len() - 1);
    let digits = || all().skip(zeros);
    let count = length(whole) + length(fraction) - i64::try_from(zeros).unwrap_or(0);
    if digits().any(|digit| digit != '0') {
        out.push_str(sign);
    }
    // The exponent if one digit is before the point.
    let adjusted = count - 1 - scale;
    if scale == 0 {
        out.extend(digits());
    } else if scale > 0 && adjusted >= -6 {
        let before = count - scale;
        if before <= 0 {
            out.push_str("0.");
            (before..0).for_each(|_| out.push('0'));
            out.extend(digits());
        } else {
            for (index, digit) in (0..).zip(digits()) {
                if index == before {
                    out.push('.');
                }
                out.push(digit);
            }
        }
    } else {
        for (index, digit) in digits().enumerate() {
            if index == 1 {
                out.push('.');
            }
            out.push(digit);
        }
        if adjusted != 0 {
            let _ = write!(out, "E{adjusted:+}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_java_writes_them() {
        for (given, expected) in [
            ("12", "12"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("1.50", "1.50"),
            ("1e3", "1E+3"),
            ("-1.5e3", "-1.5E+3"),
            ("1.50e+30", "1.50E+30"),
            ("123e-2", "1.23"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-12.5E-3", "-0.0125"),
            ("0e5", "0E+5"),
            ("0.00", "0.00"),
            ("1e0", "1"),
        ] {
            let mut out = String::new();
            number(given, &mut out);
            assert_eq!(out, expected, "{given}");
        }
    }

    #[test]
    fn objects_are_written_in_the_order_of_their_keys() {
        let mut out = String::new();
        let given = r#"{ "é" : 1, "b":[ 1 , {"y":1,"x":"a\u0062\n"} ], "a":0, "\u0061":2, "\ud83d\ude00":3, "ﾮ":4 }"#;
        assert_eq!(Writer::default().value(given.trim(), &mut out), Ok(()));
        assert_eq!(out, r#"{"a":2,"b":[1,{"x":"ab\n","y":1}],"é":1,"😀":3,"ﾮ":4}"#);
    }

    #[test]
    fn a_deep_document_is_read_once() {
        let text = "x".repeat(1 << 20);
        let given = format!("{}\"{text}\"{}", "[{\"a\":".repeat(400), "}]".repeat(400));
        let mut out = String::new();
        assert_eq!(Writer::default().value(&given, &mut out), Ok(()));
        assert!(out == given);
    }
}
