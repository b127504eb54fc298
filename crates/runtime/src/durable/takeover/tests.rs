//! Taking a job over, from logs and checkpoints in every condition.

use std::path::Path;

use anabranch_dataflow::JobOptions;
use anabranch_model::{KeyGroups, ManualClock, PlanVersion, StageId, TaskId};
use anabranch_protocol::coordinator::Answer;
use anabranch_state::{Access, DiskFault, ModelDisk, Prepared, SinkState};

use super::*;
use crate::durable::scribe::{FromScribe, Task};
use crate::durable::settings::{config, tasks};

/// A plan without stages: taking a job over only reads its checkpoints.
fn plan() -> Plan {
    Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new())
}

fn store(place: &Path) -> Store {
    Store::open(place.to_str().expect("text"), &Access::default()).expect("store")
}

fn checkpointing(store: &Store) -> Checkpointing {
    let (interval, timeout) = (Duration::from_secs(1), Duration::from_secs(600));
    Checkpointing { store: store.clone(), interval, timeout, restart_attempts: 10, new_job: "ads".into(), seed: 1 }
}

fn take_over(store: &Store) -> Result<TakenOver> {
    take_over_from(store, None)
}

fn take_over_from(store: &Store, running: Option<Running>) -> Result<TakenOver> {
    let (plan, checkpointing) = (plan(), checkpointing(store));
    let config = config(&plan, Some(&checkpointing));
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let taken = checkpointing.take_over(&plan, &config, &tasks(&plan), &clock, None, (running, Check::Content))?;
    Ok(taken.expect("the job has not ended"))
}

/// The epoch after which the job resumes.
fn after(taken: &TakenOver) -> Epoch {
    taken.from.as_ref().map_or(Epoch(0), |checkpoint| checkpoint.epoch)
}

/// Commits a checkpoint, as the scribe does when all tasks have acknowledged.
fn commit(taken: &mut TakenOver, number: u64, epoch: u64) -> Result<()> {
    let command = to_commit(taken, number, epoch)?;
    match taken.scribe.work(Task::Log(Box::new(command))) {
        Some(FromScribe::Store(_, Answer::Appended, None)) => Ok(()),
        Some(FromScribe::Store(_, _, Some(error)) | FromScribe::Broken(error)) => Err(error),
        _ => Err(Error::internal("no answer")),
    }
}

/// Prepares a checkpoint, and returns the command to commit it.
fn to_commit(taken: &mut TakenOver, number: u64, epoch: u64) -> Result<Command<TaskState>> {
    let task = TaskId { stage: StageId(0), index: 0 };
    let content = format!("rows of epoch {epoch}").into_bytes();
    let name = format!("prepared/{}-{epoch}-0.0-rows.bin", taken.incarnation.0);
    let blob = taken.scribe.store().put(&name, content.into())?;
    let prepared = vec![Prepared { epoch: Epoch(epoch), task: 0, blob }];
    let sink = Some(SinkState { number: 0, prepared });
    let state = TaskState { task, finished: false, source: None, operators: Vec::new(), sink };
    let (incarnation, version) = (taken.incarnation, PlanVersion(1));
    let checkpoint = Checkpoint { epoch: Epoch(epoch), incarnation, version, tasks: BTreeMap::from([(task, state)]) };
    Ok(Command::Append(number, Entry::Checkpoint(checkpoint)))
}

/// A job with the log: begins, checkpoints at the epochs 3, 5 and 8.
fn job(place: &Path) -> Store {
    let store = store(place);
    let mut taken = take_over(&store).expect("a new job");
    assert_eq!((taken.incarnation, after(&taken), taken.job.as_str()), (Incarnation(1), Epoch(0), "ads"));
    assert_eq!(taken.notices, [""; 0]);
    for (number, epoch) in [(1, 3), (2, 5), (3, 8)] {
        commit(&mut taken, number, epoch).expect("committed");
    }
    store
}

fn log_entry(place: &Path, number: u64) -> std::path::PathBuf {
    place.join(format!("log/{number:012}.json"))
}

