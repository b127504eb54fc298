//! Tokens, TLS, and starts that are refused.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anabranch_model::{Error, ErrorKind};
use anabranch_server::http::{Client, Limits, Listen, Listener};
use rustls::pki_types::CertificateDer;

use super::client::{LIMIT, connect, get, received, send, send_tls};
use super::{start, wait_for};

const TOKEN: &str = "correct-horse-battery-9";

/// A token, a certificate and its key as files.
struct Files {
    folder: tempfile::TempDir,
    certificate: CertificateDer<'static>,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir().expect("folder");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        let other = rcgen::KeyPair::generate().expect("a key");
        for (name, content) in [
            ("token", format!("{TOKEN}\n")),
            ("short", "fifteen-letters".to_owned()),
            ("cert.pem", made.cert.pem()),
            ("key.pem", made.signing_key.serialize_pem()),
            ("other.pem", other.serialize_pem()),
            ("empty", String::new()),
        ] {
            std::fs::write(folder.path().join(name), content).expect("written");
        }
        Files { folder, certificate: made.cert.der().clone() }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name)).filter(|_| !name.is_empty())
    }

    /// Options with these files; an empty name stands for none.
    fn listen(&self, address: &str, [token, certificate, key]: [&str; 3]) -> Listen {
        let [token_file, tls_cert, tls_key] = [token, certificate, key].map(|name| self.path(name));
        Listen { address: address.into(), token_file, tls_cert, tls_key, ..Listen::default() }
    }
}

/// Somebody without the token opens more connections than the server has, and sends nothing.
#[test]
fn silent_connections_without_the_token_keep_no_one_out() {
    let (files, job) = (Files::new(), start(None, None));
    let listener = Listener::bind(&files.listen("127.0.0.1:0", ["token", "", ""])).expect("it listens");
    // Nothing but the next client ends a silent connection before the test gives up.
    let long = 4 * LIMIT;
    let limits = Limits { connections: 4, unknown: long, headers: long, client: long, ..Limits::default() };
    let address = listener.address();
    let _server = job.serve(listener.with_limits(limits)).expect("it serves");
    let with_token = |connection: &str| {
        let token = format!("Authorization: Bearer {TOKEN}");
        format!("GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\n{token}\r\nConnection: {connection}\r\n\r\n")
    };
    let mut known = connect(address);
    known.write_all(with_token("keep-alive").as_bytes()).expect("sent");
    let mut start = [0; 12];
    known.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200");
    let silent: Vec<_> = (0..20).map(|_| connect(address)).collect();
    assert_eq!(get(address, "/healthz").status, 200);
    // The client with the token has kept its place. What is left of its first answer comes first.
    known.write_all(with_token("close").as_bytes()).expect("sent");
    let mut rest = String::new();
    known.read_to_string(&mut rest).expect("an answer");
    assert_eq!(rest.matches("HTTP/1.1 200").count(), 1, "{rest}");
    drop(silent);
}

