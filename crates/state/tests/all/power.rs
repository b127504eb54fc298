//! Checkpoints, the log and savepoints on a disk that keeps only what was made durable: the power fails at
//! every operation, and every operation fails.

use std::path::Path;
use std::sync::Arc;

use anabranch_model::{Epoch, Incarnation, KeyGroupRange, KeyGroups, PlanVersion, StageId, TaskId};
use anabranch_state::{
    Appended, Blob, DiskFault, Entry, FORMAT, Log, Manifest, ModelDisk, OperatorState, Savepoint, StateFile, Store,
    TaskState, decode_manifest, encode_manifest,
};

const JOB: &str = "/disk/job";
const SAVEPOINT: &str = "/disk/savepoint";

/// What was reported as written.
#[derive(Default)]
struct Reported {
    /// The number of the newest checkpoint's entry.
    checkpoint: Option<u64>,
    savepoint: bool,
}

fn disk() -> Arc<ModelDisk> {
    Arc::new(ModelDisk::new(&[Path::new(JOB), Path::new(SAVEPOINT)]))
}

fn store(disk: &Arc<ModelDisk>, folder: &str) -> Store {
    Store::on_disk(Arc::<ModelDisk>::clone(disk), folder)
}

fn checkpoint(job: &Store, epoch: u64) -> anabranch_model::Result<Blob> {
    let content = format!("rows of epoch {epoch}, of which there are some").into_bytes();
    let blob = job.put(&format!("state/1-{epoch}-0.0-0.arrow"), content.into())?;
    let key_groups = KeyGroupRange { first: 0, end: 128 };
    let files = vec![StateFile { blob, rows: 1, last_pane_ms: None, key_groups, others: None, table: String::new() }];
    let task = TaskId { stage: StageId(0), index: 0 };
    let operators = vec![OperatorState { number: 0, watermark_ms: 0, files }];
    let task = TaskState { task, finished: false, source: None, operators, sink: None };
    let manifest = Manifest {
        format: FORMAT,
        job: "ads".into(),
        origin: None,
        parts: Vec::new(),
        unused: 0,
        key_groups: KeyGroups(128),
        epoch: Epoch(epoch),
        incarnation: Incarnation(1),
        tasks: vec![task],
    };
    job.put(&format!("manifests/1-{epoch}.txt"), encode_manifest(&manifest)?.into())
}

/// The work of a job, up to the first error.
fn work(disk: &Arc<ModelDisk>, reported: &mut Reported) -> anabranch_model::Result<()> {
    let job = store(disk, JOB);
    let log = Log::new(job.clone());
    let incarnation = Incarnation(1);
    log.append(0, &Entry::Begins { incarnation, owner: 7, origin: None, version: PlanVersion(1) })?;
    for epoch in 1..5 {
        let manifest = checkpoint(&job, epoch)?;
        let entry =
            Entry::Checkpoint { incarnation, epoch: Epoch(epoch), manifest: manifest.clone(), version: PlanVersion(1) };
        assert_eq!(log.append(epoch, &entry)?, Appended::Last);
        reported.checkpoint = Some(epoch);
        if let Some(old) = epoch.checked_sub(2).filter(|old| *old > 0) {
            log.remove(old)?;
            job.delete(&format!("manifests/1-{old}.txt"))?;
            job.delete(&format!("state/1-{old}-0.0-0.arrow"))?;
        }
        if epoch == 3 {
            Savepoint::copy(&job, &manifest, &store(disk, SAVEPOINT), &mut || Ok(()))?;
            reported.savepoint = true;
        }
    }
    Ok(())
}

/// Everything that was reported exists, and everything that exists is whole.
fn check(disk: &Arc<ModelDisk>, reported: &Reported, what: &str) {
    let job = store(disk, JOB);
    let mut newest = None;
    for (number, entry) in Log::new(job.clone()).entries().expect("listed") {
        let entry = entry.unwrap_or_else(|error| panic!("{what}: {error}"));
        let Entry::Checkpoint { manifest, .. } = entry else { continue };
        // Older ones may be about to be removed.
        if reported.checkpoint.is_none_or(|checkpoint| number >= checkpoint) {
            let content = job.get_blob(&manifest).unwrap_or_else(|error| panic!("{what}: {error}"));
            let manifest = decode_manifest(&content).unwrap_or_else(|error| panic!("{what}: {error}"));
            for file in manifest.tasks.iter().flat_map(|task| &task.operators).flat_map(|operator| &operator.files) {
                job.get_blob(&file.blob).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
        }
        newest = Some(number);
    }
    assert!(newest >= reported.checkpoint, "{what}: {newest:?} is the newest, {:?} was reported", reported.checkpoint);
    let place = store(disk, SAVEPOINT);
    let savepoint = Savepoint::read(&place).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(savepoint.is_some() || !reported.savepoint, "{what}: the savepoint is gone");
    for name in savepoint.iter().flat_map(|savepoint| savepoint.manifest.names()) {
        assert!(place.get(&name).expect("read").is_some(), "{what}: {name} of the savepoint is gone");
    }
}

fn operations() -> u64 {
    let disk = disk();
    let mut reported = Reported::default();
    work(&disk, &mut reported).expect("nothing goes wrong");
    assert!(reported.savepoint && reported.checkpoint == Some(4));
    check(&disk, &reported, "nothing");
    disk.operations()
}

#[test]
fn a_power_failure_at_any_operation_leaves_what_was_reported() {
    for (operation, seed) in (0..operations()).flat_map(|operation| (0..20).map(move |seed| (operation, seed))) {
        let disk = disk();
        disk.set_fault(operation, DiskFault::PowerFailure);
        let mut reported = Reported::default();
        let worked = work(&disk, &mut reported);
        disk.restart(seed);
        check(&disk, &reported, &format!("power failure at operation {operation}, seed {seed}: {worked:?}"));
    }
}

/// An operation that the disk refuses is not reported as done. What was reported before and after exists,
/// even after a power failure.
#[test]
fn an_operation_that_fails_is_a_failure_and_nothing_else_is_lost() {
    for fault in [DiskFault::Full, DiskFault::Device] {
        for (operation, seed) in (0..operations()).flat_map(|operation| (0..10).map(move |seed| (operation, seed))) {
            let disk = disk();
            disk.set_fault(operation, fault);
            let mut reported = Reported::default();
            let worked = work(&disk, &mut reported);
            let what = format!("{fault:?} at operation {operation}, seed {seed}: {worked:?}");
            check(&disk, &reported, &what);
            disk.restart(seed);
            check(&disk, &reported, &what);
        }
    }
}
