//! Values that must not be shown: those of options that hold secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// Parts of the names of options that hold secrets.
const SECRET_WORDS: [&str; 12] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "jaas",
    "credential",
    "key.pem",
    "keystore.key",
    "access-key",
    "authorization",
    "api-key",
    "cookie",
];

/// Shorter secrets are hidden only if they are alone in quotes: elsewhere they may be part of any word.
const LONG_BYTES: usize = 4;

/// Whether an option of this name holds a secret. Any header of a request may.
#[must_use]
pub fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    option.starts_with("header.") || SECRET_WORDS.iter().any(|word| option.contains(word))
}

/// The secrets within a value that is none itself: `jdbc:db://user:SECRET@host`, `a=b&password=SECRET`.
/// In doubt, a part of the value counts as a secret.
fn secrets_within(value: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if let Some((before, _)) = value.rsplit_once('@') {
        let login = match before.split_once("//") {
            Some((_, login)) => login,
            None => before.strip_prefix("jdbc:").and_then(|rest| rest.split_once(':')).map_or("", |(_, login)| login),
        };
        found.extend(login.split_once(':').map(|(_, secret)| secret));
    }
    for (at, _) in value.match_indices('=') {
        let name = value[..at].rsplit(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))).next();
        if name.is_some_and(is_secret) {
            let rest = value[at + 1..].trim_start();
            let quoted = rest.strip_prefix('"').unwrap_or(rest);
            found
                .extend([rest.split('&').next(), quoted.split(['&', ';', ',', ' ', '"']).next()].into_iter().flatten());
        }
    }
    found.retain(|secret| !secret.is_empty());
    found
}

/// A value without the secrets within it.
fn without_secrets(value: &str) -> String {
    let mut secrets = secrets_within(value);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(value.to_owned(), |value, secret| value.replace(secret, "***"))
}

/// Options for `Debug`, without secrets.
pub struct Shown<'a>(pub &'a BTreeMap<String, String>);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, shown_value(name, value)))).finish()
    }
}

/// What stands for a secret begins and ends so, with its number between.
const MARK: (&str, &str) = ("***secret ", "***");

/// A secret of a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Secret {
    text: String,
    /// The option whose value it is, or is a part of.
    option: String,
}

/// A text with marks in the places of secrets.
#[derive(Debug)]
pub struct MarkedText {
    /// The text.
    pub text: String,
    /// In their order.
    replaced: Vec<Replaced>,
}

/// The bytes of a secret in a text, and those of its mark in the text with marks.
#[derive(Debug)]
struct Replaced {
    secret: Range<usize>,
    mark: Range<usize>,
}

impl MarkedText {
    /// Where a part of the text without marks is: its bytes. A mark is in it or not as a whole.
    #[must_use]
    pub fn part(&self, part: Range<usize>) -> Range<usize> {
        let place = |at: usize, is_end: bool| {
            let before = self.replaced.partition_point(|of| of.secret.start < at);
            match before.checked_sub(1).map(|last| &self.replaced[last]) {
                Some(Replaced { secret, mark }) if at < secret.end => {
                    if is_end {
                        mark.end
                    } else {
                        mark.start
                    }
                }
                Some(Replaced { secret, mark }) => mark.end + (at - secret.end),
                None => at,
            }
        };
        place(part.start, false)..place(part.end, true)
    }
}

