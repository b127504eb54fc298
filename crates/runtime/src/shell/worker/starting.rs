//! A worker starts the tasks of an incarnation.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_model::{Epoch, Error, ErrorKind, Incarnation, Result};
use anabranch_protocol::coordinator::Report;
use anabranch_protocol::worker::{Input, Phase};
use anabranch_state::Log;

use super::{FromThread, Starting, WorkerMail, WorkerShell};
use crate::durable::recorder::Recorder;
use crate::network::wiring::{Placed, Wiring};
use crate::shell::aligned::aligned;
use crate::shell::assembly::{Assembly, DurableParts, Life, Reporting};
use crate::shell::deployment::Deployment;
use crate::shell::running::Running;
use crate::task::job_state::JobState;
use crate::task::mail::Mail;
use crate::task::view::TaskView;

impl WorkerShell {
    /// Starts tasks, once the channels to other workers are connected.
    pub(super) fn start(&mut self, starting: Starting) {
        // The tasks of the incarnation before have ended.
        self.from = starting.from.as_ref().map(|from| (from.incarnation, from.epoch));
        self.handover = self
            .running
            .take()
            .zip(self.from)
            .and_then(|(running, (incarnation, epoch))| running.hand_over(incarnation, epoch));
        self.asking.cancelled();
        self.restoring.clear();
        self.dropped.clear();
        let incarnation = starting.incarnation;
        if let Some(why) = self.refused.take() {
            return self.start_with(&starting, Err(why), self.deployment.retries_opening);
        }
        let Some((network, job)) = self.network.clone().filter(|_| !self.deployment.placement.is_empty()) else {
            let wiring = Wiring::local(&self.deployment.plan);
            return self.start_with(&starting, wiring, false);
        };
        self.connecting = Some(starting);
        let Deployment { plan, placement, peers, .. } = self.deployment.clone();
        let mail = Arc::clone(&self.mail);
        let connected = Box::new(move |wiring| mail.send_from_thread(FromThread::Connected(incarnation, wiring)));
        network.connect(Placed { life: (job, incarnation), plan, placement, peers }, connected);
    }

    pub(super) fn connected(&mut self, incarnation: Incarnation, wiring: Result<Wiring>) {
        if let Some(starting) = self.connecting.take_if(|starting| starting.incarnation == incarnation) {
            let is_wanted = self.protocol.phase() == Phase::Running;
            // An unreachable worker will soon be reported as lost: others take its tasks.
            self.start_with(&starting, if is_wanted { wiring } else { Err(Error::cancelled()) }, true);
        }
    }

    /// Starts tasks. On an error one of them has failed, and all are dropped.
    fn start_with(&mut self, starting: &Starting, wiring: Result<Wiring>, retries: bool) {
        let Starting { incarnation, tasks, .. } = starting;
        let retries = match &wiring {
            Ok(_) => self.deployment.retries_opening,
            Err(_) => retries,
        };
        let Err(error) = wiring.and_then(|wiring| self.try_start(starting, wiring)) else { return };
        self.running.iter().for_each(Running::cancel);
        if let Some(first) = tasks.all.first().filter(|_| error.kind() != ErrorKind::Cancelled) {
            self.failed(*incarnation, *first, error, retries);
        }
        tasks.all.iter().for_each(|task| self.input(Input::Task(*incarnation, *task, Report::Gone)));
    }

    fn try_start(&mut self, starting: &Starting, wiring: Wiring) -> Result<()> {
        let Starting { incarnation, tasks, from } = starting;
        let (incarnation, from) = (*incarnation, from.as_ref());
        let preparation = self.take_preparation();
        let goes_on = self.handover.is_some() || preparation.is_some();
        let copied = self.copied().into_iter();
        copied.for_each(|store| self.collector.start(&store, incarnation, from, goes_on));
        let Deployment { plan, origin, checkpoints, placement, .. } = &self.deployment;
        let state = match (from, checkpoints, origin) {
            (Some(from), Some(checkpoints), _) => JobState::from_tasks(&checkpoints.store, from.tasks.values()),
            (_, _, Some(origin)) => origin.load(plan),
            _ => JobState::default(),
        };
        let (snapshots, recorder) = match checkpoints {
            Some(checkpoints) => {
                let (sender, snapshots) = channel();
                let recorder = Recorder::new(checkpoints.store.clone(), plan, incarnation, Arc::clone(&self.clock));
                (Some(sender), Some((recorder, snapshots)))
            }
            None => (None, None),
        };
        let durable = (checkpoints.is_some() || origin.is_some()).then(|| {
            let checkpoints = checkpoints.as_ref();
            let former = from
                .zip(checkpoints)
                .map_or(&[][..], |(from, checkpoints)| checkpoints.former.behind(from.incarnation));
            DurableParts {
                scope: checkpoints.map_or(String::new(), |checkpoints| checkpoints.job.clone()),
                former: former.to_vec(),
                state,
                // Without a timeout nobody waits for progress.
                progress_interval: checkpoints.map_or(Duration::MAX, |checkpoints| checkpoints.progress_interval),
                snapshots,
                log: checkpoints.map(|checkpoints| Log::new(checkpoints.store.clone())),
            }
        });
        let after = from.map_or(Epoch(0), |from| from.epoch);
        let asks = self.network.is_some();
        let life = Life { incarnation, after, tasks: &tasks.all, placement, asks };
        let mail: Arc<dyn Mail> = Arc::<dyn WorkerMail>::clone(&self.mail);
        let (clock, notices) = (Arc::clone(&self.clock), Arc::clone(&self.shared.notices));
        let reporting = Reporting { clock, notices, mail: Arc::clone(&mail) };
        let wiring = Arc::new(wiring);
        let channels = (Arc::clone(plan), Arc::clone(&wiring));
        let before = (self.handover.take(), preparation);
        let assembly = Assembly::new(channels, self.connectors.clone(), reporting, &life, durable, before)?;
        let views: Arc<[TaskView]> = tasks.all.iter().map(|task| assembly.view(*task)).collect();
        let restoring = views.iter().filter(|view| view.restores).map(|view| (view.id, view.place()));
        self.restoring = restoring.collect();
        self.shared.show(Arc::clone(&views));
        let (host, plan) = (assembly.host(), (Arc::clone(plan), placement.clone()));
        let alone = !asks || self.deployment.placement.is_empty();
        assembly.control().align(aligned(&self.deployment.plan, &views, alone));
        assembly.control().gather(tasks, after, checkpoints.is_some());
        self.running = Some(Running::new(assembly.control(), wiring, host, plan));
        self.take_hold();
        self.take_alignment();
        let Some(running) = &mut self.running else { return Ok(()) };
        if let Some(mut recorder) = recorder {
            assembly.pass_files_on(&mut recorder.0);
            running.record(recorder, mail, self.drive)?;
        }
        running.start(&views, assembly, self.drive)?;
        running.order(&views, &self.clock, self.drive)
    }
}
