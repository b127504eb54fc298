//! A URL with places for the values of columns: `http://host/users/{id}`.

use std::fmt;

use anabranch_model::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// Pieces of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<UrlPart>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UrlPart {
    Text(String),
    Column(String),
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Template> {
        let wrong = |what: &str| {
            Error::user(format!("option 'url' {what}"))
                .remedy("write 'http://host:port/path', and {column} where the value of a column belongs")
        };
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (column, after) = after.split_once('}').ok_or_else(|| wrong("has a { without a }"))?;
            pieces.extend([UrlPart::Text(before.to_owned()), UrlPart::Column(column.to_owned())]);
            rest = after;
        }
        pieces.push(UrlPart::Text(rest.to_owned()));
        let template = Template { pieces };
        let url = template.filled(|_| Some("0")).ok_or_else(|| wrong("is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("begins with neither http:// nor https://"));
        }
        let host_ends = text.find("://").map_or(0, |at| at + 3);
        let host_ends = text[host_ends..].find('/').map_or(text.len(), |at| at + host_ends);
        if text[..host_ends].contains('{') {
            return Err(wrong("has a column in the name of its host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                Error::user("option 'url' has a user or a password").remedy("use 'token', or 'header.Authorization'")
            );
        }
        Ok(template)
    }

    /// The columns whose values it contains.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            UrlPart::Column(name) => Some(name.as_str()),
            UrlPart::Text(_) => None,
        })
    }

    /// The URL for these values. `None`: the result is no URL.
    pub(super) fn filled<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Option<Url> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                UrlPart::Text(piece) => text.push_str(piece),
                UrlPart::Column(name) => escape(value(name)?, &mut text),
            }
        }
        Url::parse(&text).ok()
    }

    /// Whether each path segment with a value is a plain name. An empty segment, `.` or `..` would lead to
    /// another resource.
    pub(super) fn is_named<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        let (mut segment, mut has_value) = (String::new(), false);
        for piece in &self.pieces {
            match piece {
                UrlPart::Column(name) => {
                    escape(value(name).unwrap_or_default(), &mut segment);
                    has_value = true;
                }
                UrlPart::Text(text) => {
                    let path_ends = text.find(['?', '#']);
                    let path = &text[..path_ends.unwrap_or(text.len())];
                    for (index, part) in path.split(['/', '\\']).enumerate() {
                        if index > 0 {
                            if has_value && is_dots(&segment) {
                                return false;
                            }
                            (segment, has_value) = (String::new(), false);
                        }
                        segment.push_str(part);
                    }
                    if path_ends.is_some() {
                        break;
                    }
                }
            }
        }
        !(has_value && is_dots(&segment))
    }
}

/// Whether URLs drop this path segment, or it is empty.
fn is_dots(segment: &str) -> bool {
    matches!(segment.replace("%2E", ".").replace("%2e", ".").as_str(), "" | "." | "..")
}

/// Escapes a value for a path and a query.
fn escape(value: &str, out: &mut String) {
    const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    out.extend(utf8_percent_encode(value, ESCAPED));
}

impl fmt::Display for Template {
    /// Omits the query, which may contain a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                UrlPart::Text(text) => match text.split_once('?') {
                    Some((before, _)) => return f.write_str(before),
                    None => f.write_str(text)?,
                },
                UrlPart::Column(name) => write!(f, "{{{name}}}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_value_whatever_it_contains() {
        let template = Template::parse("https://h:8443/users/{id}/of?region={region}&secret=x").expect("a url");
        assert_eq!(template.columns().collect::<Vec<_>>(), ["id", "region"]);
        let value = |name: &str| Some(if name == "id" { "a/../b?c#%" } else { "ü &=1" });
        let url = template.filled(value).expect("a url");
        assert_eq!(url.as_str(), "https://h:8443/users/a%2F..%2Fb%3Fc%23%25/of?region=%C3%BC%20%26%3D1&secret=x");
        assert_eq!(template.to_string(), "https://h:8443/users/{id}/of", "without the query");
        assert!(template.filled(|_| None).is_none());
    }

    #[test]
    fn a_value_that_leads_to_another_resource_is_no_name() {
        let is_named = |url: &str, value: &str| Template::parse(url).expect("a url").is_named(|_| Some(value));
        for url in ["http://h/users/{id}", "http://h/users/{id}/of", "http://h/users/{id}?x=1"] {
            for value in ["", ".", ".."] {
                assert!(!is_named(url, value), "{url}: '{value}'");
            }
            for value in ["...", "a", ".a", "%2E", "/"] {
                assert!(is_named(url, value), "{url}: '{value}'");
            }
        }
        assert!(!is_named("http://h/users/%2e{id}/of", "."));
        assert!(is_named("http://h/users/a{id}", ""));
        assert!(is_named("http://h/users/?id={id}&x={id}", ""), "in the query");
    }

    #[test]
    fn what_is_no_url_of_a_service_is_refused() {
        for (text, expected) in [
            ("users/{id}", "is no URL"),
            ("ftp://h/{id}", "neither http:// nor https://"),
            ("http://{host}/users", "name of its host"),
            ("http://h/{id", "a { without a }"),
            ("http://me:pw@h/", "a user or a password"),
        ] {
            let error = Template::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
