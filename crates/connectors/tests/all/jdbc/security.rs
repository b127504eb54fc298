//! Encrypted connections.

use anabranch_dataflow::SinkSpec;
use anabranch_model::Epoch;

use super::harness::{open, refusal, rows, schema, table};
use crate::certificates::Authority;
use crate::postgres::Postgres;

#[test]
fn connections_are_encrypted_and_the_server_is_who_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path();
    let (authority, certificate) = Authority::new();
    let (_, stranger) = Authority::new();
    std::fs::write(keys.join("ca.pem"), certificate.pem()).unwrap();
    std::fs::write(keys.join("stranger.pem"), stranger.pem()).unwrap();
    authority.sign(&keys.join("server.pem"));
    let server = Postgres::start_secure(keys);
    server.sql("CREATE TABLE secret (id bigint, name text)");
    let verified = |name: &str| format!("sslmode=verify-full&sslrootcert={}", keys.join(name).display());
    let with = |parameters: &str| {
        let url = format!("{}?{parameters}", server.url());
        SinkSpec::new("t", table(&server, "secret", &[("url", &url)]), schema())
    };
    let in_use = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'anabranch'";
    for (parameters, encrypted) in [
        (verified("ca.pem"), "t"),
        ("sslmode=require".to_owned(), "t"),
        (String::new(), "t"),
        ("sslmode=disable".to_owned(), "f"),
    ] {
        let mut sink = open(&with(&parameters));
        sink.write(&rows(0..1)).unwrap();
        sink.epoch_end(Epoch(1)).unwrap();
        assert_eq!(server.sql(in_use), [encrypted], "{parameters}");
        drop(sink);
        // The server notices that the connection is gone.
        while !server.sql(in_use).is_empty() {}
    }
    assert_eq!(server.sql("SELECT count(*) FROM secret"), ["4"]);
    let error = refusal(&with(&verified("stranger.pem")));
    assert!(error.contains("certificate"), "{error}");
    let error = refusal(&with(&verified("missing.pem")));
    assert!(error.contains("missing.pem' cannot be read"), "{error}");
    let error = refusal(&with("sslmode=verify-full"));
    assert!(error.contains("add sslrootcert=FILE"), "{error}");
}
