//! `anabranch coordinator`: takes jobs and runs them at workers, until it is stopped.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_server::Engine;
use anabranch_server::cluster::{Coordinator, CoordinatorOptions, TOKEN};
use anabranch_server::control::Security;
use anabranch_server::http::{Given, Listen, Listener};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing::info;

use crate::arguments::{self, LogFormat};
use crate::client::{file, token};
use crate::console::Console;
use crate::failure::Failure;
use crate::log;
use crate::process;
use crate::signals::Signals;

/// Time limit for jobs to end with a checkpoint when the coordinator is stopped.
const CLOSE: Duration = Duration::from_secs(30);

pub(crate) fn coordinator(arguments: &arguments::Coordinator) -> Result<(), Failure> {
    run(arguments).map_err(Failure::request)
}

fn run(arguments: &arguments::Coordinator) -> Result<()> {
    let exporter = log::of_server(&arguments.log, &arguments.otlp, "coordinator", arguments.http.clone())?;
    let token = secret(arguments)?;
    let listen = address("--listen", &arguments.listen)?;
    let http = Listen {
        address: arguments.http.clone(),
        token: Some(token.clone()),
        read_token_file: arguments.read_token_file.clone(),
        tls_cert: arguments.tls_cert.clone(),
        tls_key: arguments.tls_key.clone(),
        ..Listen::default()
    };
    let listener = Listener::bind_as(&http, Given::Options("--http"))?;
    let url = listener.url();
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    if arguments.end_with_parent {
        process::end_with_input()?;
    }
    let store = arguments.store.clone();
    let security = security(arguments, token)?;
    let advertise = arguments.advertise.as_deref().map(|text| address("--advertise", text)).transpose()?;
    let authority = arguments.tls_ca.as_deref().map(|path| file("--tls-ca", path)).transpose()?;
    let options = CoordinatorOptions { store, listen, advertise, security, authority, demo: None };
    let coordinator = Coordinator::start(Engine::default(), options, listener)?;
    exporter.iter().for_each(|exporter| exporter.watch(coordinator.jobs()));
    let mut progress = Console::error();
    let workers = coordinator.address().map_or_else(|| arguments.listen.clone(), |address| address.to_string());
    let is_for_people = arguments.log.log_format == LogFormat::Text;
    match is_for_people {
        true => progress.line(&format!("workers connect to {workers}; commands to {url}"))?,
        false => info!(workers, commands = url, version = env!("CARGO_PKG_VERSION"), "coordinator started"),
    }
    signals.wait_for_stop();
    let leaves_jobs = coordinator.has_standby();
    match (is_for_people, leaves_jobs) {
        (true, true) => progress.line("leaving the jobs to the coordinator that stands by")?,
        (true, false) => progress
            .line("stopping all jobs at the end of an epoch; the next start resumes them; again to leave at once")?,
        (false, _) => info!(leaves_jobs, "coordinator stops"),
    }
    coordinator.close(CLOSE);
    Ok(())
}

/// How connections of workers are secured.
fn security(arguments: &arguments::Coordinator, token: String) -> Result<Security> {
    let token = token.into_bytes();
    match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => Ok(Security::TlsServer {
            token,
            certificate: file("--tls-cert", certificate)?,
            key: file("--tls-key", key)?,
        }),
        _ => Ok(Security::Plain { token }),
    }
}

fn secret(arguments: &arguments::Coordinator) -> Result<String> {
    token(arguments.token_file.as_deref())?.ok_or_else(|| {
        Error::user("a coordinator needs a secret, which its workers and commands know").remedy(format!(
            "give --token-file, or set it in the environment: export {TOKEN}=$(head -c 32 /dev/urandom | base64)"
        ))
    })
}

fn address(option: &str, text: &str) -> Result<SocketAddr> {
    let wrong = |why: &str| {
        let error = Error::user(format!("this is not an address: {why}"));
        error.at(format!("option {option} {text}")).remedy("give HOST:PORT, such as 127.0.0.1:8791; port 0 takes any")
    };
    let mut addresses = text.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    addresses.next().ok_or_else(|| wrong("it has no address"))
}
