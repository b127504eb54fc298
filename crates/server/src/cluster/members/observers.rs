//! The workers as observers see them, and as users drain them.

use std::sync::Arc;

use anabranch_model::{Error, Nanos};
use anabranch_protocol::membership::{Input, Process, WorkerId};

use super::super::leader::PATIENCE;
use super::super::messages::Leader;
use super::{Known, Shared};
use crate::http;
use crate::threads::lock;

/// The workers of a cluster for observers.
#[derive(Clone)]
pub(crate) struct Members(pub(super) Arc<Shared>);

impl Members {
    /// The name of a process, for people.
    pub(crate) fn name(&self, process: Process) -> String {
        let state = lock(&self.0.state);
        state.names.get(&process.worker).cloned().unwrap_or_else(|| process.worker.to_string())
    }

    /// The newest coordinator that leads, as far as workers know.
    pub(in super::super) fn leader(&self) -> Option<Leader> {
        let since = |at: Nanos| self.0.clock.now().after(at);
        // Reports of workers that are gone since do not count.
        let said = |known: &Known| known.leader.filter(|(_, at)| since(*at) <= PATIENCE).map(|(leader, _)| leader);
        lock(&self.0.state).workers.values().filter_map(said).max()
    }

    /// Whether another coordinator stands by.
    pub(in super::super) fn has_standby(&self) -> bool {
        !lock(&self.0.state).standbys.is_empty()
    }

    /// All workers at which tasks can be placed.
    pub(crate) fn list(&self) -> Vec<http::Worker> {
        let worker = |known: &Known| {
            let labels = known.member.labels.iter().cloned().collect();
            let (name, pid, slots) = (known.name.clone(), known.pid, known.member.slots as usize);
            let address = known.exchange?.address.to_string();
            let (last_heard_at_ms, drained) = (Some(known.heard_ms), known.is_drained);
            Some(http::Worker { name, pid, slots, address, labels, tasks: 0, last_heard_at_ms, drained })
        };
        let mut workers: Vec<_> = lock(&self.0.state).workers.values().filter_map(worker).collect();
        workers.sort_by(|a, b| a.name.cmp(&b.name));
        workers
    }

    /// Whether the process with this number is a worker that is not lost.
    pub(in super::super) fn has(&self, pid: u32) -> bool {
        lock(&self.0.state).workers.values().any(|known| known.pid == pid)
    }

    /// The worker of this name, if it is there.
    pub(crate) fn worker(&self, name: &str) -> Option<WorkerId> {
        let state = lock(&self.0.state);
        let known = state.workers.values().find(|known| known.name == name && known.exchange.is_some());
        known.map(|known| known.member.process.worker)
    }

    /// The error of a name that no worker has.
    pub(crate) fn unknown(&self, name: &str) -> Error {
        let names: Vec<String> = self.list().into_iter().map(|worker| format!("'{}'", worker.name)).collect();
        let error = Error::user(format!("there is no worker '{name}'"));
        match names.is_empty() {
            true => error.remedy("there are no workers: start some"),
            false => error.remedy(format!("the workers are: {}", names.join(", "))),
        }
    }

    /// From now on the worker gets no tasks, until that is undone or its process ends; or it gets some again.
    /// Returns whether it got none before.
    pub(crate) fn drain(&self, name: &str, is_drained: bool) -> bool {
        let mut state = lock(&self.0.state);
        let Some(known) = state.workers.values_mut().find(|known| known.name == name) else { return false };
        let was_drained = std::mem::replace(&mut known.is_drained, is_drained);
        if was_drained != is_drained {
            let worker = known.member.process.worker;
            let input = if is_drained { Input::Drain(worker) } else { Input::Undrain(worker) };
            state.member(self.0.clock.now(), input, "");
        }
        was_drained
    }

    /// Slots of all workers together.
    pub(crate) fn slots(&self) -> u32 {
        let state = lock(&self.0.state);
        let present = state.workers.values().filter(|known| known.exchange.is_some() && !known.is_drained);
        present.map(|known| known.member.slots).fold(0, u32::saturating_add)
    }
}
