//! Requests for savepoints, of processes that own the job and of processes that have lost it.

use anabranch_dataflow::JobOptions;
use anabranch_state::{Access, Answer as Said, Asked};

use super::*;

/// A place for checkpoints, and a job without statements.
fn job() -> (tempfile::TempDir, Store, Plan) {
    let folder = tempfile::tempdir().expect("folder");
    let store = Store::open(folder.path().to_str().expect("text"), &Access::default()).expect("store");
    (folder, store, Plan::new(KeyGroups(128), JobOptions::default(), Vec::new(), Vec::new()))
}

#[test]
fn requests_are_answered_by_a_checkpoint_that_is_read_back_and_not_by_the_end_of_a_process_that_lost_the_job() {
    let (_folder, store, plan) = job();
    let mut journal = Journal::new(store.clone(), "ads".into(), &plan);
    let asked = Asked::ask(&store, "a".into(), 0).expect("asked");
    assert!(journal.look_for_requests(Nanos(0)));
    let (epoch, incarnation) = (Epoch(3), Incarnation(1));
    let checkpoint = Checkpoint { epoch, incarnation, version: PlanVersion(1), tasks: BTreeMap::new() };
    let stored = journal.write_manifest(1, checkpoint).expect("written");
    // The answer is lost.
    assert_eq!(Log::new(store.clone()).append(1, &stored).expect("appended"), Appended::Last);
    assert_eq!(asked.answer().expect("read"), None);
    assert!(matches!(journal.read(1).expect("read"), Answer::Entry(Some(Entry::Checkpoint(_)))));
    assert!(matches!(asked.answer().expect("read"), Some(Said::Checkpoint { epoch: Epoch(3), .. })));
    asked.withdraw().expect("withdrawn");

    let asked = Asked::ask(&store, "b".into(), 0).expect("asked");
    assert!(journal.look_for_requests(Nanos(10_000_000_000)));
    let version = PlanVersion(1);
    let begins = Stored::Begins { incarnation: Incarnation(2), owner: 5, origin: None, version };
    assert_eq!(Log::new(store.clone()).append(2, &begins).expect("appended"), Appended::Last);
    journal.ended();
    assert_eq!(asked.answer().expect("read"), None);
    let mut next = Journal::new(store, "ads".into(), &plan);
    next.entries(&mut BTreeMap::new()).expect("read");
    assert!(next.look_for_requests(Nanos(20_000_000_000)));
    next.ended();
    assert_eq!(asked.answer().expect("read"), Some(Said::Ended));
}

/// It does not know that it has lost the job, nor which files later checkpoints need.
#[test]
fn a_process_that_lost_the_job_leaves_the_files_of_a_checkpoint_that_answered_a_request() {
    const SECOND: u64 = 1_000_000_000;
    let (_folder, store, plan) = job();
    let mut journals = [(); 2].map(|()| Journal::new(store.clone(), "ads".into(), &plan));
    let [former, now] = &mut journals;
    let (incarnation, version) = (Incarnation(2), PlanVersion(1));
    let begins = Stored::Begins { incarnation, owner: 5, origin: None, version };
    assert_eq!(Log::new(store.clone()).append(0, &begins).expect("appended"), Appended::Last);
    former.last = Some(0);
    let asked = Asked::ask(&store, "a".into(), 0).expect("asked");
    assert!(now.look_for_requests(Nanos(0)));
    // `now` has adopted the incarnation.
    let epoch = Epoch(3);
    let checkpoint = Checkpoint { epoch, incarnation, version, tasks: BTreeMap::new() };
    let stored = now.write_manifest(1, checkpoint).expect("written");
    assert_eq!(Log::new(store.clone()).append(1, &stored).expect("appended"), Appended::Last);
    assert!(matches!(now.read(1).expect("read"), Answer::Entry(Some(Entry::Checkpoint(_)))));

    assert!(!former.look_for_requests(Nanos(0)), "it is answered");
    asked.withdraw().expect("withdrawn");
    assert!(!former.look_for_requests(Nanos(10 * SECOND)));
    let manifest = || store.list("manifests").expect("listed").len();
    assert_eq!(manifest(), 1, "removed by the one that has lost the job");
    now.known.clear();
    assert!(!now.look_for_requests(Nanos(10 * SECOND)));
    assert_eq!(manifest(), 0, "kept by the one that has it");
}