#[test]
fn a_token_is_needed_for_everything_but_probes() {
    let (files, job) = (Files::new(), start(None, None));
    let listener = Listener::bind(&files.listen("127.0.0.1:0", ["token", "", ""])).expect("it listens");
    let address = listener.address();
    let _server = job.serve(listener).expect("it serves");
    assert_eq!(get(address, "/healthz").status, 200);
    wait_for(&job, "all tasks run", || get(address, "/readyz").status == 200);
    let [probed, with_token] = ["", &format!("Authorization: Bearer {TOKEN}")].map(|headers| {
        let answer = send(address, "GET", "/readyz", headers, "");
        serde_json::from_str::<serde_json::Value>(&answer.body).expect("JSON")
    });
    assert_eq!((&probed["ready"], probed["jobs"].as_array().map(Vec::len)), (&true.into(), Some(0)), "no names");
    assert_eq!((&with_token["ready"], with_token["jobs"].as_array().map(Vec::len)), (&true.into(), Some(1)));
    for path in ["/metrics", "/api/v1/openapi.json", "/api/v1/jobs", "/nothing"] {
        for headers in ["", "Authorization: Bearer correct-horse-battery-8", "Authorization: Basic Y29ycmVjdA=="] {
            let refused = send(address, "GET", path, headers, "");
            assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")), "{path} {headers}");
            assert!(!refused.body.contains(TOKEN), "{refused:?}");
        }
    }
    let headers = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(send(address, "GET", "/api/v1/jobs", &headers, "").status, 200);
    let with_name = format!("{headers}\nHost: example.org");
    assert_eq!(send(address, "GET", "/api/v1/jobs", &with_name, "").status, 200, "a token makes names safe");
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn an_address_for_others_is_served_with_a_token_over_tls() {
    let (files, job) = (Files::new(), start(None, None));
    let listener = Listener::bind(&files.listen("0.0.0.0:0", ["token", "cert.pem", "key.pem"])).expect("it listens");
    assert!(listener.url().starts_with("https://0.0.0.0:"), "{}", listener.url());
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], listener.address().port()));
    let _server = job.serve(listener).expect("it serves");
    let with_token = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(send_tls(address, &files.certificate, &with_token, "/api/v1/jobs").status, 200);
    assert_eq!(send_tls(address, &files.certificate, "", "/api/v1/jobs").status, 401);
    let client = |name: &str, token: &str| {
        let (url, token) = (format!("https://localhost:{}", address.port()), Some(token.to_owned()));
        Client { urls: vec![url], token, authority: files.path(name), wait: LIMIT, ..Client::default() }
    };
    let listed = client("cert.pem", TOKEN).get("/api/v1/jobs").expect("an answer");
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(1));
    let refused = |client: Client| Error::from(client.get("/api/v1/jobs").expect_err("refused")).to_string();
    let wrong = refused(client("cert.pem", "correct-horse-battery-8"));
    assert!(wrong.contains("needs the token") && wrong.contains("ANABRANCH_TOKEN"), "{wrong}");
    let wrong = refused(client("", TOKEN));
    assert!(wrong.contains("add --tls-ca FILE"), "{wrong}");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(files.folder.path().join("another.pem"), other.cert.pem()).expect("written");
    let wrong = refused(client("another.pem", TOKEN));
    assert!(wrong.contains("certificate"), "{wrong}");
    let mut plain = connect(address);
    std::io::Write::write_all(&mut plain, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let answered = std::panic::catch_unwind(move || received(&mut plain).status);
    assert!(answered.is_err(), "there is no answer without TLS: {answered:?}");
    job.stop();
    job.wait().expect("the job was not disturbed");
}

#[test]
fn a_start_that_would_be_open_or_cannot_work_is_refused() {
    let files = Files::new();
    let used = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let used = used.local_addr().map(|address| (address.to_string(), used)).expect("an address");
    let missing = Path::new("missing").display().to_string();
    for (address, given, kind, words) in [
        ("0.0.0.0:0", ["", "", ""], ErrorKind::User, &["--token-file FILE", "--tls-cert FILE --tls-key FILE"][..]),
        ("0.0.0.0:0", ["token", "", ""], ErrorKind::User, &["add --tls-cert FILE --tls-key FILE,"]),
        ("[::]:0", ["", "cert.pem", "key.pem"], ErrorKind::User, &["add --token-file FILE,"]),
        ("127.0.0.1:0", ["short", "", ""], ErrorKind::User, &["--token-file", "short", "at least 16"]),
        ("127.0.0.1:0", ["empty", "", ""], ErrorKind::User, &["at least 16"]),
        ("127.0.0.1:0", [&missing, "", ""], ErrorKind::User, &["cannot read this file", "--token-file", "missing"]),
        ("127.0.0.1:0", ["", "cert.pem", ""], ErrorKind::User, &["--tls-cert needs --tls-key"]),
        ("127.0.0.1:0", ["", "", "key.pem"], ErrorKind::User, &["--tls-key needs --tls-cert"]),
        ("127.0.0.1:0", ["", "empty", "key.pem"], ErrorKind::User, &["--tls-cert", "no certificate"]),
        ("127.0.0.1:0", ["", "cert.pem", "empty"], ErrorKind::User, &["--tls-key", "private key"]),
        ("127.0.0.1:0", ["", "cert.pem", "other.pem"], ErrorKind::User, &["--tls-key", "belongs to the certificate"]),
        ("8080", ["", "", ""], ErrorKind::User, &["--listen 8080", "HOST:PORT"]),
        (&used.0, ["", "", ""], ErrorKind::Outside, &["--listen 127.0.0.1:", "in use", "another port"]),
    ] {
        let error =
            Listener::bind(&files.listen(address, given)).err().unwrap_or_else(|| panic!("{address} {given:?}"));
        let said = error.to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{address} {given:?}: {said}");
        assert_eq!(error.kind(), kind, "{said}");
    }
}
