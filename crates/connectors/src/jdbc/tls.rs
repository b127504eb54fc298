//! Encrypted connections, by the TLS that the rest of the program has.

use std::fs::File;
use std::io::{self, BufReader};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anabranch_model::{Error, Result};
use futures::future::BoxFuture;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::url::{Encryption, Url};

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// As the URL requires; `None` if connections are not encrypted.
    pub(super) fn new(url: &Url) -> Result<Option<Tls>> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal(format!("TLS: {error}")))?;
        let config = match (url.encryption, &url.roots) {
            (Encryption::Disable, _) => return Ok(None),
            (Encryption::Verify, Some(file)) => builder.with_root_certificates(roots(file)?).with_no_client_auth(),
            (Encryption::Verify, None) => {
                return Err(Error::user("option 'url': sslmode is 'verify-full', without the authority's certificate")
                    .remedy("add sslrootcert=FILE, in PEM"));
            }
            (Encryption::Prefer | Encryption::Require, _) => {
                let anyone = Arc::new(Anyone(provider));
                builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
            }
        };
        Ok(Some(Tls(TlsConnector::from(Arc::new(config)))))
    }
}

fn roots(file: &str) -> Result<RootCertStore> {
    let wrong = |reason: String| {
        Error::user(format!("the certificates of '{file}' cannot be read: {reason}"))
            .remedy("name a file in PEM in 'sslrootcert' of the option 'url'")
    };
    let mut roots = RootCertStore::empty();
    let reader = BufReader::new(File::open(file).map_err(|error| wrong(error.to_string()))?);
    for certificate in CertificateDer::pem_reader_iter(reader) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("there are none".to_owned())) } else { Ok(roots) }
}

/// Accepts any certificate: `require` protects against eavesdropping, not against impersonation of the
/// server.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake(self.0.clone(), name))
    }
}

/// A connection that is about to be encrypted.
pub(super) struct Handshake(TlsConnector, ServerName<'static>);

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.0.connect(self.1, socket).await.map(|stream| Encrypted(Box::new(stream))) })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
