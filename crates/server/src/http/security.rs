//! Who may use the API: a token for every request, TLS for every connection. An address of this machine only
//! needs neither.

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_model::{Error, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use subtle::ConstantTimeEq;

use super::guard::Guard;

/// Shortest token, in bytes.
const TOKEN_MIN: usize = 16;

/// Where to listen, and who may connect.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// Host and port; port 0 takes any free one.
    pub address: String,
    /// The token that every request needs, unless a file has it.
    pub token: Option<String>,
    /// File with the token that every request needs.
    pub token_file: Option<PathBuf>,
    /// File with a token with which requests may read and change nothing.
    pub read_token_file: Option<PathBuf>,
    /// File with the certificate in PEM, with those that sign it.
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate in PEM.
    pub tls_key: Option<PathBuf>,
}

/// The options by which the user gives the fields of [`Listen`], for messages.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    /// By options of a command. This one has the address.
    Options(&'static str),
    /// By keys of a file: `listen`, `token-file` and so on.
    Keys,
}

impl Given {
    /// As the user writes the name of an option or a key.
    pub(super) fn name(self, key: &str) -> String {
        match self {
            Given::Options(_) => format!("--{key}"),
            Given::Keys => key.to_owned(),
        }
    }

    /// How to give files by these options or keys.
    fn files(self, keys: &[&str]) -> String {
        match self {
            Given::Options(_) => keys.iter().map(|key| format!("--{key} FILE")).collect::<Vec<_>>().join(" "),
            Given::Keys => keys.iter().map(|key| format!("{key} = \"FILE\"")).collect::<Vec<_>>().join(" and "),
        }
    }

    /// The place of a value.
    fn place(self, key: &str, value: impl Display) -> String {
        match self {
            Given::Options(_) => format!("option --{key} {value}"),
            Given::Keys => format!("{key} = \"{value}\""),
        }
    }

    fn address(self, address: &str) -> String {
        match self {
            Given::Options(option) => format!("option {option} {address}"),
            Given::Keys => self.place("listen", address),
        }
    }

    fn read(self, key: &str, path: &Path) -> Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| {
            let error = Error::user(format!("cannot read this file: {error}")).at(self.place(key, path.display()));
            error.remedy("give a file that this process may read")
        })
    }
}

/// The token that every request needs.
pub(super) struct Token(String);

impl Token {
    /// Reads a token. White space around the token is ignored.
    fn read(given: Given, key: &str, path: &Path) -> Result<Token> {
        let token = String::from_utf8(given.read(key, path)?).unwrap_or_default();
        Token::new(&token).map_err(|error| error.at(given.place(key, path.display())))
    }

    fn new(token: &str) -> Result<Token> {
        let token = token.trim();
        if token.len() < TOKEN_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::user(format!(
                "the token must have at least {TOKEN_MIN} characters, all of them letters, digits or signs of ASCII"
            ))
            .remedy("make one: head -c 32 /dev/urandom | base64 > FILE"));
        }
        Ok(Token(token.to_owned()))
    }

    /// Whether the header `Authorization` has the token. Takes the same time wherever they differ.
    pub(super) fn is_in(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, given)) = authorization.and_then(|value| value.split_at_checked("Bearer ".len())) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(given.ct_eq(self.0.as_bytes()))
    }
}

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Everything.
    Changes,
    /// Look at everything.
    Reads,
}

/// The tokens that requests may have.
#[derive(Default)]
pub(super) struct Tokens {
    changes: Option<Token>,
    reads: Option<Token>,
}

impl Tokens {
    /// Whether a request needs one.
    pub(super) fn are_needed(&self) -> bool {
        self.changes.is_some()
    }

    /// What the token of the header `Authorization` allows.
    pub(super) fn access(&self, authorization: Option<&[u8]>) -> Option<Access> {
        let has = |token: &Option<Token>| token.as_ref().is_some_and(|token| token.is_in(authorization));
        match (has(&self.changes), has(&self.reads)) {
            (true, _) => Some(Access::Changes),
            (false, true) => Some(Access::Reads),
            (false, false) => None,
        }
    }
}

/// What protects a listener.
pub(super) struct Protection {
    pub(super) guard: Arc<Guard>,
    pub(super) tls: Option<Arc<ServerConfig>>,
}

