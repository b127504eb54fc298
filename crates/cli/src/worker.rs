//! `anabranch worker`: a process that runs tasks for a coordinator in another one.

use std::net::SocketAddr;

use anabranch_model::{Error, Result};
use anabranch_server::Engine;
use anabranch_server::cluster::{TOKEN, WorkerOptions, check_place, run_worker};

use crate::arguments::Worker;
use crate::client::{file, token};
use crate::failure::Failure;
use crate::log;
use crate::process;

pub(crate) fn worker(arguments: &Worker) -> Result<(), Failure> {
    if arguments.end_with_parent {
        process::die_with_parent();
        process::end_with_input()?;
    }
    let name = arguments.name.clone().unwrap_or_else(host_name);
    let _exporter =
        log::of_server(&arguments.log, &arguments.otlp, "worker", name.clone()).map_err(Failure::request)?;
    let engine = Engine::default();
    let options = options(arguments, name, &engine).map_err(Failure::request)?;
    run_worker(&engine, &options).map_err(Failure::from)
}

fn options(arguments: &Worker, name: String, engine: &Engine) -> Result<WorkerOptions> {
    arguments.store.iter().try_for_each(|store| check_place(engine, store))?;
    Ok(WorkerOptions {
        coordinators: arguments.coordinators.iter().map(|text| checked(text)).collect::<Result<_>>()?,
        token: secret(arguments)?,
        authority: arguments.tls_ca.as_deref().map(|path| file("--tls-ca", path)).transpose()?,
        name,
        slots: arguments.slots.unwrap_or_else(cores),
        labels: arguments.labels.clone(),
        listen: arguments.listen,
        advertise: arguments.advertise.map(usable).transpose()?,
        state: arguments.state.clone(),
        once: arguments.once,
        wait: arguments.wait,
    })
}

/// `HOST:PORT`.
fn checked(text: &str) -> Result<String> {
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && !host.contains('/'));
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    port.map(|_| text.to_owned()).ok_or_else(|| {
        let error = Error::user("this is not the place of a coordinator").at(format!("option --coordinator {text}"));
        error.remedy("give HOST:PORT, as the coordinator prints it for workers")
    })
}

/// An address that others can connect to.
fn usable(address: SocketAddr) -> Result<SocketAddr> {
    match address.ip().is_unspecified() {
        false => Ok(address),
        true => Err(Error::user("other workers cannot connect to this address")
            .at(format!("option --advertise {}", address.ip()))
            .remedy("give an address of this machine that they reach")),
    }
}

/// The secret of the cluster.
fn secret(arguments: &Worker) -> Result<Vec<u8>> {
    let missing = || {
        Error::user("the secret of the cluster is not given").remedy(format!(
            "give --token-file, or put the secret with which the coordinator was started into the environment ({TOKEN})"
        ))
    };
    Ok(token(arguments.token_file.as_deref())?.ok_or_else(missing)?.into_bytes())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => format!("worker-{}", std::process::id()),
        name => name.to_owned(),
    }
}

pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}
