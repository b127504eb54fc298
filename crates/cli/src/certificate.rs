//! `anabranch certificate`: a certificate for a coordinator that other machines reach by TLS, for users
//! without an authority of their own.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anabranch_model::{Error, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::arguments;
use crate::console::Console;
use crate::failure::Failure;

pub(crate) fn certificate(arguments: &arguments::Certificate) -> Result<(), Failure> {
    make(&arguments.folder, &arguments.hosts).map_err(Failure::request)?;
    let folder = arguments.folder.display();
    let mut output = Console::output();
    output.line(&format!("for the coordinator: --tls-cert {folder}/cert.pem --tls-key {folder}/key.pem"))?;
    Ok(output.line(&format!("for workers and commands: --tls-ca {folder}/ca.pem"))?)
}

/// Creates an authority, and one certificate of it for these hosts. The authority's key is not kept: it signs
/// nothing else.
fn make(folder: &Path, hosts: &[String]) -> Result<()> {
    let failed = |error: rcgen::Error| {
        let error = Error::user(format!("a certificate cannot be made for these hosts: {error}"));
        error.at("option --host").remedy("give names of hosts, or IP addresses")
    };
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "Anabranch authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(failed)?;
    let authority = params.self_signed(&key).map_err(failed)?;
    let issuer = Issuer::new(params, key);

    let mut params = CertificateParams::new(hosts).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "Anabranch coordinator");
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.signed_by(&key, &issuer).map_err(failed)?;

    let place = |error: std::io::Error| {
        let error = Error::user(format!("the folder cannot be made: {error}")).at(folder.display().to_string());
        error.remedy("give a folder that this process may write")
    };
    std::fs::create_dir_all(folder).map_err(place)?;
    write(&folder.join("key.pem"), &key.serialize_pem(), 0o600)?;
    write(&folder.join("cert.pem"), &certificate.pem(), 0o644)?;
    write(&folder.join("ca.pem"), &authority.pem(), 0o644)
}

/// Writes a new file: an existing one may be in use.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        let error = Error::user(format!("the file cannot be written: {error}")).at(path.display().to_string());
        error.remedy("give a new folder, or move the files that are there away")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_for_its_owner_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().expect("folder");
        let place = folder.path().join("tls");
        make(&place, &["10.0.0.1".into(), "coordinator.example".into()]).expect("made");
        let mode = std::fs::metadata(place.join("key.pem")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = make(&place, &["10.0.0.1".into()]).expect_err("it is there").to_string();
        assert!(
            error.contains("key.pem: the file cannot be written") && error.contains("give a new folder"),
            "{error}"
        );
        let error = make(&folder.path().join("other"), &["ä".into()]).expect_err("no host").to_string();
        assert!(error.contains("option --host"), "{error}");
    }
}
