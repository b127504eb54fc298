//! Who may use the API: a token for every request, TLS for every connection. An address of this machine only needs neither.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_model::{Error, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use subtle::ConstantTimeEq;

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

/// The token that every request needs.
pub(super) struct Token(String);

impl Token {
    /// Reads a token. White space around it is not part of it.
    fn read(name: &str, path: &Path) -> Result<Token> {
        let token = String::from_utf8(read(name, path)?).unwrap_or_default();
        Token::new(&token).map_err(|error| error.at(option(name, path)))
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
    pub(super) tokens: Tokens,
    pub(super) tls: Option<Arc<ServerConfig>>,
}

/// Checks and reads everything that is needed, and listens.
pub(super) fn bind(listen: &Listen, option: &str) -> Result<(TcpListener, SocketAddr, Protection)> {
    let at = || format!("option {option} {}", listen.address);
    let addresses = listen.address.to_socket_addrs().map(Vec::from_iter).map_err(|error| {
        let error = Error::user(format!("this is not an address to listen at: {error}")).at(at());
        error.remedy("give HOST:PORT, such as 127.0.0.1:8080; port 0 takes any free one")
    })?;
    let token = match (&listen.token_file, &listen.token) {
        (Some(path), _) => Some(Token::read("--token-file", path)?),
        (None, Some(token)) => Some(Token::new(token)?),
        (None, None) => None,
    };
    let reads = listen.read_token_file.as_deref().map(|path| Token::read("--read-token-file", path)).transpose()?;
    if let (Some(path), None) = (&listen.read_token_file, &token) {
        let error = Error::user("a token that only reads needs one that may change something");
        let error = error.at(format!("option --read-token-file {}", path.display()));
        return Err(error.remedy("add --token-file FILE, or leave out --read-token-file"));
    }
    if let (Some(own), Some(path)) = (&reads, &listen.read_token_file)
        && token.as_ref().is_some_and(|token| token.0 == own.0)
    {
        let error = Error::user("this token is that of --token-file, which may change something");
        let error = error.at(format!("option --read-token-file {}", path.display()));
        return Err(error.remedy("make another one: head -c 32 /dev/urandom | base64 > FILE"));
    }
    let tls = match (&listen.tls_cert, &listen.tls_key) {
        (Some(certificate), Some(key)) => Some(tls(certificate, key)?),
        (None, None) => None,
        (certificate, _) => {
            let (given, missing) = match certificate {
                Some(_) => ("--tls-cert", "--tls-key"),
                None => ("--tls-key", "--tls-cert"),
            };
            let error = Error::user(format!("{given} needs {missing}")).at(at());
            return Err(error.remedy(format!("give both, or leave out {given}")));
        }
    };
    if !addresses.iter().all(|address| address.ip().is_loopback()) {
        let missing = [("--token-file FILE", token.is_none()), ("--tls-cert FILE --tls-key FILE", tls.is_none())];
        let missing: Vec<&str> = missing.into_iter().filter(|(_, missing)| *missing).map(|(name, _)| name).collect();
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
    Ok((listener, address, Protection { tokens: Tokens { changes: token, reads }, tls }))
}

fn tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>> {
    let wrong = |error: &dyn std::fmt::Display, name: &str, path: &Path, remedy: &str| {
        Error::user(format!("this file cannot be used: {error}")).at(option(name, path)).remedy(remedy.to_owned())
    };
    let pem = read("--tls-cert", certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| wrong(&error, "--tls-cert", certificate, "give a certificate in PEM"))?;
    if chain.is_empty() {
        let error = "there is no certificate in it";
        return Err(wrong(&error, "--tls-cert", certificate, "give a certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read("--tls-key", key)?).map_err(|error| {
        wrong(&error, "--tls-key", key, "give the certificate's private key in PEM, without a password")
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let internal = |error: rustls::Error| Error::internal(format!("TLS cannot be set up: {error}"));
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(internal)?;
    let mut config = config
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(&error, "--tls-key", key, "give the private key that belongs to the certificate"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let error = Error::user(format!("cannot read this file: {error}")).at(option(name, path));
        error.remedy("give a file that this process may read")
    })
}

fn option(name: &str, path: &Path) -> String {
    format!("option {name} {}", path.display())
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
