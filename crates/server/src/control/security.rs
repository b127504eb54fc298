//! Who may connect, and what protects the bytes on their way.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_model::{Error, Result};
use anabranch_runtime::network::is_loopback;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

/// Bytes of a token, at least, where other machines can connect.
const TOKEN_MIN: usize = 16;
/// Bytes of a token, at most.
pub(super) const TOKEN_MAX: usize = 256;

/// What one end knows. Both ends have the same token.
#[derive(Clone)]
pub enum Security {
    /// No encryption: for loopback addresses only.
    Plain {
        /// The secret of the cluster.
        token: Vec<u8>,
    },
    /// TLS, for a listener.
    TlsServer {
        /// The secret of the cluster.
        token: Vec<u8>,
        /// The listener's certificate and the chain up to its authority, as PEM.
        certificate: Vec<u8>,
        /// The private key of the certificate, as PEM.
        key: Vec<u8>,
    },
    /// TLS, for an end that connects.
    TlsClient {
        /// The secret of the cluster.
        token: Vec<u8>,
        /// The certificates of the authorities that are trusted, as PEM. A listener's self-signed certificate
        /// may stand here itself, unless it is marked as that of an authority.
        authority: Vec<u8>,
        /// The name or address that the listener's certificate must have; the address of the connection
        /// unless given.
        name: Option<String>,
    },
}

/// Without the secrets.
impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Security::Plain { .. } => "Plain",
            Security::TlsServer { .. } => "TlsServer",
            Security::TlsClient { .. } => "TlsClient",
        })
    }
}

/// The encryption of one end, ready to use.
pub(super) enum Encryption {
    Server(Arc<ServerConfig>),
    Client(Arc<ClientConfig>, ServerName<'static>),
}

impl Encryption {
    pub(super) fn connection(&self) -> Result<rustls::Connection> {
        let connection = match self {
            Encryption::Server(config) => ServerConnection::new(Arc::clone(config)).map(Into::into),
            Encryption::Client(config, name) => ClientConnection::new(Arc::clone(config), name.clone()).map(Into::into),
        };
        connection.map_err(|error| Error::internal(format!("TLS cannot begin: {error}")))
    }
}

impl Security {
    pub(crate) fn token(&self) -> &[u8] {
        match self {
            Security::Plain { token } | Security::TlsServer { token, .. } | Security::TlsClient { token, .. } => token,
        }
    }

    /// The encryption for listening at `address`, or why that is refused.
    pub(super) fn of_listener(&self, address: SocketAddr) -> Result<Option<Encryption>> {
        self.check(address, "--tls-cert, --tls-key and --token-file")?;
        match self {
            Security::Plain { .. } => Ok(None),
            Security::TlsServer { certificate, key, .. } => server(certificate, key).map(Some),
            Security::TlsClient { .. } => Err(Error::user("a listener with TLS needs a certificate and its key")
                .remedy("give --tls-cert and --tls-key")),
        }
    }

    /// The encryption for a connection to `address`, or why that is refused.
    pub(super) fn of_client(&self, address: SocketAddr) -> Result<Option<Encryption>> {
        self.check(address, "--tls-ca and --token-file")?;
        match self {
            Security::Plain { .. } => Ok(None),
            Security::TlsClient { authority, name, .. } => {
                client(authority, server_name(name.as_deref(), address.ip())?).map(Some)
            }
            Security::TlsServer { .. } => {
                Err(Error::user("a connection with TLS needs the certificate of an authority").remedy("give --tls-ca"))
            }
        }
    }

    fn check(&self, address: SocketAddr, options: &str) -> Result<()> {
        let token_bytes = self.token().len();
        if token_bytes > TOKEN_MAX {
            return Err(Error::user(format!("the token has {token_bytes} bytes, and {TOKEN_MAX} are allowed"))
                .remedy("give a shorter one with --token-file"));
        }
        if is_loopback(address) {
            return Ok(());
        }
        if matches!(self, Security::Plain { .. }) {
            return Err(Error::user("without TLS only a loopback address is allowed: others can read what is sent")
                .at(address.to_string())
                .remedy(format!("give {options}, or use an address such as 127.0.0.1")));
        }
        if token_bytes < TOKEN_MIN {
            let message = format!(
                "the token has {token_bytes} bytes; an address that is not loopback needs at least {TOKEN_MIN}"
            );
            return Err(Error::user(message).at(address.to_string()).remedy(
                "give a longer one with --token-file, the same at every process; openssl rand -hex 32 makes one",
            ));
        }
        Ok(())
    }
}

fn server(certificate: &[u8], key: &[u8]) -> Result<Encryption> {
    let chain = certificates(certificate, "--tls-cert")?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| Error::user(format!("--tls-key is not a private key in PEM format: {error:?}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::internal(format!("TLS: {error}")))?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config =
        config.map_err(|error| Error::user(format!("--tls-cert and --tls-key do not go together: {error}")))?;
    // Connections live long and are few: no session is ever resumed.
    config.send_tls13_tickets = 0;
    Ok(Encryption::Server(Arc::new(config)))
}

fn server_name(name: Option<&str>, address: IpAddr) -> Result<ServerName<'static>> {
    let Some(name) = name else { return Ok(ServerName::IpAddress(address.to_canonical().into())) };
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let error = Error::user(format!("'{name}' cannot be the name in a certificate"));
        error.remedy("give a name of DNS or an address")
    })
}

fn client(authority: &[u8], name: ServerName<'static>) -> Result<Encryption> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority, "--tls-ca")? {
        roots
            .add(certificate)
            .map_err(|error| Error::user(format!("--tls-ca has a certificate that cannot be used: {error}")))?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::internal(format!("TLS: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Encryption::Client(Arc::new(config), name))
}

fn certificates(pem: &[u8], option: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let list = read.map_err(|error| Error::user(format!("{option} is not in PEM format: {error:?}")))?;
    if list.is_empty() {
        return Err(Error::user(format!("{option} has no certificate in PEM format")));
    }
    Ok(list)
}
