//! `anabranch worker`: a process that runs tasks for a coordinator in another one.

use std::net::{SocketAddr, ToSocketAddrs};

use anabranch_model::{Error, Result};
use anabranch_server::Engine;
use anabranch_server::cluster::{TOKEN, WorkerOptions, run_worker};

use crate::arguments::Worker;
use crate::client::token;
use crate::console::Console;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn worker(arguments: &Worker) -> Result<(), Failure> {
    let wrong = |error: Error| Failure::planning(&error, "");
    let options = WorkerOptions {
        coordinator: address(&arguments.coordinator).map_err(wrong)?,
        token: secret(arguments).map_err(wrong)?,
        name: arguments.name.clone().unwrap_or_else(host_name),
        slots: arguments.slots.unwrap_or_else(cores),
        labels: arguments.labels.clone(),
        listen: arguments.listen,
        once: arguments.once,
    };
    let mut progress = Console::error();
    let notify = |error: &Error| {
        // Without a place for notices the worker goes on.
        let _ = progress.line(&format!("notice: {error}; the worker connects again"));
    };
    run_worker(&Engine::default(), &options, notify).map_err(Failure::from)
}

fn address(text: &str) -> Result<SocketAddr> {
    let found = text.to_socket_addrs().map(|mut addresses| addresses.next());
    let wrong = |why: String| {
        Error::user(why).at(format!("--coordinator {text}")).remedy("give HOST:PORT, as the coordinator prints it")
    };
    found.map_err(|error| wrong(error.to_string()))?.ok_or_else(|| wrong("it has no address".into()))
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

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1))
}
