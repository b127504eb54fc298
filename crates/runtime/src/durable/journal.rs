//! Reads and writes the job's log and the checkpoints in it for the coordinator. It executes commands and
//! decides nothing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_dataflow::{KeptPart, Plan};
use anabranch_model::{Epoch, Error, ErrorKind, Incarnation, KeyGroups, Nanos, OperatorId, PlanVersion, Result};
use anabranch_protocol::coordinator::{Answer, Checkpoint, Command, Entry, Owner};
use anabranch_state::{
    Appended, Blob, Entry as Stored, FORMAT, Found, Log, Manifest, Store, TaskState, decode_manifest, encode_manifest,
};

use crate::change::fits;
use crate::change::reconfiguration::Comparison;
use crate::durable::requests::Requests;

/// Identifies a checkpoint of a job. A checkpoint that was committed later is greater.
pub(crate) type CheckpointId = (Incarnation, Epoch);

/// The durable side of a job's coordination.
pub(crate) struct Journal {
    pub(crate) store: Store,
    log: Log,
    /// Name of the job in the manifests that are written.
    pub(crate) job: String,
    /// [`Savepoint::id`](anabranch_state::Savepoint::id) of the savepoint that the job started from, if
    /// known.
    pub(crate) origin: Option<String>,
    version: PlanVersion,
    /// Number of the entry of the newest checkpoint that was found.
    newest: Option<u64>,
    key_groups: KeyGroups,
    /// The parts of the plan that keep something.
    parts: Vec<KeptPart>,
    /// No identity ever had this number or a higher one.
    unused: u32,
    known: BTreeMap<CheckpointId, KnownCheckpoint>,
    /// Entries from which no job can resume, by their numbers, with the reason.
    unusable: BTreeMap<u64, String>,
    /// Number of the last entry that was found or written.
    last: Option<u64>,
    /// An entry is in the log, but the disk refused to make it durable.
    is_broken: bool,
    /// An entry that could not be appended, while it is unknown whether it is in the log.
    doubtful: Option<(u64, Stored)>,
    /// The store is known to refuse a second entry of a number.
    refuses: bool,
    requests: Requests,
}

/// A checkpoint that is in the log, or about to be.
struct KnownCheckpoint {
    /// Number of its entry in the log.
    sequence: u64,
    job: String,
    origin: Option<String>,
    /// For each identity that the plan gives a part itself, the identity of the part in the checkpoint.
    ids: BTreeMap<OperatorId, OperatorId>,
    /// No identity ever had this number or a higher one.
    unused: u32,
    /// Names of everything that belongs to it.
    names: BTreeSet<String>,
}

impl Journal {
    pub(crate) fn new(store: Store, job: String, plan: &Plan) -> Journal {
        let (log, requests) = (Log::new(store.clone()), Requests::new(store.clone()));
        Journal {
            store,
            log,
            job,
            origin: None,
            version: plan.version,
            newest: None,
            key_groups: plan.key_groups,
            parts: plan.kept_parts(),
            unused: plan.identities.unused(),
            known: BTreeMap::new(),
            unusable: BTreeMap::new(),
            last: None,
            is_broken: false,
            doubtful: None,
            refuses: false,
            requests,
        }
    }