/// The secrets in a text of SQL or in the options of a table: values of options that hold some, and parts of
/// other options' values.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    /// Finds secrets. The text need not be well formed: the error to show may be a missing quote.
    #[must_use]
    pub fn of_sql(sql: &str) -> Secrets {
        // A value may have in it what begins a comment elsewhere, and a comment may have a quote in it.
        let mut secrets = Secrets::quoted(sql);
        secrets.extend(Secrets::quoted(&without_comments(sql)));
        Secrets::sorted(secrets)
    }

    /// Those of a text without comments.
    fn quoted(sql: &str) -> Vec<Secret> {
        let parts: Vec<&str> = sql.split('\'').collect();
        let mut secrets = Vec::new();
        let of = |option: &str, text: &str| Secret { text: text.to_owned(), option: option.to_owned() };
        for place in (1..parts.len()).filter(|place| parts[place - 1].trim() == "=") {
            let option = place.checked_sub(2).map_or("", |name| parts[name]);
            // Two quotes within a value stand for one.
            let more = parts[place + 1..].chunks_exact(2).take_while(|more| more[0].is_empty()).map(|more| more[1]);
            let pieces: Vec<&str> = std::iter::once(parts[place]).chain(more).collect();
            for quote in ["''", "'"] {
                secrets.extend(secrets_within(&pieces.join(quote)).into_iter().map(|secret| of(option, secret)));
            }
        }
        for (place, name) in parts.iter().enumerate() {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
            let follows = parts.get(place + 1).is_some_and(|between| matches!(between.trim(), "=" | ""));
            if !(is_name && is_secret(name) && follows) {
                continue;
            }
            let mut value = place + 2;
            while let Some(piece) = parts.get(value) {
                secrets.extend(lines(piece).map(|line| of(name, line)));
                // Two quotes within a value stand for one.
                if parts.get(value + 1).is_none_or(|next| !next.is_empty()) {
                    break;
                }
                value += 2;
            }
        }
        secrets
    }

    /// Finds those of a table.
    #[must_use]
    pub fn of_options(options: &BTreeMap<String, String>) -> Secrets {
        let found = options.iter().flat_map(|(option, value)| {
            let texts: Vec<&str> = if is_secret(option) { lines(value).collect() } else { secrets_within(value) };
            texts.into_iter().map(|text| Secret { text: text.to_owned(), option: option.clone() })
        });
        Secrets::sorted(found.collect())
    }

    /// A secret may contain another one.
    fn sorted(mut secrets: Vec<Secret>) -> Secrets {
        secrets.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Secrets(secrets)
    }

    /// The text with a mark in the place of each secret, which [`Secrets::unmarked`] replaces by the secret:
    /// for a text that is shown, edited, and sent back.
    #[must_use]
    pub fn marked(&self, text: &str) -> MarkedText {
        let mut out = String::with_capacity(text.len());
        let mut replaced = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let begins = |(_, secret): &(usize, &Secret)| {
                let is_alone = || out.ends_with('\'') && rest[secret.text.len()..].starts_with('\'');
                rest.starts_with(&secret.text) && (secret.text.len() >= LONG_BYTES || is_alone())
            };
            // The longest comes first. Of several options with one secret, that of this place.
            let mut found = self.0.iter().enumerate().filter(begins).peekable();
            let longest = found.peek().map(|(_, secret)| secret.text.len());
            let best = longest.and_then(|longest| {
                let option = option_before(&out);
                let option = option.as_deref();
                let longest = found.filter(|(_, secret)| secret.text.len() == longest);
                longest
                    .max_by_key(|(number, secret)| (Some(secret.option.as_str()) == option, std::cmp::Reverse(*number)))
            });
            match best {
                Some((number, secret)) => {
                    let (at, mark) = (text.len() - rest.len(), out.len());
                    out.push_str(&format!("{}{}{}", MARK.0, number + 1, MARK.1));
                    replaced.push(Replaced { secret: at..at + secret.text.len(), mark: mark..out.len() });
                    rest = &rest[secret.text.len()..];
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        MarkedText { text: out, replaced }
    }

    /// The text with the secrets in the places of their marks. A mark stands only in the value of an option
    /// of the same name.
    pub fn unmarked(&self, text: &str) -> crate::Result<String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(MARK.0) {
            out.push_str(before);
            let wrong = |why: &str| {
                let line = out.lines().count().max(1);
                let error = crate::Error::user(format!("a mark of a secret {why}")).at(format!("line {line}"));
                error.remedy("write the secret in its place")
            };
            let (number, behind) = behind.split_once(MARK.1).ok_or_else(|| wrong("has no end"))?;
            let secret = number.parse::<usize>().ok().and_then(|number| self.0.get(number.checked_sub(1)?));
            let secret = secret.ok_or_else(|| wrong("stands for none of the text that runs"))?;
            if option_before(&out).as_ref() != Some(&secret.option) {
                return Err(wrong(&format!("of the option '{}' stands at another place", secret.option)));
            }
            out.push_str(&secret.text);
            rest = behind;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Whether a text has marks of secrets.
    #[must_use]
    pub fn has_marks(text: &str) -> bool {
        text.contains(MARK.0)
    }

    /// The text with an asterisk for each character of a secret, so that columns stay where they are.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for Secret { text: secret, .. } in &self.0 {
            let stars = "*".repeat(secret.chars().count());
            match secret.len() < LONG_BYTES {
                true => text = text.replace(&format!("'{secret}'"), &format!("'{stars}'")),
                false => text = text.replace(secret.as_str(), &stars),
            }
        }
        text
    }
}

