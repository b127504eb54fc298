use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anabranch_model::ErrorKind;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// What a request is answered with: by the path, and the request's head.
type Respond = dyn Fn(&str, &str) -> Answer + Send + Sync;

/// An answer of [`Server`].
pub(crate) enum Answer {
    /// Status 200 with this body.
    Ok(Vec<u8>),
    /// Another status.
    Status(u16),
    /// These bytes, whatever they are, and the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, and silence until the server ends.
    Silence(Vec<u8>),
}

/// A small HTTP server on a free port of the loopback. It ends with its value.
pub(crate) struct Server {
    pub(crate) url: String,
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(respond: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (ends, open, threads) = (Arc::new(AtomicBool::new(false)), Arc::default(), Arc::default());
        let mut server = Server {
            url: format!("http://{address}"),
            address,
            ends: Arc::clone(&ends),
            open: Arc::clone(&open),
            threads: Arc::clone(&threads),
            acceptor: None,
        };
        let respond: Arc<Respond> = Arc::new(respond);
        let accept = move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.expect("a connection");
                open.lock().expect("no panic").push(stream.try_clone().expect("a handle"));
                let respond = Arc::clone(&respond);
                let serve = move || serve(&stream, &*respond);
                let thread = std::thread::Builder::new().name("test-http".to_owned()).spawn(serve).expect("a thread");
                threads.lock().expect("no panic").push(thread);
            }
        };
        let acceptor = std::thread::Builder::new().name("test-accept".to_owned()).spawn(accept).expect("a thread");
        server.acceptor = Some(acceptor);
        server
    }

    /// Serves each path of the list with its text, and 404 elsewhere.
    pub(crate) fn of_pages(pages: Vec<(String, String)>) -> Server {
        Server::start(move |path, _| match pages.iter().find(|(name, _)| name == path) {
            Some((_, page)) => Answer::Ok(page.clone().into_bytes()),
            None => Answer::Status(404),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            assert!(acceptor.join().is_ok() || std::thread::panicking());
        }
        for stream in self.open.lock().expect("no panic").drain(..) {
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
        for thread in self.threads.lock().expect("no panic").drain(..) {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

fn serve(stream: &TcpStream, respond: &Respond) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap_or("").to_owned();
        let write = |bytes: &[u8]| (&*stream).write_all(bytes).is_ok();
        match respond(&path, &head) {
            Answer::Ok(body) => {
                if !(write(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes())
                    && write(&body))
                {
                    return;
                }
            }
            Answer::Status(status) => {
                write(format!("HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nwhy?").as_bytes());
            }
            Answer::Raw(bytes) => {
                write(&bytes);
                drop(stream.shutdown(std::net::Shutdown::Both));
                return;
            }
            Answer::Silence(bytes) => {
                write(&bytes);
                drop(reader.read_to_end(&mut Vec::new()));
                return;
            }
        }
    }
}

fn client(deadline_ms: u64, size_max: u64) -> Http {
    let deadline = Duration::from_millis(deadline_ms);
    Http::new(HttpOptions { token: Some("abc".to_owned()), deadline, size_max, ..HttpOptions::default() })
        .expect("a client")
}

#[test]
fn a_body_comes_with_the_token_and_over_one_connection() {
    let server = Server::start(|path, head| {
        assert!(head.to_lowercase().contains("authorization: bearer abc\r\n"), "{head}");
        Answer::Ok(format!("{{\"path\": \"{path}\"}}").into_bytes())
    });
    let http = client(60_000, 1_000);
    for _ in 0..3 {
        let document: serde_json::Value = http.get_json(&format!("{}/jobs", server.url)).expect("an answer");
        assert_eq!(document["path"], "/jobs");
    }
    assert_eq!(server.open.lock().expect("no panic").len(), 1);
    let http = Http::new(HttpOptions {
        keeps_connections: false,
        token: Some("abc".to_owned()),
        deadline: Duration::from_secs(60),
        ..HttpOptions::default()
    });
    let http = http.expect("a client");
    for _ in 0..2 {
        http.get(&server.url).expect("an answer");
    }
    assert_eq!(server.open.lock().expect("no panic").len(), 3);
}

#[test]
fn each_failure_names_the_address_and_the_remedy() {
    let server = Server::start(|path, _| match path {
        "/401" => Answer::Status(401),
        "/404" => Answer::Status(404),
        "/500" => Answer::Status(500),
        "/large" => Answer::Ok(vec![b'x'; 5_000]),
        "/endless" => Answer::Silence(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nhalf".to_vec()),
        "/silent" => Answer::Silence(Vec::new()),
        "/cut" => Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nhalf".to_vec()),
        "/json" => Answer::Ok(b"<html>".to_vec()),
        _ => Answer::Raw(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
    });
    let (http, impatient) = (client(60_000, 1_000), client(300, 1_000));
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for (url, kind, words) in [
        (format!("{}/401", server.url), ErrorKind::User, "token"),
        (format!("{}/404", server.url), ErrorKind::User, "of which engine"),
        (format!("{}/500", server.url), ErrorKind::Outside, "status 500: why?"),
        (format!("{}/large", server.url), ErrorKind::Outside, "larger than 1000 bytes"),
        (format!("{}/endless", server.url), ErrorKind::Outside, "within 300 ms"),
        (format!("{}/silent", server.url), ErrorKind::Outside, "within 300 ms"),
        (format!("{}/cut", server.url), ErrorKind::Outside, ""),
        (format!("{}/ssh", server.url), ErrorKind::Outside, ""),
        (format!("{}/json", server.url), ErrorKind::Outside, "<html>"),
        (format!("http://{nobody}/"), ErrorKind::Outside, "nothing listens"),
        ("ftp://host".to_owned(), ErrorKind::User, "http://HOST:PORT"),
        ("localhost:8081".to_owned(), ErrorKind::User, "http://HOST:PORT"),
    ] {
        let http = if words.starts_with("within") { &impatient } else { &http };
        let error = http.get_json::<serde_json::Value>(&url).expect_err(&url);
        let text = error.to_string();
        assert!(
            error.kind() == kind && text.starts_with(&url) && text.contains(words) && text.contains("help: "),
            "{text}"
        );
    }
}

#[test]
fn an_authority_without_certificates_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, "no certificate").expect("a file");
    for path in [path, folder.path().join("none.pem")] {
        let error = Http::new(HttpOptions { authority: Some(path), ..HttpOptions::default() }).err().expect("refused");
        assert!(error.to_string().contains(".pem") && error.help().is_some(), "{error}");
    }
}

/// A server with a certificate of its own: the remedy names the key, and with its file the server is trusted.
#[test]
fn a_server_is_trusted_by_the_file_of_its_authority() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into());
    let config = Arc::new(config.expect("a configuration"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://localhost:{}/jobs", listener.local_addr().expect("an address").port());
    let serve = move || {
        for _ in 0..2 {
            let (stream, _) = listener.accept().expect("a connection");
            let server = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut reader = BufReader::new(StreamOwned::new(server, stream));
            let mut head = String::new();
            // A client that does not trust the certificate sends nothing.
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            if !head.is_empty() {
                let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]";
                reader.get_mut().write_all(answer).expect("sent");
            }
        }
    };
    let server = std::thread::Builder::new().name("test-https".to_owned()).spawn(serve).expect("a thread");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).expect("a file");
    let get = |authority: Option<PathBuf>| {
        let options = HttpOptions { authority, deadline: Duration::from_secs(60), ..HttpOptions::default() };
        Http::new(options).expect("a client").get(&url)
    };
    let refused = get(None).expect_err("not trusted").to_string();
    assert!(refused.contains("TLS failed") && refused.contains("tls-ca = \"FILE\""), "{refused}");
    assert_eq!(get(Some(file)).expect("trusted"), b"[]");
    server.join().expect("no panic");
}