    /// All entries of the log. Checkpoints in `aside` count as unusable, and damaged ones are added to it. A
    /// damaged entry is unusable too. It may have begun an incarnation, so it gets a higher incarnation than
    /// all entries before it.
    pub(crate) fn entries(
        &mut self,
        aside: &mut BTreeMap<CheckpointId, Error>,
    ) -> Result<Vec<(u64, Entry<TaskState>)>> {
        let mut entries = Vec::new();
        let mut highest = Incarnation(0);
        let found = self.log.entries()?;
        let versions = found.iter().filter_map(|(_, stored)| Some(stored.as_ref().ok()?.version()));
        self.version = versions.max().unwrap_or(self.version);
        let sequence_of_checkpoint = |(sequence, stored): &(u64, Result<Stored>)| {
            matches!(stored, Ok(Stored::Checkpoint { .. })).then_some(*sequence)
        };
        self.newest = found.iter().rev().find_map(sequence_of_checkpoint);
        for (sequence, stored) in found {
            let entry = match stored {
                Ok(stored) => {
                    if let Stored::Begins { origin, .. } = &stored {
                        self.origin.clone_from(origin);
                    }
                    self.entry(sequence, stored, aside)?
                }
                Err(error) => {
                    self.unusable.insert(sequence, error.to_string());
                    Entry::Unusable(Incarnation(highest.0 + 1))
                }
            };
            highest = highest.max(entry.incarnation());
            self.last = Some(sequence);
            entries.push((sequence, entry));
        }
        Ok(entries)
    }

    fn entry(
        &mut self,
        sequence: u64,
        stored: Stored,
        aside: &mut BTreeMap<CheckpointId, Error>,
    ) -> Result<Entry<TaskState>> {
        Ok(match stored {
            Stored::Begins { incarnation, owner, version, .. } => Entry::Begins(incarnation, Owner(owner), version),
            Stored::Adopts { incarnation, owner } => Entry::Adopts(incarnation, Owner(owner)),
            Stored::Ended { incarnation } => Entry::Ended(incarnation),
            Stored::Checkpoint { incarnation, epoch, manifest, version } => {
                let id = (incarnation, epoch);
                let read = match aside.contains_key(&id) {
                    true => None,
                    false => Some(self.checkpoint(sequence, &manifest, version)),
                };
                match read {
                    Some(Ok(checkpoint)) => return Ok(Entry::Checkpoint(checkpoint)),
                    // A manifest that cannot be read at the moment may be undamaged. If it does not fit the
                    // query, the user must decide.
                    Some(Err(error)) if error.kind() != ErrorKind::Damaged => return Err(error),
                    Some(Err(error)) => _ = aside.insert(id, error),
                    None => {}
                }
                self.unusable.extend(aside.get(&id).map(|error| (sequence, error.to_string())));
                Entry::Unusable(incarnation)
            }
        })
    }

    fn checkpoint(&mut self, sequence: u64, blob: &Blob, version: PlanVersion) -> Result<Checkpoint<TaskState>> {
        let at = |error: Error| error.at(format!("{}/{}", self.store.place(), blob.name));
        let manifest = decode_manifest(&self.store.get_blob(blob)?).map_err(at)?;
        let is_former = version < self.version && self.newest != Some(sequence);
        let ids = self.fits(&manifest, is_former).map_err(at)?;
        let names = manifest.names().chain([blob.name.clone()]).collect();
        let Manifest { epoch, incarnation, job, origin, unused, .. } = manifest;
        let known = KnownCheckpoint { sequence, job, origin, ids, unused, names };
        self.known.insert((incarnation, epoch), known);
        let tasks = manifest.tasks.into_iter().map(|state| (state.task, state)).collect();
        Ok(Checkpoint { epoch, incarnation, version, tasks })
    }

    /// Checks that the plan has the parts of the checkpoint: then every part is restored, and none starts
    /// empty. A checkpoint from before a change that a later checkpoint has completed may have other parts,
    /// which were compared when the job changed. Returns, for each identity that the plan gives a part
    /// itself, the identity of the part in the checkpoint.
    fn fits(&self, manifest: &Manifest, is_former: bool) -> Result<BTreeMap<OperatorId, OperatorId>> {
        fits::check_key_groups(manifest, self.key_groups)?;
        let then = &manifest.parts;
        if is_former {
            return Ok(Comparison::of(then.clone(), self.parts.clone()).identities());
        }
        fits::check(then, &self.parts)?;
        Ok(self.parts.iter().map(|part| part.id).zip(then.iter().map(|part| part.id)).collect())
    }

