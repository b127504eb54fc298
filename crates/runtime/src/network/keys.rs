//! The keys by which workers authenticate each other, and the encryption based on them.
//!
//! A worker generates a key pair when it starts. Its public key is distributed with its address over the
//! control connections. So the other workers know it, and accept exactly it: as a raw public key (RFC 7250),
//! without a certificate, a name or a date. The connecting worker proves with the common secret, in its
//! hello, that it belongs to the cluster.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_model::{Error, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const KEY_BYTES: usize = 32;
/// The prefix of an Ed25519 key in its usual encoding (RFC 8410).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The key pair by which a listening worker authenticates itself.
#[derive(Clone)]
pub struct Keys {
    public: PublicKey,
    config: Arc<ServerConfig>,
}

/// The public key of a worker (Ed25519). As text it is hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

/// Where a worker listens to other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address that others reach.
    pub address: SocketAddr,
    /// The key by which the worker authenticates itself. `None`: connections to it are not encrypted, so the
    /// address must be on this machine.
    pub key: Option<PublicKey>,
}

fn failed(error: &impl fmt::Display) -> Error {
    Error::internal(format!("TLS cannot be set up: {error}"))
}

/// All peers are of the same release, so one set of algorithms suffices.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Keys {
    /// Generates a key pair.
    pub fn generate() -> Result<Keys> {
        let pair = ::ring::signature::Ed25519KeyPair::generate_pkcs8(&::ring::rand::SystemRandom::new());
        let pair = pair.map_err(|error| failed(&error))?;
        let provider = provider();
        let private = PrivateKeyDer::Pkcs8(pair.as_ref().to_vec().into());
        let private = provider.key_provider.load_private_key(private).map_err(|error| failed(&error))?;
        let public = private.public_key().ok_or_else(|| failed(&"a key pair has no public key"))?;
        let key = public.as_ref().strip_prefix(&PREFIX).and_then(|key| key.try_into().ok());
        let key = PublicKey(key.ok_or_else(|| failed(&"a public key has an unknown form"))?);
        let certified = CertifiedKey::new(vec![key.info().as_ref().to_vec().into()], private);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(certified))));
        let mut config = config;
        // Connections are few and long-lived: no session is ever resumed.
        config.send_tls13_tickets = 0;
        Ok(Keys { public: key, config: Arc::new(config) })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The TLS state of an accepted connection.
    pub(super) fn connection(&self) -> Result<rustls::Connection> {
        ServerConnection::new(Arc::clone(&self.config)).map(Into::into).map_err(|error| failed(&error))
    }
}

/// Omits the private key.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.public.fmt(f)
    }
}

impl PublicKey {
    fn info(self) -> SubjectPublicKeyInfoDer<'static> {
        [&PREFIX[..], &self.0].concat().into()
    }

    /// The TLS state of a connection to the worker with this key.
    pub(super) fn connection(self, address: SocketAddr) -> Result<rustls::Connection> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| failed(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { key: self, provider: provider() }))
            .with_no_client_auth();
        let mut config = config;
        config.resumption = rustls::client::Resumption::disabled();
        let name = ServerName::IpAddress(address.ip().to_canonical().into());
        ClientConnection::new(Arc::new(config), name).map(Into::into).map_err(|error| failed(&error))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
        let digits: Option<[u8; 2 * KEY_BYTES]> = digits.and_then(|digits| digits.try_into().ok());
        let digits = digits.ok_or_else(|| D::Error::custom("a key has 64 hexadecimal digits"))?;
        Ok(PublicKey(std::array::from_fn(|index| digits[2 * index] << 4 | digits[2 * index + 1])))
    }
}

/// Accepts one key.
#[derive(Debug)]
struct Pinned {
    key: PublicKey,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match key.as_ref() == self.key.info().as_ref() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