fn damages(content: &[u8]) -> [Vec<u8>; 4] {
    let mut flipped = content.to_vec();
    flipped[content.len() / 2] ^= 4;
    [content[..content.len() / 2].to_vec(), Vec::new(), flipped, vec![0xff; content.len()]]
}

/// A file of a checkpoint is damaged, so the tasks have started from the one before. The log does not tell
/// that as long as a savepoint needs the damaged one.
#[test]
fn tasks_are_adopted_only_with_the_checkpoint_from_which_they_have_started() {
    let folder = tempfile::tempdir().expect("folder");
    let store = job(folder.path());
    let manifest = std::fs::read(folder.path().join("manifests/1-8-3.txt")).expect("read");
    let damage = || {
        std::fs::write(folder.path().join("prepared/1-8-0.0-rows.bin"), "other").expect("damaged");
        std::fs::write(folder.path().join("manifests/1-8-3.txt"), &manifest).expect("kept");
    };
    damage();
    let begun = take_over(&store).expect("an older checkpoint stands in");
    assert_eq!((begun.incarnation, after(&begun)), (Incarnation(3), Epoch(5)));
    damage();
    let from = Some((Incarnation(1), Epoch(5)));
    let running = Running { incarnation: begun.incarnation, plan: begun.plan.fingerprint().expect("a number"), from };
    let mut next = take_over_from(&store, Some(running)).expect("it begins");
    assert!(!next.adopts, "its sinks would make visible what no checkpoint contains");
    assert_eq!((next.incarnation, after(&next)), (Incarnation(5), Epoch(5)));

    commit(&mut next, 8, 9).expect("committed");
    let running = Running { incarnation: next.incarnation, plan: next.plan.fingerprint().expect("a number"), from };
    let adopted = take_over_from(&store, Some(running)).expect("it adopts");
    assert_eq!((adopted.adopts, adopted.incarnation, after(&adopted)), (true, Incarnation(5), Epoch(9)));
}

#[test]
fn a_damaged_last_entry_is_skipped_under_a_new_scope_and_reported() {
    for damage in 0..4 {
        let folder = tempfile::tempdir().expect("folder");
        let store = job(folder.path());
        let entry = log_entry(folder.path(), 3);
        let content = std::fs::read(&entry).expect("read");
        std::fs::write(&entry, &damages(&content)[damage]).expect("damaged");

        let mut taken = take_over(&store).expect("an older checkpoint stands in");
        // The entry may have begun incarnation 2.
        assert_eq!((taken.incarnation, after(&taken)), (Incarnation(3), Epoch(5)), "damage {damage}");
        assert_eq!(taken.job, "ads-3", "results of epochs 6 to 8 may be visible under the old name");
        let [passed_over, resumes] = taken.notices.as_slice() else { panic!("{:?}", taken.notices) };
        assert!(passed_over.contains("000000000003.json") && passed_over.contains("again"), "{passed_over}");
        assert_eq!(resumes, "resumes from the checkpoint of epoch 5, incarnation 1");

        assert_eq!(taken.former.behind(Incarnation(1)), ["ads", "ads-2"], "results of epoch 5 are of the former name");

        // As long as there is no newer checkpoint, the next start finds the same.
        let again = take_over(&store).expect("again");
        assert_eq!(again.former.behind(Incarnation(1)), ["ads", "ads-2", "ads-3"]);
        assert_eq!((again.incarnation, after(&again), again.job.as_str()), (Incarnation(4), Epoch(5), "ads-4"));
        // The older process is fenced: its number is taken.
        assert!(commit(&mut taken, 5, 6).is_err());
    }
}

