//! Encryption and authentication, with a broker whose certificates are made here.

use anabranch_dataflow::ConnectorSpec;
use anabranch_model::{Clock, SystemClock};

use super::harness::{BOUNDED, Outside, Reader, open_exact, open_sink, open_source, refusal, rows, table_at};
use crate::broker::Broker;
use crate::certificates::Authority;

const PASSWORD: &str = "correct-horse-7";

/// Options of a table.
type Extra<'a> = &'a [(&'a str, &'a str)];

#[test]
fn records_are_written_and_read_with_every_login_and_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path();
    let (authority, certificate) = Authority::new();
    std::fs::write(keys.join("ca.pem"), certificate.pem()).unwrap();
    std::fs::write(keys.join("password"), PASSWORD).unwrap();
    authority.sign(&keys.join("server.pem"));
    authority.sign(&keys.join("client.pem"));
    let broker = Broker::start_secure(keys);
    let ca = keys.join("ca.pem").display().to_string();
    let sasl = |topic: &str, mechanism: &str, extra: Extra<'_>| {
        let base = [
            ("properties.security.protocol", "SASL_SSL"),
            ("properties.sasl.mechanism", mechanism),
            ("properties.ssl.ca.location", &ca),
        ];
        table_at(&broker.servers_of("sasl"), topic, &[&base, extra].concat())
    };
    let login = [("properties.sasl.username", "writer"), ("properties.sasl.password", PASSWORD)];
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        write_and_read(mechanism, &|topic, extra| sasl(topic, mechanism, &[&login, extra].concat()));
    }
    let jaas = format!(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"writer\" password=\"{PASSWORD}\";"
    );
    let java = [("properties.sasl.jaas.config", jaas.as_str())];
    write_and_read("java", &|topic, extra| sasl(topic, "SCRAM-SHA-512", &[&java, extra].concat()));
    let token = [
        ("properties.enable.sasl.oauthbearer.unsecure.jwt", "true"),
        ("properties.sasl.oauthbearer.config", "principal=writer"),
    ];
    write_and_read("oauth", &|topic, extra| sasl(topic, "OAUTHBEARER", &[&token, extra].concat()));
    let client = keys.join("client.pem").display().to_string();
    let mutual = [
        ("properties.security.protocol", "SSL"),
        ("properties.ssl.truststore.type", "PEM"),
        ("properties.ssl.truststore.location", &ca),
        ("properties.ssl.keystore.type", "PEM"),
        ("properties.ssl.keystore.location", &client),
    ];
    write_and_read("mutual", &|topic, extra| table_at(&broker.servers_of("mutual"), topic, &[&mutual, extra].concat()));
    refusals(&sasl, &broker);
}

/// Also exactly once, since these writers have other clients.
fn write_and_read(topic: &str, table: &dyn Fn(&str, Extra<'_>) -> ConnectorSpec) {
    let mut sink = open_sink(table(topic, &[]), 0, 1).unwrap();
    sink.write(&rows(0..10)).unwrap();
    sink.finish().unwrap();
    let mut exact = open_exact(table(topic, &[]), 0, 1, topic).unwrap();
    exact.write(&rows(10..20)).unwrap();
    let prepared = exact.prepare_commit(anabranch_model::Epoch(1)).unwrap().unwrap();
    exact.commit(&prepared).unwrap();
    let mut reader = Reader::open(table(topic, &[]), 0, 1);
    reader.read_until("all rows", |reader| reader.count() == 20);
    assert_eq!(reader.sorted_ids(), (0..20).collect::<Vec<_>>());
}

/// Errors name the cause and contain no secret.
fn refusals(sasl: &dyn Fn(&str, &str, Extra<'_>) -> ConnectorSpec, broker: &Broker) {
    Outside::new(broker.servers()).create_topic("refused", 1);
    let wrong = [("properties.sasl.username", "writer"), ("properties.sasl.password", "wrong-horse"), BOUNDED];
    let clock = SystemClock::new();
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        for error in [
            refusal(open_source(sasl("refused", mechanism, &wrong), 0, 1)),
            refusal(open_sink(sasl("refused", mechanism, &wrong), 0, 1)),
        ] {
            assert!(error.contains("was refused") && error.contains("uthentication"), "{error}");
            assert!(error.contains("'properties.sasl.*'") && !error.contains("wrong-horse"), "{error}");
        }
    }
    let (_, stranger) = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.pem");
    std::fs::write(&other, stranger.pem()).unwrap();
    let untrusted = [("properties.ssl.ca.location", other.to_str().unwrap()), wrong[0], wrong[1]];
    for error in [
        refusal(open_source(sasl("refused", "PLAIN", &untrusted), 0, 1)),
        refusal(open_sink(sasl("refused", "PLAIN", &untrusted), 0, 1)),
    ] {
        assert!(error.contains("was refused") && error.contains("certificate verify failed"), "{error}");
        assert!(error.contains("'properties.ssl.*'") && !error.contains("wrong-horse"), "{error}");
    }
    assert!(clock.now().0 < 200_000_000_000, "a refusal ends the wait of 300 s: {:?}", clock.now());
    let misspelt = [("properties.sasl.passwort", "x"), ("properties.sasl.password", "wrong-horse")];
    let error = refusal(open_source(sasl("refused", "PLAIN", &misspelt), 0, 1));
    assert!(error.contains("'properties.sasl.passwort'") && !error.contains("wrong-horse"), "{error}");
    let bad_value = [("properties.ssl.key.pem", "wrong-horse")];
    let error = refusal(open_source(sasl("refused", "PLAIN", &bad_value), 0, 1));
    assert!(!error.contains("wrong-horse"), "{error}");
}
