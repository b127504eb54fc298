//! Certificates, as an authority of its own would make them.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

/// A certificate for these names and addresses, valid until the beginning of a year.
pub(crate) fn certificate(names: &[String], until: i32) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(names).expect("names");
    params.is_ca = IsCa::ExplicitNoCa;
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(until, 1, 1));
    (params.self_signed(&key).expect("signed").pem(), key.serialize_pem())
}

/// An authority that has signed nothing.
pub(crate) fn authority() -> String {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().expect("a key")).expect("signed").pem()
}
