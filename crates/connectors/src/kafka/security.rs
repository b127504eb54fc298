//! Translates properties of the Java client, which Flink's users have, to librdkafka: most are about
//! encryption and logins. Properties without a counterpart are refused with a remedy.

use anabranch_model::{Error, Result, is_secret};

/// `properties.*` without the prefix, in librdkafka's terms.
#[derive(Clone, Default)]
pub(super) struct Properties {
    native: Vec<(String, String)>,
    /// Options of the Java client without effect here.
    pub(super) without_effect: Vec<String>,
}

/// Properties that only the Java client, or Flink's older connectors, use: their classes and metrics.
const WITHOUT_EFFECT: &[&str] = &[
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
    "interceptor.classes",
    "partitioner.class",
    "partitioner.ignore.keys",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "exclude.internal.topics",
    "default.api.timeout.ms",
    "auto.include.jmx.reporter",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "metadata.max.idle.ms",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "flink.partition-discovery.interval-millis",
];
/// Brokers have not needed ZooKeeper since version 4.
const ZOOKEEPER: &str = "zookeeper.";

impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.iter().map(|(name, value)| (name, if is_secret(name) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

impl Properties {
    /// Translates the options of a table.
    pub(super) fn new(given: &[(&str, &str)]) -> Result<Properties> {
        let mut properties = Properties::default();
        let stores = Stores::from_options(given);
        for (name, value) in given {
            properties.add(name, value, &stores).map_err(|error| error.at(format!("option 'properties.{name}'")))?;
        }
        Ok(properties)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.native.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn put(&mut self, name: &str, value: &str) {
        self.native.push((name.to_owned(), value.to_owned()));
    }

    fn ignore(&mut self, name: &str) {
        self.without_effect.push(name.to_owned());
    }

    fn add(&mut self, name: &str, value: &str, stores: &Stores) -> Result<()> {
        match name {
            "sasl.jaas.config" => self.login(value)?,
            "ssl.truststore.location" if stores.trust_is_pem => self.put("ssl.ca.location", value),
            "ssl.truststore.certificates" => self.put("ssl.ca.pem", value),
            "ssl.truststore.location" => return Err(java_trust_store(value)),
            "ssl.keystore.location" if stores.key_is_pem => {
                self.put("ssl.key.location", value);
                self.put("ssl.certificate.location", value);
            }
            "ssl.keystore.location" if stores.key_is_java || value.ends_with(".jks") => {
                return Err(java_key_store(value));
            }
            "ssl.keystore.key" => self.put("ssl.key.pem", value),
            "ssl.keystore.certificate.chain" => self.put("ssl.certificate.pem", value),
            "ssl.endpoint.identification.algorithm" if value.is_empty() => self.put(name, "none"),
            // These only give the type of other options, or protect public data.
            "ssl.truststore.type" | "ssl.keystore.type" | "ssl.truststore.password" => {}
            "fetch.max.wait.ms" => self.put("fetch.wait.max.ms", value),
            "max.request.size" => self.put("message.max.bytes", value),
            // These limit the batches of the Java client.
            "max.poll.records" | "buffer.memory" | "max.block.ms" => {}
            "receive.buffer.bytes" => self.put("socket.receive.buffer.bytes", value),
            "send.buffer.bytes" => self.put("socket.send.buffer.bytes", value),
            // The job assigns partitions, and the value is the name of a Java class.
            "partition.assignment.strategy" if value.contains("org.apache.kafka") => self.ignore(name),
            _ if WITHOUT_EFFECT.contains(&name) || name.starts_with(ZOOKEEPER) => self.ignore(name),
            _ => self.put(name, value),
        }
        Ok(())
    }

    /// The login in the Java client's syntax.
    fn login(&mut self, jaas: &str) -> Result<()> {
        let unreadable = || {
            Error::user("the login cannot be read").remedy(
                "write 'properties.sasl.mechanism', 'properties.sasl.username' and 'properties.sasl.password' instead",
            )
        };
        let (module, options) = jaas_login(jaas).ok_or_else(unreadable)?;
        if !module.ends_with("PlainLoginModule") && !module.ends_with("ScramLoginModule") {
            return Err(Error::user(format!("logins by {module} are configured otherwise")).remedy(
                "use librdkafka's properties: 'properties.sasl.oauthbearer.config' for OAUTHBEARER, \
                 'properties.sasl.kerberos.principal' and 'properties.sasl.kerberos.keytab' for GSSAPI",
            ));
        }
        for (name, property) in [("username", "sasl.username"), ("password", "sasl.password")] {
            let value = options.iter().find(|(known, _)| known == name).map(|(_, value)| value);
            self.put(property, value.ok_or_else(unreadable)?);
        }
        Ok(())
    }
}

/// The type of the files with certificates and keys.
struct Stores {
    trust_is_pem: bool,
    key_is_pem: bool,
    key_is_java: bool,
}

impl Stores {
    fn from_options(given: &[(&str, &str)]) -> Stores {
        let is = |name: &str, kind: &str| {
            given.iter().any(|(known, value)| *known == name && value.trim().eq_ignore_ascii_case(kind))
        };
        Stores {
            trust_is_pem: is("ssl.truststore.type", "PEM"),
            key_is_pem: is("ssl.keystore.type", "PEM"),
            key_is_java: is("ssl.keystore.type", "JKS"),
        }
    }
}

fn java_trust_store(file: &str) -> Error {
    Error::user("a trust store of Java cannot be read").remedy(format!(
        "write its certificates to a PEM file (keytool -list -rfc -keystore {file} > ca.pem), and set \
         'properties.ssl.ca.location' = 'ca.pem'"
    ))
}

fn java_key_store(file: &str) -> Error {
    Error::user("a key store of Java cannot be read").remedy(format!(
        "convert it (keytool -importkeystore -srckeystore {file} -destkeystore key.p12 -deststoretype PKCS12), and set \
         'properties.ssl.keystore.location' = 'key.p12' and 'properties.ssl.keystore.password'; or give PEM files as \
         'properties.ssl.key.location' and 'properties.ssl.certificate.location'"
    ))
}

/// The module and the options of `MODULE required name="value" ... ;`.
fn jaas_login(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let (module, rest) = text.trim().split_once(char::is_whitespace)?;
    let (_flag, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
    let mut rest = rest.trim();
    let mut options = Vec::new();
    while !rest.is_empty() && rest != ";" {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, after) = match after.chars().next()? {
            quote @ ('"' | '\'') => quoted(&after[1..], quote)?,
            _ => {
                let end = after.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        options.push((name.trim().to_owned(), value));
        rest = after.trim_start();
    }
    Some((module, options))
}

/// A value up to its closing quote, and the rest. A backslash escapes the next character.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?.1),
            c if c == quote => return Some((value, &text[at + 1..])),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(given: &[(&str, &str)]) -> Vec<(String, String)> {
        Properties::new(given).unwrap().native
    }

    fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_java_says_is_translated_where_it_means_the_same() {
        let scram =
            r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\"; w" ;"#;
        let login = pairs(&[("sasl.username", "u"), ("sasl.password", "p\"; w")]);
        assert_eq!(translated(&[("sasl.jaas.config", scram)]), login);
        let plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username=u password='p';";
        assert_eq!(
            translated(&[("sasl.jaas.config", plain)]),
            pairs(&[("sasl.username", "u"), ("sasl.password", "p")])
        );
        let pem = [("ssl.truststore.location", "ca.pem"), ("ssl.truststore.type", "PEM")];
        assert_eq!(translated(&pem), pairs(&[("ssl.ca.location", "ca.pem")]));
        let both = [("ssl.keystore.type", "pem"), ("ssl.keystore.location", "me.pem")];
        let files = [("ssl.key.location", "me.pem"), ("ssl.certificate.location", "me.pem")];
        assert_eq!(translated(&both), pairs(&files));
        let texts =
            [("ssl.keystore.key", "K"), ("ssl.keystore.certificate.chain", "C"), ("ssl.truststore.certificates", "T")];
        let ours = [("ssl.key.pem", "K"), ("ssl.certificate.pem", "C"), ("ssl.ca.pem", "T")];
        assert_eq!(translated(&texts), pairs(&ours));
        let unchecked = [("ssl.endpoint.identification.algorithm", "")];
        assert_eq!(translated(&unchecked), pairs(&[("ssl.endpoint.identification.algorithm", "none")]));
        let own =
            [("ssl.keystore.location", "me.p12"), ("ssl.keystore.password", "p"), ("security.protocol", "SASL_SSL")];
        assert_eq!(translated(&own), pairs(&own));
    }

    #[test]
    fn what_only_the_java_client_uses_is_taken_and_named() {
        let given = [
            ("zookeeper.connect", "localhost:2181"),
            ("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
            ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor"),
            ("receive.buffer.bytes", "65536"),
            ("group.id", "g"),
        ];
        let properties = Properties::new(&given).unwrap();
        assert_eq!(properties.without_effect, given[..3].iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(properties.native, pairs(&[("socket.receive.buffer.bytes", "65536"), ("group.id", "g")]));
    }

    #[test]
    fn what_cannot_be_translated_is_refused_with_what_to_write_and_without_the_secret() {
        for (given, expected) in [
            (&[("ssl.truststore.location", "trust.jks")][..], "'properties.ssl.ca.location' = 'ca.pem'"),
            (&[("ssl.keystore.location", "me.jks")], "'properties.ssl.keystore.location' = 'key.p12'"),
            (&[("ssl.keystore.location", "me"), ("ssl.keystore.type", "JKS")], "-srckeystore me -destkeystore key.p12"),
            (&[("sasl.jaas.config", "hunter2")], "'properties.sasl.username'"),
            (
                &[("sasl.jaas.config", "x.PlainLoginModule required password=\"hunter2\";")],
                "'properties.sasl.username'",
            ),
            (
                &[("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required keyTab=\"hunter2\";")],
                "'properties.sasl.kerberos.keytab'",
            ),
        ] {
            let error = Properties::new(given).unwrap_err().to_string();
            assert!(error.contains(expected), "{given:?}: {error}");
            assert!(error.contains(&format!("option 'properties.{}'", given[0].0)), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let login = [("sasl.password", "hunter2"), ("sasl.username", "u")];
        let shown = format!("{:?}", Properties::new(&login).unwrap());
        assert_eq!(shown, r#"{"sasl.password": "***", "sasl.username": "u"}"#);
    }
}