    /// The plan, whose parts get the identities that they have in a checkpoint of the log.
    pub(crate) fn carry(&self, plan: &Plan, checkpoint: CheckpointId) -> Plan {
        let mut plan = Plan { version: self.version, ..plan.clone() };
        if let Some(known) = self.known.get(&checkpoint) {
            plan.identities.carry(&known.ids, known.unused);
        }
        plan
    }

    /// Checkpoints describe the parts of this plan from here on.
    pub(crate) fn set_plan(&mut self, plan: &Plan) {
        (self.parts, self.unused, self.version) = (plan.kept_parts(), plan.identities.unused(), plan.version);
    }

    /// Name of the job that wrote a checkpoint of the log, and the savepoint that it started from.
    pub(crate) fn job_of(&self, checkpoint: CheckpointId) -> Option<(&str, Option<&str>)> {
        self.known.get(&checkpoint).map(|known| (known.job.as_str(), known.origin.as_deref()))
    }

    /// Why the entries after this checkpoint are unusable, oldest first. Without a checkpoint, why any entry
    /// is. Results of later epochs may already be visible.
    pub(crate) fn unusable_behind(&self, checkpoint: Option<CheckpointId>) -> impl Iterator<Item = &str> {
        let first = checkpoint.and_then(|id| self.known.get(&id)).map_or(0, |known| known.sequence);
        self.unusable.range(first..).map(|(_, why)| why.as_str())
    }

    /// Ensures that no power failure loses the checkpoint that the job resumes from.
    pub(crate) fn confirm(&self, checkpoint: CheckpointId) -> Result<()> {
        self.known.get(&checkpoint).map_or(Ok(()), |known| self.log.confirm(known.sequence))
    }

    /// Whether the log has an entry that the disk refused to make durable. The job must not continue from it.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Carries out a command for the log. Returns the answer, with the number that it concerns, if the
    /// command needs one.
    pub(crate) fn carry_out(&mut self, command: Command<TaskState>) -> Result<Option<(u64, Answer<TaskState>)>> {
        if matches!(command, Command::Append(..) | Command::Read(_)) {
            self.settle_doubt()?;
        }
        match command {
            Command::Append(sequence, entry) => Ok(Some((sequence, self.append(sequence, entry)?))),
            Command::Read(sequence) => Ok(Some((sequence, self.read(sequence)?))),
            Command::Remove(sequence) => self.log.remove(sequence).map(|()| None),
            Command::Forget(epoch, incarnation) => self.forget((incarnation, epoch)).map(|()| None),
            other => Err(Error::internal(format!("the log cannot carry out {other:?}"))),
        }
    }

    fn append(&mut self, sequence: u64, entry: Entry<TaskState>) -> Result<Answer<TaskState>> {
        let stored = match entry {
            Entry::Begins(incarnation, owner, version) => {
                Stored::Begins { incarnation, owner: owner.0, origin: self.origin.clone(), version }
            }
            Entry::Adopts(incarnation, owner) => Stored::Adopts { incarnation, owner: owner.0 },
            Entry::Checkpoint(checkpoint) => self.write_manifest(sequence, checkpoint)?,
            Entry::Ended(incarnation) => Stored::Ended { incarnation },
            Entry::Unusable(_) => return Err(Error::internal("an unusable entry is never written")),
        };
        let appended = self.log.append(sequence, &stored);
        if appended.is_err() && !self.store.is_remote() {
            self.doubtful = Some((sequence, stored.clone()));
            // If the directory cannot be read either, the next request finds out.
            let _ = self.settle_doubt();
        }
        Ok(match appended? {
            Appended::Last => {
                self.appended(sequence, &stored)?;
                Answer::Appended
            }
            Appended::Taken => Answer::Taken,
            Appended::Passed => Answer::Passed,
        })
    }