/// The lines of a secret, such as a key: an error quotes one of them.
fn lines(secret: &str) -> impl Iterator<Item = &str> {
    secret.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The option in whose value a text ends: `'name' = 'begin of the value`.
fn option_before(text: &str) -> Option<String> {
    let option = quoted_before(text).map(str::to_owned);
    option.or_else(|| quoted_before(&without_comments(text)).map(str::to_owned))
}

/// The same of a text without comments.
fn quoted_before(text: &str) -> Option<&str> {
    let mut before = text;
    loop {
        let (head, _) = before.rsplit_once('\'')?;
        let (option, between) = head.rsplit_once('\'')?;
        if between.trim() == "=" {
            return option.rsplit_once('\'').map(|(_, name)| name);
        }
        // Two quotes within a value stand for one.
        before = head.strip_suffix('\'')?;
    }
}

/// A text without comments, whatever quotes there are.
fn without_comments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    loop {
        let begins = [("/*", "*/"), ("--", "\n")].map(|(begin, end)| rest.find(begin).map(|at| (at, begin, end)));
        let Some((at, begin, end)) = begins.into_iter().flatten().min() else { return out + rest };
        out.push_str(&rest[..at]);
        let comment = &rest[at + begin.len()..];
        rest = comment.find(end).map_or("", |at| &comment[at + end.len()..]);
    }
}

