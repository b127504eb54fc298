//! JDBC URLs: `jdbc:postgresql://host:5432/database?sslmode=verify-full&sslrootcert=ca.pem`.

use std::fmt;

use anabranch_model::{Error, Result, is_secret};
use percent_encoding::percent_decode_str;

const PREFIX: &str = "jdbc:postgresql:";
const PORT: u16 = 5432;
const PARAMETERS: &str = "sslmode, sslrootcert, currentSchema, ApplicationName";

/// The address of a database, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    /// Tried one after the other.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) database: Option<String>,
    pub(super) encryption: Encryption,
    /// A file with certificates in PEM.
    pub(super) roots: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) application: Option<String>,
}

/// `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Disable,
    /// If the server supports it.
    Prefer,
    /// Encrypted, without authentication of the server.
    Require,
    /// The server must have a certificate for its name.
    Verify,
}

impl Url {
    /// Reads an address.
    pub(super) fn parse(text: &str) -> Result<Url> {
        let Some(rest) = text.strip_prefix(PREFIX) else {
            // A part with an '@' may contain a password.
            let scheme: Vec<&str> = text.splitn(3, ':').take(2).take_while(|part| !part.contains('@')).collect();
            return Err(Error::user(format!(
                "option 'url' begins with '{}', which is no PostgreSQL",
                scheme.join(":")
            ))
            .remedy("use 'jdbc:postgresql://host:5432/database': there is no other database yet"));
        };
        let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        // A password may contain any character, even '/' or '?', so no part of such an address is shown.
        let mut names = parameters.split('&').map(|parameter| parameter.split('=').next().unwrap_or_default());
        if place.contains('@') || names.any(|name| name.contains('@')) {
            return Err(Error::user("option 'url' has a user before the host").remedy("give 'username' and 'password'"));
        }
        let (hosts, database) = match place.strip_prefix("//") {
            Some(place) => place.split_once('/').unwrap_or((place, "")),
            None => ("", place),
        };
        let hosts = hosts.split(',').map(host).collect::<Option<Vec<_>>>().ok_or_else(|| {
            let shown = if parameters.contains('@') { String::new() } else { format!(" '{hosts}'") };
            Error::user(format!("option 'url':{shown} is no list of hosts")).remedy("write host:port,host:port")
        })?;
        let mut url = Url {
            hosts,
            database: Some(decoded(database)).filter(|name| !name.is_empty()),
            encryption: Encryption::Prefer,
            roots: None,
            schema: None,
            application: None,
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            url.set(name, decoded(value))?;
        }
        if url.roots.is_some() && url.encryption != Encryption::Verify {
            return Err(Error::user("option 'url' has 'sslrootcert', but the certificate would not be verified")
                .remedy("add sslmode=verify-full"));
        }
        Ok(url)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "sslmode" => {
                self.encryption = match value.as_str() {
                    "disable" => Encryption::Disable,
                    "prefer" => Encryption::Prefer,
                    "require" => Encryption::Require,
                    "verify-full" => Encryption::Verify,
                    _ => {
                        return Err(Error::user(format!("option 'url': sslmode is '{value}'"))
                            .remedy("use one of: disable, prefer, require, verify-full"));
                    }
                }
            }
            "sslrootcert" => self.roots = Some(value),
            "currentSchema" => self.schema = Some(value),
            "ApplicationName" => self.application = Some(value),
            name if name == "user" || is_secret(name) => {
                return Err(Error::user(format!("option 'url' has the parameter '{name}'"))
                    .remedy("give 'username' and 'password' as options: they are never shown"));
            }
            name => {
                return Err(Error::user(format!("option 'url' has the unknown parameter '{name}'"))
                    .remedy(format!("known parameters: {PARAMETERS}")));
            }
        }
        Ok(())
    }
}

/// Writes the URL without its parameters, for messages.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        write!(f, "{}", hosts.join(","))?;
        self.database.as_ref().map_or(Ok(()), |database| write!(f, "/{database}"))
    }
}

fn host(text: &str) -> Option<(String, u16)> {
    if text.is_empty() {
        return Some(("localhost".to_owned(), PORT));
    }
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().ok()?),
        _ => (text, PORT),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    (!name.is_empty()).then(|| (name.to_owned(), port))
}

/// `a%20b` is `a b`.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_jdbc() {
        let url = Url::parse("jdbc:postgresql://db.example:6000,[::1],other/my%20db?sslmode=disable&currentSchema=s")
            .unwrap();
        let hosts = [("db.example", 6000), ("::1", 5432), ("other", 5432)];
        assert_eq!(url.hosts, hosts.map(|(host, port)| (host.to_owned(), port)));
        assert_eq!((url.database.as_deref(), url.schema.as_deref()), (Some("my db"), Some("s")));
        assert_eq!(url.encryption, Encryption::Disable);
        let local = Url::parse("jdbc:postgresql:db").unwrap();
        assert_eq!(local.to_string(), "localhost:5432/db");
        assert_eq!(Url::parse("jdbc:postgresql://h/").unwrap().database, None);
    }

    #[test]
    fn what_cannot_be_is_refused_without_showing_secrets() {
        for (text, expected) in [
            ("jdbc:mysql://h/db", "begins with 'jdbc:mysql', which is no PostgreSQL"),
            ("postgresql://u:geheim@h/db", "which is no PostgreSQL"),
            ("jdbc:postgresql://u:geheim@h/db", "has a user before the host"),
            ("jdbc:postgresql:u:geheim@h/db", "has a user before the host"),
            ("jdbc:postgresql://u:geheim/w@h/db", "has a user before the host"),
            ("jdbc:postgresql://u:a?geheim@h/db", "has a user before the host"),
            ("jdbc:postgresql://u:geheim?a=b@h/db", "is no list of hosts"),
            ("u:geheim@h/db", "begins with 'u', which is no PostgreSQL"),
            ("jdbc:postgresql://h/db?user=u&password=geheim", "has the parameter 'user'"),
            ("jdbc:postgresql://h/db?password=geheim", "has the parameter 'password'"),
            ("jdbc:postgresql://h/db?sslmode=verify-ca", "sslmode is 'verify-ca'"),
            ("jdbc:postgresql://h/db?sslrootcert=ca.pem", "add sslmode=verify-full"),
            ("jdbc:postgresql://h/db?loginTimeout=3", "known parameters: sslmode"),
            ("jdbc:postgresql://h:many/db", "is no list of hosts"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("geheim"), "{text}: {error}");
        }
    }
}
