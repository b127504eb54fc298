//! Parts of URLs as Java's `URL` has them, and the encoding of forms.

use arrow::array::ArrayRef;
use datafusion_common::Result;

use crate::arguments::{Arguments, texts};
use crate::definition::{Definition, Kind, Returns, function};

const PARSE: &[&[Kind]] = &[&[Kind::Text, Kind::Text], &[Kind::Text, Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("parse_url", PARSE, Returns::Text, parse_url).never_fails(),
    function("url_encode", &[&[Kind::Text]], Returns::Text, url_encode).never_fails(),
    function("url_decode", &[&[Kind::Text]], Returns::Text, url_decode).never_fails(),
];

/// A part of a URL, or of its query the value of a key. NULL for what is no URL, and for a part that is not
/// there.
fn parse_url(arguments: &Arguments) -> Result<ArrayRef> {
    let (url, part) = (arguments.text(0), arguments.text(1));
    let key = (arguments.len() > 2).then(|| arguments.text(2));
    texts(arguments, |row, out| {
        let (url, part) = (Url::parse(url.get(row)?), part.get(row)?);
        if let Some(key) = &key {
            let key = key.get(row)?;
            let query = url?.query.filter(|_| part == "QUERY")?;
            let found = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            out.push_str(found?);
            return Some(());
        }
        let url = url?;
        match part {
            "PROTOCOL" => out.extend(url.protocol.chars().map(|c| c.to_ascii_lowercase())),
            "AUTHORITY" => out.push_str(url.authority?),
            "USERINFO" => out.push_str(url.user?),
            "HOST" => out.push_str(url.host),
            "QUERY" => out.push_str(url.query?),
            "REF" => out.push_str(url.reference?),
            "PATH" | "FILE" => {
                out.push_str(url.path);
                if let Some(query) = url.query.filter(|_| part == "FILE") {
                    out.push('?');
                    out.push_str(query);
                }
            }
            _ => return None,
        }
        Some(())
    })
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Url<'a> {
    protocol: &'a str,
    authority: Option<&'a str>,
    user: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    reference: Option<&'a str>,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c <= ' ');
        let (protocol, rest) = text.split_once(':')?;
        let known = ["http", "https", "ftp", "file", "mailto"];
        if !known.iter().any(|known| known.eq_ignore_ascii_case(protocol)) {
            return None;
        }
        let (rest, reference) = divide(rest, '#');
        let (rest, query) = divide(rest, '?');
        let mut url = Url { protocol, path: rest, query, reference, ..Url::default() };
        let Some(rest) = rest.strip_prefix("//") else { return Some(url) };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        (url.authority, url.path, url.host) = (Some(authority), path, authority);
        if let Some((user, host)) = authority.split_once('@') {
            (url.user, url.host) = if host.contains('@') { (None, "") } else { (Some(user), host) };
        }
        let port_from = if url.host.starts_with('[') { url.host.find(']')? + 1 } else { 0 };
        if let Some(colon) = url.host[port_from..].find(':') {
            let port = &url.host[port_from + colon + 1..];
            if !port.is_empty() && port.parse::<u32>().is_err() {
                return None;
            }
            url.host = &url.host[..port_from + colon];
        }
        Some(url)
    }
}

fn divide(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn url_encode(arguments: &Arguments) -> Result<ArrayRef> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let text = arguments.text(0);
    texts(arguments, |row, out| {
        for byte in text.get(row)?.bytes() {
            match byte {
                b' ' => out.push('+'),
                b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
                byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
                byte => {
                    let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
                    out.push('%');
                    out.extend(digits.map(char::from));
                }
            }
        }
        Some(())
    })
}

/// NULL where `%` is not followed by two digits. Bytes that are no text are shown as U+FFFD.
fn url_decode(arguments: &Arguments) -> Result<ArrayRef> {
    let text = arguments.text(0);
    let mut bytes = Vec::new();
    texts(arguments, |row, out| {
        bytes.clear();
        let mut rest = text.get(row)?.bytes();
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => digit(rest.next())? << 4 | digit(rest.next())?,
                other => other,
            });
        }
        out.push_str(&String::from_utf8_lossy(&bytes));
        Some(())
    })
}