    /// Finds out whether a doubtful entry is in the log. A directory does not lose answers: if the entry
    /// exists, the disk has refused to make its name durable.
    fn settle_doubt(&mut self) -> Result<()> {
        let Some((sequence, entry)) = &self.doubtful else { return Ok(()) };
        self.is_broken = self.log.has(*sequence, entry)?;
        self.doubtful = None;
        match self.is_broken {
            true => Err(Error::outside("the disk has refused to make an entry of the job's log durable")
                .at(self.store.place().to_owned())
                .remedy("check the disk; started again, the job resumes from its newest checkpoint")),
            false => Ok(()),
        }
    }

    /// An entry is in the log.
    fn appended(&mut self, sequence: u64, entry: &Stored) -> Result<()> {
        self.last = Some(sequence);
        match entry {
            Stored::Begins { .. } | Stored::Adopts { .. } if self.refuses => Ok(()),
            Stored::Begins { .. } | Stored::Adopts { .. } => {
                self.log.check_refusal(sequence, entry)?;
                self.refuses = true;
                Ok(())
            }
            Stored::Checkpoint { incarnation, epoch, manifest, .. } => {
                if let Some(known) = self.known.get(&(*incarnation, *epoch)) {
                    self.requests.committed(*epoch, manifest, &known.names);
                }
                Ok(())
            }
            Stored::Ended { .. } => Ok(()),
        }
    }

    /// Keeps the checkpoint that a running savepoint needs and nothing else keeps any more.
    pub(crate) fn take_up_request(&mut self, now: Nanos) -> Result<()> {
        self.requests.take_up(now)
    }

    /// Time until it polls for a request again.
    pub(crate) fn until_look(&self, now: Nanos) -> Duration {
        self.requests.until_look(now)
    }

    /// Polls for a request for a savepoint. Returns whether there is a new one, which the next checkpoint
    /// answers.
    pub(crate) fn look_for_requests(&mut self, now: Nanos) -> bool {
        let (found, released) = self.requests.poll(now);
        // Another process may have taken the job over. This one does not know which objects the checkpoints
        // of that process need, also if that process has adopted the incarnation.
        if !released.is_empty() && self.has_last_entry() {
            // Objects that cannot be removed now only take space. The next start removes them.
            let _ = self.remove(&released);
        }
        found
    }

    /// The job has ended in this process. If another process has taken the job over, that process answers
    /// requests.
    pub(crate) fn ended(&self) {
        if self.has_last_entry() {
            self.requests.ended();
        }
    }

    /// Whether the log ends with an entry of this process. False if the log cannot be read.
    fn has_last_entry(&self) -> bool {
        self.last.is_some_and(|last| self.log.ends_with(last).unwrap_or(false))
    }

    fn write_manifest(&mut self, sequence: u64, checkpoint: Checkpoint<TaskState>) -> Result<Stored> {
        let Checkpoint { epoch, incarnation, version, tasks } = checkpoint;
        let manifest = Manifest {
            format: FORMAT,
            job: self.job.clone(),
            origin: self.origin.clone(),
            parts: self.parts.clone(),
            unused: self.unused,
            key_groups: self.key_groups,
            epoch,
            incarnation,
            tasks: tasks.into_values().collect(),
        };
        // A former coordinator of the same tasks may still be writing a manifest of the same epoch.
        let name = format!("manifests/{}-{}-{sequence}.txt", incarnation.0, epoch.0);
        let blob = self.store.put(&name, encode_manifest(&manifest)?.into())?;
        let names = manifest.names().chain([name]).collect();
        let ids = self.parts.iter().map(|part| (part.id, part.id)).collect();
        let Manifest { job, origin, unused, .. } = manifest;
        self.known.insert((incarnation, epoch), KnownCheckpoint { sequence, job, origin, ids, unused, names });
        Ok(Stored::Checkpoint { incarnation, epoch, manifest: blob, version })
    }