/// Checks and reads everything that is needed, and listens.
pub(super) fn bind(listen: &Listen, given: Given) -> Result<(TcpListener, SocketAddr, Protection)> {
    let at = || given.address(&listen.address);
    let addresses = listen.address.to_socket_addrs().map(Vec::from_iter).map_err(|error| {
        let error = Error::user(format!("this is not an address to listen at: {error}")).at(at());
        error.remedy("give HOST:PORT, such as 127.0.0.1:8080; port 0 takes any free one")
    })?;
    let tokens = tokens(listen, given)?;
    let tls = match (&listen.tls_cert, &listen.tls_key) {
        (Some(certificate), Some(key)) => Some(tls(given, certificate, key)?),
        (None, None) => None,
        (certificate, _) => {
            let (has, needs) = if certificate.is_some() { ("tls-cert", "tls-key") } else { ("tls-key", "tls-cert") };
            let (has, needs) = (given.name(has), given.name(needs));
            let error = Error::user(format!("{has} needs {needs}")).at(at());
            return Err(error.remedy(format!("give both, or leave out {has}")));
        }
    };
    if !addresses.iter().all(|address| address.ip().is_loopback()) {
        let needed = [(&["token-file"][..], !tokens.are_needed()), (&["tls-cert", "tls-key"][..], tls.is_none())];
        let missing: Vec<String> =
            needed.into_iter().filter(|(_, missing)| *missing).map(|(keys, _)| given.files(keys)).collect();
        if !missing.is_empty() {
            let error = Error::user("other machines can reach this address, so it needs a token and TLS").at(at());
            return Err(error.remedy(format!("add {}, or listen at 127.0.0.1 only", missing.join(" and "))));
        }
    }
    let failed = |error: &std::io::Error| {
        let error = Error::outside(format!("cannot listen at this address: {error}")).at(at());
        error.remedy("choose another port, or stop the process that uses it; port 0 takes any free one")
    };
    let listener = TcpListener::bind(&addresses[..]).map_err(|error| failed(&error))?;
    listener.set_nonblocking(true).map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    Ok((listener, address, Protection { guard: Arc::new(Guard::new(tokens, given)), tls }))
}

fn tokens(listen: &Listen, given: Given) -> Result<Tokens> {
    let changes = match (&listen.token_file, &listen.token) {
        (Some(path), _) => Some(Token::read(given, "token-file", path)?),
        (None, Some(token)) => Some(Token::new(token)?),
        (None, None) => None,
    };
    let Some(path) = &listen.read_token_file else { return Ok(Tokens { changes, reads: None }) };
    let reads = Token::read(given, "read-token-file", path)?;
    let at = given.place("read-token-file", path.display());
    match &changes {
        None => {
            let error = Error::user("a token that only reads needs one that may change something").at(at);
            let (add, leave) = (given.files(&["token-file"]), given.name("read-token-file"));
            Err(error.remedy(format!("add {add}, or leave out {leave}")))
        }
        Some(token) if token.0 == reads.0 => {
            let name = given.name("token-file");
            let error = Error::user(format!("this token is that of {name}, which may change something")).at(at);
            Err(error.remedy("make another one: head -c 32 /dev/urandom | base64 > FILE"))
        }
        Some(_) => Ok(Tokens { changes, reads: Some(reads) }),
    }
}

fn tls(given: Given, certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let wrong = |error: &dyn Display, name: &str, path: &Path, remedy: &str| {
        let error = Error::user(format!("this file cannot be used: {error}")).at(given.place(name, path.display()));
        error.remedy(remedy.to_owned())
    };
    let pem = given.read("tls-cert", certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error, "tls-cert", certificate, "give a certificate in PEM"))?;
    if chain.is_empty() {
        let error = "there is no certificate in it";
        return Err(wrong(&error, "tls-cert", certificate, "give a certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_slice(&given.read("tls-key", key)?).map_err(|error| {
        wrong(&error, "tls-key", key, "give the certificate's private key in PEM, without a password")
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let internal = |error: rustls::Error| Error::internal(format!("TLS cannot be set up: {error}"));
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(internal)?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(&error, "tls-key", key, "give the private key that belongs to the certificate"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_compared_as_a_whole() {
        let token = Token("0123456789abcdef".into());
        for (header, right) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdef0", false),
            ("Bearer ", false),
            ("Basic 0123456789abcdef", false),
            ("", false),
        ] {
            assert_eq!(token.is_in(Some(header.as_bytes())), right, "{header}");
        }
        assert!(!token.is_in(None));
    }
}
