//! Changes of the plan while the job runs.
//!
//! A coordinator that takes the job must know by which plan. Where coordinators stand by, a record says that:
//! before a change it gets the next plan beside the present one, and the job's log decides between them.
//! `server::cluster::changes` is the product's.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc::{Receiver, TryRecvError};

use anabranch_dataflow::{Plan, StateBackendKind};
use anabranch_model::{PlanVersion, Result, Rng};
use anabranch_plan::fitted_to;
use anabranch_runtime::{Moves, Reconfigure, Reconfigured, settled_version};
use anabranch_state::Store;

use super::{PARALLELISM_MAX, Process, World};
use crate::engine::cluster::Cluster;
use crate::engine::outside::ProcessId;
use crate::engine::scenario::Scenario;

/// How the plan of the job is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) parallelism: u32,
    pub(super) state: StateBackendKind,
    /// From which the key groups of tasks are drawn; `None`: each has as many.
    shares: Option<u64>,
}

impl Variant {
    fn draw(rng: &mut Rng) -> Variant {
        let parallelism = 1 + rng.below(u64::from(PARALLELISM_MAX)) as u32;
        let state = if rng.below(3) == 0 { StateBackendKind::Disk } else { StateBackendKind::Memory };
        Variant { parallelism, state, shares: None }
    }

    /// Often with key groups that are not evenly divided.
    fn with_shares(self, mut rng: Rng) -> Variant {
        Variant { shares: (rng.below(2) == 0).then(|| rng.next_u64()), ..self }
    }

    /// The plan, with the key groups of its tasks.
    pub(super) fn plan(self, scenario: &Scenario) -> Plan {
        let plan = scenario.plan(self.parallelism, self.state);
        let Some(seed) = self.shares else { return plan };
        let (groups, mut rng) = (plan.key_groups.0, Rng::new(seed));
        let labelled = plan.stages.iter().filter_map(|stage| Some((stage.label.clone()?, stage.parallelism)));
        let shares = labelled.map(|(label, tasks)| (label, sizes(groups, tasks, &mut rng))).collect();
        plan.with_key_groups(shares)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = if self.shares.is_some() { "drawn" } else { "even" };
        write!(f, "parallelism {}, state in {:?}, {shares} shares of key groups", self.parallelism, self.state)
    }
}

/// So many key groups for each task, at least one.
fn sizes(groups: u16, tasks: u32, rng: &mut Rng) -> Vec<u16> {
    let mut ends = BTreeSet::from([groups]);
    while (ends.len() as u32) < tasks {
        ends.insert(1 + rng.below(u64::from(groups) - 1) as u16);
    }
    let mut first = 0;
    ends.into_iter().map(|end| end - std::mem::replace(&mut first, end)).collect()
}

/// By which plan the job runs, as far as users have asked for that.
#[derive(Default)]
pub(super) struct Record {
    present: Option<Variant>,
    /// What it is being changed to, and the version that this has then.
    next: Option<(Variant, PlanVersion)>,
    /// The process that may write it.
    writer: ProcessId,
}

impl Record {
    /// A process has taken the job over, and runs it so.
    pub(super) fn confirm(&mut self, variant: Variant) {
        (self.present, self.next) = (Some(variant), None);
    }
}

/// An answer that a process owes.
pub(super) struct Asked {
    variant: Variant,
    /// The job is to change if this is possible.
    is_rehearsal: bool,
    answer: Receiver<Result<Reconfigured>>,
}

impl World<'_> {
    /// How a process runs the job that takes it over: as the record says. Sometimes a user wants something
    /// else.
    pub(super) fn decide_variant(&mut self, id: ProcessId) -> Variant {
        self.record.writer = id;
        let drawn = Variant::draw(&mut self.rng);
        let has_record = self.cluster.as_ref().is_some_and(|cluster| cluster.has_standbys());
        let Some(present) = self.record.present.filter(|_| has_record && self.rng.below(8) > 0) else { return drawn };
        let store = Store::new(self.shared.lock().objects.clone(), "the place of the job");
        let settled = settled_version(&store).ok().flatten();
        self.record.next.filter(|(_, version)| settled == Some(*version)).map_or(present, |(next, _)| next)
    }

    /// A user lets the newest process go on at another parallelism, or with its state elsewhere.
    pub(super) fn change(&mut self) {
        let variant = Variant::draw(&mut self.changes).with_shares(self.changes.clone());
        let has_record = self.cluster.as_ref().is_some_and(|cluster| cluster.has_standbys());
        // There, one change at a time.
        let changing = self.processes.last().is_some_and(|process| !process.asked.is_empty());
        if !(has_record && changing) {
            self.ask(variant, has_record);
        }
    }

    fn ask(&mut self, variant: Variant, is_rehearsal: bool) {
        let Some(Process { id, job, asked, .. }) = self.processes.last_mut() else { return };
        let (id, plan) = (*id, variant.plan(&self.scenario));
        self.truth.may_run(id, &plan);
        let request = Reconfigure {
            plan,
            moves: Moves::default(),
            allow_lost_state: false,
            allow_late: true,
            dry_run: is_rehearsal,
        };
        let answer = job.handle().begin_to_reconfigure(request, fitted_to);
        asked.push(Asked { variant, is_rehearsal, answer });
        if !is_rehearsal {
            self.note(|| format!("process {id} is to change to {variant}"));
        }
    }

    /// How changes went.
    pub(super) fn take_answers(&mut self, index: usize) {
        let (mut answers, id) = (Vec::new(), self.processes[index].id);
        self.processes[index].asked.retain(|asked| match asked.answer.try_recv() {
            Ok(answer) => {
                answers.push((asked.variant, asked.is_rehearsal, answer));
                false
            }
            Err(error) => error == TryRecvError::Empty,
        });
        for (variant, is_rehearsal, answer) in answers {
            let writes = self.record.writer == id && !self.shared.lock().is_dead(id);
            match answer {
                Ok(rehearsed) if is_rehearsal => {
                    if writes {
                        self.record.next = Some((variant, rehearsed.next));
                        self.ask(variant, false);
                    }
                    continue;
                }
                Ok(done) if done.unchanged => self.run.seen.add("changes of nothing", 1),
                Ok(done) => {
                    self.run.seen.add("changes", 1);
                    self.run.seen.add("changes loaded ahead", u64::from(done.copied_bytes > 0));
                    self.note(|| format!("the job runs by version {}", done.version.0));
                    if writes {
                        self.record.present = Some(variant);
                    }
                }
                Err(error) => {
                    self.run.seen.add("changes given up", 1);
                    self.cluster.iter_mut().for_each(Cluster::undone);
                    self.note(|| error.to_string());
                }
            }
            if writes {
                self.record.next = None;
            }
        }
    }
}