#[test]
fn a_damaged_entry_before_the_newest_checkpoint_changes_nothing() {
    for (number, damage) in (1..3).flat_map(|number| (0..4).map(move |damage| (number, damage))) {
        let folder = tempfile::tempdir().expect("folder");
        let store = job(folder.path());
        let entry = log_entry(folder.path(), number);
        let content = std::fs::read(&entry).expect("read");
        std::fs::write(&entry, &damages(&content)[damage]).expect("damaged");
        let taken = take_over(&store).expect("the newest checkpoint is undamaged");
        assert_eq!((after(&taken), taken.job.as_str()), (Epoch(8), "ads"), "entry {number}, damage {damage}");
        assert_eq!(taken.notices, ["resumes from the checkpoint of epoch 8, incarnation 1"]);
    }
}

/// The damage may be in anything that the newest checkpoint needs; the name changes each time.
#[test]
fn a_damaged_newest_checkpoint_is_skipped_under_a_new_scope() {
    for file in ["manifests/1-8-3.txt", "prepared/1-8-0.0-rows.bin"] {
        for damage in 0..4 {
            let folder = tempfile::tempdir().expect("folder");
            let store = job(folder.path());
            let path = folder.path().join(file);
            let content = std::fs::read(&path).expect("read");
            std::fs::write(&path, &damages(&content)[damage]).expect("damaged");
            let taken = take_over(&store).expect("an older checkpoint stands in");
            assert_eq!(after(&taken), Epoch(5), "{file}, damage {damage}");
            assert_eq!(taken.job, format!("ads-{}", taken.incarnation.0));
            assert!(taken.notices[0].contains(file), "{:?}", taken.notices);
        }
    }
}

/// Once a checkpoint is committed under the new name, the name stays.
#[test]
fn the_new_scope_is_kept_by_the_next_checkpoint() {
    let folder = tempfile::tempdir().expect("folder");
    let store = job(folder.path());
    std::fs::write(log_entry(folder.path(), 3), "{").expect("damaged");
    let mut taken = take_over(&store).expect("taken over");
    commit(&mut taken, 5, 9).expect("committed");
    let again = take_over(&store).expect("again");
    assert_eq!((after(&again), again.job.as_str()), (Epoch(9), "ads-3"));
    assert_eq!(again.former.behind(Incarnation(3)), [""; 0]);
    // So does a restart within the process.
    assert_eq!(taken.former.behind(Incarnation(3)), [""; 0]);
}

#[test]
fn without_a_usable_checkpoint_the_job_is_refused_and_does_not_start_over() {
    let folder = tempfile::tempdir().expect("folder");
    let store = store(folder.path());
    let mut taken = take_over(&store).expect("a new job");
    commit(&mut taken, 1, 3).expect("committed");
    std::fs::write(log_entry(folder.path(), 1), "").expect("damaged");
    let error = take_over(&store).err().expect("refused").to_string();
    assert!(error.contains("000000000001.json") && error.contains("a new place for its checkpoints"), "{error}");
}

#[test]
fn checkpoints_without_a_log_are_refused_and_not_removed() {
    let folder = tempfile::tempdir().expect("folder");
    let former = job(folder.path());
    std::fs::remove_dir_all(folder.path().join("log")).expect("removed");
    // The process that wrote the log waits for it to come back; one that begins knows only what it finds.
    let error = take_over(&former).err().expect("refused").to_string();
    assert!(error.contains("log: cannot be listed"), "{error}");
    let error = take_over(&store(folder.path())).err().expect("refused").to_string();
    assert!(error.contains("the job's log is missing") && error.contains("restore the folder 'log'"), "{error}");
    assert!(folder.path().join("manifests/1-8-3.txt").exists());
}

#[test]
fn other_files_at_the_place_of_a_new_job_are_reported() {
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join("holiday.jpg"), "").expect("written");
    let taken = take_over(&store(folder.path())).expect("a new job");
    assert!(taken.notices.len() == 1 && taken.notices[0].contains("holiday.jpg"), "{:?}", taken.notices);
    drop(taken);
    let again = take_over(&store(folder.path())).expect("the same");
    assert_eq!(again.notices.len(), 1, "as long as there is no checkpoint");
}