    fn read(&mut self, sequence: u64) -> Result<Answer<TaskState>> {
        Ok(match self.log.read(sequence)? {
            Found::Nothing => Answer::Entry(None),
            Found::Passed => Answer::Passed,
            Found::Entry(stored) => {
                // An entry of this process whose answer was lost is in the log after all.
                if let Stored::Checkpoint { incarnation, epoch, .. } = &stored
                    && self.known.contains_key(&(*incarnation, *epoch))
                {
                    self.appended(sequence, &stored)?;
                }
                Answer::Entry(Some(self.entry(sequence, stored, &mut BTreeMap::new())?))
            }
        })
    }

    /// The newest version of the plan in the log.
    pub(crate) fn version(&self) -> PlanVersion {
        self.version
    }

    /// Removes what belongs to this checkpoint alone.
    fn forget(&mut self, checkpoint: CheckpointId) -> Result<()> {
        let Some(old) = self.known.remove(&checkpoint) else { return Ok(()) };
        self.remove(&old.names)
    }

    /// Removes these objects, except those that a known checkpoint or a request needs. Snapshots refer to an
    /// object in consecutive checkpoints only: an old object that a later checkpoint needs is also needed by
    /// the known ones.
    pub(crate) fn remove(&self, names: &BTreeSet<String>) -> Result<()> {
        let known = self.known.values().flat_map(|known| &known.names);
        let needed: BTreeSet<&String> = known.chain(self.requests.held()).collect();
        self.store.delete_all(names.iter().filter(|name| !needed.contains(name)).map(String::as_str))
    }

    /// Removes files of earlier incarnations that belong to no checkpoint. It leaves the files of later
    /// incarnations, in case this process has already lost the job.
    pub(crate) fn remove_strays(&self, own: Incarnation) -> Result<()> {
        let is_earlier = |name: &str| incarnation_of(name).is_some_and(|incarnation| incarnation < own);
        let known = self.known.values().flat_map(|known| &known.names);
        let needed: BTreeSet<&str> = known.chain(self.requests.held()).map(String::as_str).collect();
        self.store.keep_copies(|name| needed.contains(name));
        for folder in ["state", "prepared", "manifests"] {
            let names = self.store.list(folder)?;
            let strays = names.iter().map(String::as_str);
            self.store.delete_all(strays.filter(|name| !needed.contains(name) && is_earlier(name)))?;
        }
        Ok(())
    }

    /// Whether another process has taken the job over from the incarnation `own`. False if the log cannot be
    /// read.
    pub(crate) fn is_taken_over(store: &Store, own: Incarnation) -> bool {
        let later = |entry: &Result<Stored>| entry.as_ref().is_ok_and(|entry| entry.incarnation() > own);
        Log::new(store.clone()).entries().is_ok_and(|entries| entries.iter().any(|(_, entry)| later(entry)))
    }

    /// The error for a request to the log that hangs for longer than the timeout of checkpoints.
    pub(crate) fn no_answer(store: &Store) -> Error {
        Error::outside("the checkpoint storage does not answer")
            .at(store.place().to_owned())
            .remedy("check it, or allow more time ('checkpoint-timeout'); started again, the job resumes from its newest checkpoint")
    }

    /// The error of a coordinator whose number in the log another process has taken.
    pub(crate) fn lost(store: &Store) -> Error {
        Error::fenced("another process has taken the job over")
            .at(store.place().to_owned())
            .remedy(
                "let only one process run the job. If it is another job that keeps its checkpoints there, give each a place of its \
                 own (checkpoint-directory)",
            )
    }
}

/// The incarnation that has written an object, as its name says.
fn incarnation_of(name: &str) -> Option<Incarnation> {
    let file = name.rsplit('/').next()?;
    file.split_once('-')?.0.parse().ok().map(Incarnation)
}

/// The log of a job without checkpoints: no other process knows the job, so every write succeeds.
pub(crate) fn in_memory<S>(command: &Command<S>) -> Option<(u64, Answer<S>)> {
    match command {
        Command::Append(sequence, _) => Some((*sequence, Answer::Appended)),
        Command::Read(sequence) => Some((*sequence, Answer::Entry(None))),
        _ => None,
    }
}
