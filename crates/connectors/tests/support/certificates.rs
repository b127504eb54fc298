//! Certificates for servers on the loopback interface.

use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority that signs certificates for 127.0.0.1.
pub(crate) struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> (Authority, Certificate) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Its name must differ from the names of the certificates that it signs.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (Authority(Issuer::new(params, key)), certificate)
    }

    /// Writes a key and its certificate into one file.
    pub(crate) fn sign(&self, file: &Path) {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(file, key.serialize_pem() + &certificate.pem()).unwrap();
    }
}