/// The value of an option as it may be shown.
#[must_use]
pub fn shown_value(option: &str, value: &str) -> String {
    if is_secret(option) { "***".to_owned() } else { without_secrets(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_the_names_of_their_options() {
        for secret in [
            "properties.sasl.password",
            "properties.sasl.jaas.config",
            "properties.ssl.key.pem",
            "s3.Secret-Access-Key",
            "header.X",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["key.fields", "key.format", "properties.ssl.key.location", "properties.sasl.username", "topic"] {
            assert!(!is_secret(open), "{open}");
        }
        let options = [("sasl.password", "hunter2"), ("topic", "t")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(format!("{:?}", Shown(&options.into())), r#"{"sasl.password": "***", "topic": "t"}"#);
        let url = [("url".to_owned(), "jdbc:db://u:hunter2@h/d?password=a1&x=y".to_owned())];
        assert_eq!(format!("{:?}", Shown(&url.into())), r#"{"url": "jdbc:db://u:***@h/d?password=***&x=y"}"#);
    }

    #[test]
    fn secrets_of_sql_are_hidden_wherever_they_are_quoted_and_whatever_is_wrong_with_the_text() {
        let hidden = |sql: &str| Secrets::of_sql(sql).hide(sql);
        assert_eq!(hidden("'a' = 'b', 'sasl.password' = 'hunter2')"), "'a' = 'b', 'sasl.password' = '*******')");
        assert_eq!(hidden("'sasl.password' 'hunter2'"), "'sasl.password' '*******'", "a missing sign");
        assert_eq!(hidden("'sasl.password' = 'hunter2"), "'sasl.password' = '*******", "a missing quote");
        assert_eq!(hidden("'password' /* a */ = -- b\n'hunter2'"), "'password' /* a */ = -- b\n'*******'", "comments");
        assert_eq!(hidden("'password' = /* don't */ 'hunter2'"), "'password' = /* don't */ '*******'");
        assert_eq!(hidden("'password' -- it's\n = 'hunter2'"), "'password' -- it's\n = '*******'");
        assert_eq!(hidden("'password' = -- it''s\n 'hunter2'"), "'password' = -- it''s\n '*******'");
        assert_eq!(hidden("'password' = 'hunter--2', 'token' = 'a/*b'"), "'password' = '*********', 'token' = '****'");
        assert_eq!(hidden("'topic' = 't,\n'sasl.password' = 'hunter2'"), "'topic' = 't,\n'sasl.password' = '*******'");
        assert_eq!(hidden("'password' = 'it''s me'"), "'password' = '**''****'");
        assert_eq!(hidden("'password' = 'a', x = a"), "'password' = '*', x = a");
        assert_eq!(hidden("'ssl.key.pem' = 'BEGIN\nabcd\n'"), "'ssl.key.pem' = '*****\n****\n'");
        assert_eq!(
            hidden("'url' = 'jdbc:db://u:pass/word@h/d', 'a' = 'b'"),
            "'url' = 'jdbc:db://u:*********@h/d', 'a' = 'b'"
        );
        assert_eq!(hidden("'url' = 'jdbc:db:u:hunter2@h/d'"), "'url' = 'jdbc:db:u:*******@h/d'");
        assert_eq!(hidden("'url' = 'jdbc:db://h/d?Password=it''s&x=y'"), "'url' = 'jdbc:db://h/d?Password=*****&x=y'");
        assert_eq!(
            hidden("'url' = 'jdbc:db://h:5432/d?password=hunter2"),
            "'url' = 'jdbc:db://h:5432/d?password=*******"
        );
        let open = "'url' = 'jdbc:db://h:5432/d?x=y', 'topic' = 'a@b', 'path' = 's3://bucket/key=7/a'";
        assert_eq!(hidden(open), open);
        let secrets = Secrets::of_sql("'sasl.password' = 'hunter2'");
        assert_eq!(secrets.hide("expected ), found: 'hunter2'"), "expected ), found: '*******'");
        assert_eq!(hidden("SELECT password = 'x', a"), "SELECT password = 'x', a");
        let options = [("token", "let-me-in"), ("url", "http://u:hunter2@h/"), ("format", "json")];
        let secrets = Secrets::of_options(&options.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(
            secrets.hide("401: Bearer let-me-in of u:hunter2, json"),
            "401: Bearer ********* of u:*******, json"
        );
    }

    #[test]
    fn a_text_is_the_same_after_its_secrets_were_marked() {
        for sql in [
            "'sasl.password' = 'hunter2', 'a.password' = 'hunter2', 'topic' = 'hunter2'",
            "'a.password' = 'secret', 'b.password' = 'a longer secret 1'",
            "'password' = 'a', x = a",
            "'password' = '1', 'token' = '***'",
            "'sasl.password' /* a */ = -- b\n 'hunter2'",
            "'sasl.password' = /* don't show */ 'hunter2'",
            "'sasl.password' -- it's\n = 'hunter2', 'token' = 'x--y'",
            "'password' = '''it''s', 'token' = '='",
            "'url' = 'jdbc:db://u:pass/word@h/d?password=it''s&x=y', 'topic' = 't'",
            "'ssl.key.pem' = 'BEGIN\nabcd\n'",
            "no secret",
        ] {
            let secrets = Secrets::of_sql(sql);
            let marked = secrets.marked(sql).text;
            let rest = marked.replace(MARK.0, "");
            assert!(secrets.0.iter().all(|of| of.text.len() < LONG_BYTES || !rest.contains(&of.text)), "{marked}");
            match secrets.unmarked(&marked) {
                Ok(text) => assert_eq!(text, sql, "{marked}"),
                // A value that is a secret elsewhere is marked there too, and cannot be sent back.
                Err(error) => assert!(sql.contains("'topic' = 'hunter2'"), "{error}: {marked}"),
            }
        }
    }

    #[test]
    fn a_part_of_a_text_is_found_behind_marks() {
        let sql = "'password' = 'hunter2', 'token' = 'ab'; SELECT 'hunter2', x";
        let marked = Secrets::of_sql(sql).marked(sql);
        let part_of = |text: &str| {
            let at = sql.rfind(text).expect("a part");
            &marked.text[marked.part(at..at + text.len())]
        };
        for (part, shown) in [
            ("'password' = ", "'password' = "),
            ("hunter2'", "***secret 1***'"),
            ("unter", "***secret 1***"),
            ("SELECT 'h", "SELECT '***secret 1***"),
            ("SELECT 'hunter2', x", "SELECT '***secret 1***', x"),
            ("x", "x"),
            (sql, marked.text.as_str()),
        ] {
            assert_eq!(part_of(part), shown, "{part}");
        }
    }

    #[test]
    fn a_mark_is_worth_nothing_at_another_place() {
        let secrets = Secrets::of_sql("'sasl.password' = 'hunter2', 'url' = 'jdbc:db://u:pass/word@h/d'");
        for text in [
            "'format' = '***secret 2***'",
            "SELECT '***secret 2***'",
            "-- ***secret 2***",
            "'sasl.password' = '***secret 1***'",
            "'sasl.password' = '***secret 7***'",
            "'sasl.password' = '***secret 2",
        ] {
            let error = secrets.unmarked(text).expect_err(text).to_string();
            assert!(error.contains("write the secret in its place") && !error.contains("hunter2"), "{error}");
        }
        let moved = "'url' = 'jdbc:db://u:***secret 1***@other/d', 'sasl.password' = '***secret 2***'";
        assert!(secrets.unmarked(moved).is_ok_and(|text| text.contains("hunter2")));
    }
}