/// Another process appends first: the process that finds its number taken says so, and does not take the job
/// back.
#[test]
fn a_starter_that_is_fenced_gives_way() {
    let folder = tempfile::tempdir().expect("folder");
    let store = job(folder.path());
    let plan = plan();
    let checkpointing = checkpointing(&store);
    let config = config(&plan, Some(&checkpointing));
    let mut journal = Journal::new(store.clone(), "ads".into(), &plan);
    let entries = journal.entries(&mut BTreeMap::new()).expect("read");
    let now = anabranch_model::Nanos(0);
    let mut coordinator = Coordinator::new(now, config, Owner(random_seed()), entries, tasks(&plan), None);
    let other = take_over(&store).expect("the other one is faster");
    let begun = begin(&mut coordinator, &ManualClock::default(), |command| journal.carry_out(command));
    assert!(matches!(begun, Ok(Begun::Fenced)));
    assert!(!Journal::is_taken_over(&store, other.incarnation));
    assert!(Journal::is_taken_over(&store, Incarnation(1)));
}

/// The directory of the checkpoints is on a file system that is unmounted for a while.
#[test]
fn a_log_whose_place_was_away_is_written_again() {
    let folder = tempfile::tempdir().expect("folder");
    let (place, away) = (folder.path().join("job"), folder.path().join("away"));
    let mut taken = take_over(&store(&place)).expect("a new job");
    commit(&mut taken, 1, 3).expect("committed");
    let command = to_commit(&mut taken, 2, 5).expect("prepared");
    std::fs::rename(&place, &away).expect("renamed");
    std::fs::write(&place, "").expect("a file");
    for _ in 0..2 {
        let answer = taken.scribe.work(Task::Log(Box::new(command.clone())));
        assert!(matches!(answer, Some(FromScribe::Store(2, Answer::Unknown, Some(_)))), "the coordinator asks again");
    }
    std::fs::remove_file(&place).expect("removed");
    std::fs::rename(&away, &place).expect("renamed");
    let answer = taken.scribe.work(Task::Log(Box::new(command)));
    assert!(matches!(answer, Some(FromScribe::Store(2, Answer::Appended, None))));
}

/// At every operation of a job's life, the disk loses what was not durable, or refuses the operation. The
/// next start finds a checkpoint that was reported as committed, or a newer one, under the same name; and so
/// does a start after a further power failure.
#[test]
fn no_power_failure_and_no_refused_operation_takes_a_committed_checkpoint_away() {
    let place = Path::new("/disk/job");
    let life = |disk: &Arc<ModelDisk>| {
        let store = Store::on_disk(Arc::<ModelDisk>::clone(disk), place);
        let mut committed = 0;
        let mut live = || -> Result<()> {
            for first in [1, 20] {
                let mut taken = take_over(&store)?;
                // The sinks of a start may have made visible what it resumed from.
                committed = after(&taken).0.max(committed);
                for epoch in first..first + 3 {
                    commit(&mut taken, epoch, epoch)?;
                    committed = epoch;
                }
            }
            Ok(())
        };
        (live().is_ok(), committed)
    };
    let disk = || Arc::new(ModelDisk::new(&[place]));
    let whole = disk();
    assert_eq!(life(&whole), (true, 22));
    let faults = [DiskFault::PowerFailure, DiskFault::Full, DiskFault::Device];
    for (operation, seed) in (0..whole.operations()).flat_map(|operation| (0..9).map(move |seed| (operation, seed))) {
        let (fault, disk) = (faults[seed as usize % 3], disk());
        disk.set_fault(operation, fault);
        let (went_well, mut committed) = life(&disk);
        let what = format!("{fault:?} at operation {operation}, seed {seed}, went well: {went_well}");
        for again in 0..2 {
            if fault == DiskFault::PowerFailure || again > 0 {
                disk.restart(seed + again);
            }
            let taken = take_over(&Store::on_disk(Arc::<ModelDisk>::clone(&disk), place));
            let taken = taken.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(after(&taken).0 >= committed, "{what}: {} of {committed}, start {again}", after(&taken).0);
            assert_eq!(taken.job, "ads", "{what}");
            committed = after(&taken).0;
        }
    }
}
