//! Values that must not be shown: those of options that hold secrets.

use std::collections::BTreeMap;
use std::fmt;

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

/// The secrets within a value that is none itself: `jdbc:db://user:SECRET@host`, `a=b&password=SECRET`. Rather too much than too little.
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
        let shown = |name: &str, value: &str| if is_secret(name) { "***".to_owned() } else { without_secrets(value) };
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, shown(name, value)))).finish()
    }
}

/// What stands for the secret of this number.
fn mark_of(number: usize) -> String {
    format!("***secret {}***", number + 1)
}

/// The secrets in a text of SQL: values of options that hold some, and parts of other options' values.
#[derive(Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Finds secrets. The text need not be well formed: the error to show may be a missing quote.
    #[must_use]
    pub fn of_sql(sql: &str) -> Secrets {
        let parts: Vec<&str> = sql.split('\'').collect();
        let mut secrets = Vec::new();
        for place in (1..parts.len()).filter(|place| parts[place - 1].trim() == "=") {
            // Two quotes within a value stand for one.
            let more = parts[place + 1..].chunks_exact(2).take_while(|more| more[0].is_empty()).map(|more| more[1]);
            let pieces: Vec<&str> = std::iter::once(parts[place]).chain(more).collect();
            for quote in ["''", "'"] {
                secrets.extend(secrets_within(&pieces.join(quote)).into_iter().map(str::to_owned));
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
                secrets.extend(piece.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
                // Two quotes within a value stand for one.
                if parts.get(value + 1).is_none_or(|next| !next.is_empty()) {
                    break;
                }
                value += 2;
            }
        }
        // A secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Secrets(secrets)
    }

    /// The text with a mark in the place of each secret, which [`Secrets::unmarked`] replaces by the secret: for a text that is shown,
    /// edited, and sent back.
    #[must_use]
    pub fn marked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (number, secret) in self.0.iter().enumerate() {
            let mark = mark_of(number);
            match secret.len() < LONG_BYTES {
                true => text = text.replace(&format!("'{secret}'"), &format!("'{mark}'")),
                false => text = text.replace(secret.as_str(), &mark),
            }
        }
        text
    }

    /// The text with the secrets in the places of their marks.
    #[must_use]
    pub fn unmarked(&self, text: &str) -> String {
        let secrets = self.0.iter().enumerate();
        secrets.fold(text.to_owned(), |text, (number, secret)| text.replace(&mark_of(number), secret))
    }

    /// The text with an asterisk for each character of a secret, so that columns stay where they are.
    #[must_use]
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            let stars = "*".repeat(secret.chars().count());
            match secret.len() < LONG_BYTES {
                true => text = text.replace(&format!("'{secret}'"), &format!("'{stars}'")),
                false => text = text.replace(secret.as_str(), &stars),
            }
        }
        text
    }
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
    }
}
