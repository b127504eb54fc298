//! `anabranch serve`: a coordinator and a worker in one process, until it is stopped.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anabranch_model::{Error, Result};
use anabranch_server::cluster::{Coordinator, CoordinatorOptions, WorkerOptions, run_worker};
use anabranch_server::control::Security;
use anabranch_server::http::{JobOrder, Listen, Listener, new_submission};
use anabranch_server::{Engine, TableOption};
use signal_hook::consts::{SIGINT, SIGTERM};
use tracing::info;

use crate::arguments::{self, DEMO_SQL, LogFormat};
use crate::console::Console;
use crate::engine::engine;
use crate::failure::Failure;
use crate::log;
use crate::process;
use crate::signals::Signals;
use crate::worker::cores;

/// Time limit for jobs to end with a checkpoint.
const CLOSE: Duration = Duration::from_secs(30);
/// Time limit for the worker to connect to the coordinator, which is already listening.
const WAIT: Duration = Duration::from_secs(10);
/// The only worker's name.
const WORKER: &str = "local";
/// Rows per second of the demonstration, beside a browser on the same machine.
const DEMO_RATE: &str = "5000";

pub(crate) fn serve(arguments: &arguments::Serve) -> Result<(), Failure> {
    run(arguments).map_err(Failure::request)
}

fn run(arguments: &arguments::Serve) -> Result<()> {
    let exporter = log::of_server(&arguments.log, &arguments.otlp, "serve", arguments.listen.clone())?;
    let listener = Listener::bind(&Listen {
        address: arguments.listen.clone(),
        token: None,
        token_file: arguments.token_file.clone(),
        read_token_file: arguments.read_token_file.clone(),
        tls_cert: arguments.tls_cert.clone(),
        tls_key: arguments.tls_key.clone(),
    })?;
    let url = listener.url();
    let signals = Signals::catch(&[SIGINT, SIGTERM])?;
    if arguments.end_with_parent {
        process::end_with_input()?;
    }
    let engine = engine(Console::output());
    let (coordinator, token) = coordinator(&engine, arguments, listener)?;
    exporter.iter().for_each(|exporter| exporter.watch(coordinator.jobs()));
    start_worker(engine, &coordinator, token, arguments.slots.unwrap_or_else(cores))?;
    let mut progress = Console::error();
    let is_for_people = arguments.log.log_format == LogFormat::Text;
    match is_for_people {
        true => {
            progress.line(&format!("page and commands at {url}; jobs and their state are in {}", arguments.store))?;
        }
        false => info!(commands = url, version = env!("CARGO_PKG_VERSION"), "serving"),
    }
    signals.wait_for_stop();
    match is_for_people {
        true => progress
            .line("stopping all jobs at the end of an epoch; the next start resumes them; again to leave at once")?,
        false => info!("serving ends"),
    }
    coordinator.close(CLOSE);
    Ok(())
}

/// The coordinator, and the secret that its worker needs.
fn coordinator(engine: &Engine, arguments: &arguments::Serve, listener: Listener) -> Result<(Coordinator, Vec<u8>)> {
    let token = format!("{}{}", new_submission(), new_submission()).into_bytes();
    let options = CoordinatorOptions {
        store: arguments.store.clone(),
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        advertise: None,
        security: Security::Plain { token: token.clone() },
        authority: None,
        demo: Some(demo(&arguments.store)),
    };
    Ok((Coordinator::start(engine.clone(), options, listener)?, token))
}

/// The job of the demonstration. It has no terminal to print to: its results go to files beside the store, or
/// nowhere.
fn demo(store: &str) -> JobOrder {
    let rate = TableOption { table: "events".into(), name: "rows-per-second".into(), value: DEMO_RATE.into() };
    let path = std::path::absolute(store).map(|path| path.join("demo-results"));
    let results = match path {
        Ok(path) if !store.contains("://") && !path.display().to_string().contains('\'') => {
            format!("'connector' = 'filesystem', 'format' = 'json', 'path' = '{}'", path.display())
        }
        _ => "'connector' = 'blackhole'".to_owned(),
    };
    let sql = DEMO_SQL.replace("'connector' = 'print'", &results);
    JobOrder { name: "demo".into(), sql, options: vec![rate], ..JobOrder::default() }
}

/// Starts the worker, which ends with the process.
fn start_worker(engine: Engine, coordinator: &Coordinator, token: Vec<u8>, slots: u32) -> Result<()> {
    let address = coordinator.address().ok_or_else(|| Error::internal("a coordinator does not listen"))?;
    let options = WorkerOptions {
        coordinators: vec![address.to_string()],
        token,
        authority: None,
        name: WORKER.to_owned(),
        slots,
        labels: Vec::new(),
        listen: None,
        advertise: None,
        state: None,
        // If the machine stands still for a while, the worker may be lost, and joins again.
        once: false,
        wait: WAIT,
    };
    let run = move || {
        if let Err(error) = run_worker(&engine, &options) {
            tracing::warn!(error = %error, "the worker of this process has ended");
        }
    };
    let thread = std::thread::Builder::new().name("worker".into()).spawn(run);
    thread.map(drop).map_err(|error| Error::outside(format!("cannot start a thread: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demonstration_prints_nothing() {
        let engine = Engine::default();
        for (store, connector) in
            [("data", "'filesystem'"), ("s3://bucket/jobs", "'blackhole'"), ("it's", "'blackhole'")]
        {
            let JobOrder { sql, options, .. } = demo(store);
            assert!(sql.contains(connector) && !sql.contains("'print'"), "{sql}");
            let settings = anabranch_server::Settings { table_options: options, ..Default::default() };
            engine.plan(&sql, &settings).expect("a plan");
        }
    }
}
