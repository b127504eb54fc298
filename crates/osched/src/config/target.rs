//! A table `[[target]]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use anabranch_model::{Error, Result};
use serde::Deserialize;

/// A running engine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// As policies and views name it.
    pub name: String,
    /// Which driver reads it.
    pub engine: Engine,
    /// Anabranch and Flink: address of the REST interface, such as `http://127.0.0.1:8080`.
    #[serde(default)]
    pub url: Option<String>,
    /// Anabranch: file with the token of its REST interface.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Anabranch and Flink: file with the certificates that are trusted for `https`, in PEM. Default: those
    /// of the system.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// Flink: addresses of the Prometheus reporters of its processes on this machine.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Storm: where `osched` listens for what the engine's Graphite reporter sends.
    #[serde(default)]
    pub graphite: Option<SocketAddr>,
    /// Storm and others: a regular expression that the command lines of the engine's processes match.
    #[serde(default)]
    pub process: Option<String>,
    /// Others: a regular expression over names of threads; its group `task` names the task that a thread
    /// runs.
    #[serde(default)]
    pub threads: Option<String>,
    /// Storm and others: components or tasks, each with those that it gets rows from, beside what the engine
    /// tells.
    #[serde(default)]
    pub inputs: BTreeMap<String, Vec<String>>,
}

/// An engine that a driver exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// This one, by its REST interface.
    Anabranch,
    /// Apache Flink, by its REST interface and its Prometheus reporter.
    Flink,
    /// Apache Storm, by its Graphite reporter.
    Storm,
    /// Any process, by the names of its threads.
    Process,
}

impl Engine {
    /// As users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Engine::Anabranch => "anabranch",
            Engine::Flink => "flink",
            Engine::Storm => "storm",
            Engine::Process => "process",
        }
    }
}

impl Target {
    pub(super) fn check(&self) -> Result<()> {
        self.check_effects()?;
        let missing = |key: &str, example: &str| {
            let error = Error::user(format!("target '{}' has no '{key}'", self.name));
            Err(error.remedy(format!("add {key} = \"{example}\"")))
        };
        match self.engine {
            Engine::Anabranch if self.url.is_none() => missing("url", "http://127.0.0.1:8080"),
            Engine::Flink if self.url.is_none() => missing("url", "http://127.0.0.1:8081"),
            Engine::Storm if self.graphite.is_none() => missing("graphite", "127.0.0.1:2003"),
            Engine::Process if self.process.is_none() => missing("process", "org.example.Main"),
            _ => Ok(()),
        }
    }

    /// Refuses a key that has no effect on its engine.
    fn check_effects(&self) -> Result<()> {
        use Engine::{Anabranch, Flink, Process, Storm};
        let keys: [(&str, bool, &[Engine]); 8] = [
            ("url", self.url.is_some(), &[Anabranch, Flink]),
            ("token-file", self.token_file.is_some(), &[Anabranch]),
            ("tls-ca", self.tls_ca.is_some(), &[Anabranch, Flink]),
            ("metrics", !self.metrics.is_empty(), &[Flink]),
            ("graphite", self.graphite.is_some(), &[Storm]),
            ("process", self.process.is_some(), &[Storm, Process]),
            ("threads", self.threads.is_some(), &[Process]),
            ("inputs", !self.inputs.is_empty(), &[Storm, Process]),
        ];
        let useless = keys.iter().find(|(_, is_given, engines)| *is_given && !engines.contains(&self.engine));
        let Some((key, ..)) = useless else { return Ok(()) };
        let engine = self.engine.name();
        let error = Error::user(format!("'{key}' has no effect on engine = \"{engine}\""));
        Err(error.at(format!("target '{}'", self.name)).remedy("leave it out"))
    }
}
