//! Values that must not be shown: those of options that hold secrets.

use std::collections::BTreeMap;
use std::fmt;

/// Parts of the names of options that hold secrets.
const SECRET_WORDS: [&str; 9] =
    ["password", "passphrase", "secret", "token", "jaas", "credential", "key.pem", "keystore.key", "access-key"];

/// Shorter secrets are hidden only if they are alone in quotes: elsewhere they may be part of any word.
const LONG_BYTES: usize = 4;

/// Whether an option of this name holds a secret.
#[must_use]
pub fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| option.contains(word))
}

/// Options for `Debug`, without secrets.
pub struct Shown<'a>(pub &'a BTreeMap<String, String>);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value)| (name, if is_secret(name) { "***" } else { value });
        f.debug_map().entries(self.0.iter().map(|(name, value)| shown((name.as_str(), value.as_str())))).finish()
    }
}

/// The secrets in a text of SQL: values of options that hold some.
#[derive(Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Finds secrets. The text need not be well formed: the error to show may be a missing quote.
    #[must_use]
    pub fn of_sql(sql: &str) -> Secrets {
        let parts: Vec<&str> = sql.split('\'').collect();
        let mut secrets = Vec::new();
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
        Secrets(secrets)
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
        for secret in ["properties.sasl.password", "properties.sasl.jaas.config", "s3.Secret-Access-Key", "ssl.key.pem"]
        {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["key.fields", "key.format", "properties.ssl.key.location", "properties.sasl.username", "topic"] {
            assert!(!is_secret(open), "{open}");
        }
        let options = [("sasl.password", "hunter2"), ("topic", "t")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(format!("{:?}", Shown(&options.into())), r#"{"sasl.password": "***", "topic": "t"}"#);
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
        let secrets = Secrets::of_sql("'sasl.password' = 'hunter2'");
        assert_eq!(secrets.hide("expected ), found: 'hunter2'"), "expected ), found: '*******'");
        assert_eq!(hidden("SELECT password = 'x', a"), "SELECT password = 'x', a");
    }
}
