use std::sync::atomic::Ordering::SeqCst;

use anabranch_operators::testing::TestHost;

use super::*;

fn room() -> (Arc<TestHost>, Room) {
    let host = Arc::new(TestHost::default());
    (host.clone(), Room::new(host, 800))
}

#[test]
fn a_checkpoint_is_requested_once_before_sources_are_held_back_until_it_is_committed() {
    let (host, mut room) = room();
    let requests = || host.checkpoint_requests.load(SeqCst);
    let full = || host.reports_of_full.lock().unwrap().clone();
    room.wrote(99).unwrap();
    assert_eq!(requests(), 0);
    room.wrote(100).unwrap();
    room.wrote(399).unwrap();
    assert_eq!((requests(), full()), (1, vec![]));
    room.wrote(400).unwrap();
    assert_eq!((requests(), full()), (1, vec![true]));
    room.prepared(Epoch(5));
    assert_eq!(full(), [true], "what is prepared takes memory until it is committed");
    room.committed(Epoch(4));
    assert_eq!(full(), [true]);
    room.committed(Epoch(5));
    assert_eq!(full(), [true, false]);
    room.wrote(120).unwrap();
    room.prepared(Epoch(6));
    room.wrote(300).unwrap();
    assert_eq!(full(), [true, false, true], "the sum counts");
    drop(room);
    assert_eq!(full(), [true, false, true, false]);
}

/// The memory of a batch and of full channels does not depend on the sink's bound.
#[test]
fn what_is_on_its_way_may_exceed_a_small_bound() {
    let (host, mut room) = room();
    room.wrote(EPOCH_LEAST).unwrap();
    assert_eq!((host.checkpoint_requests.load(SeqCst), host.reports_of_full.lock().unwrap().clone()), (1, vec![true]));
    room.wrote(EPOCH_LEAST + 1).unwrap_err();
    let mut large = Room::new(host, 2 * EPOCH_LEAST);
    large.wrote(2 * EPOCH_LEAST).unwrap();
}

#[test]
fn many_epochs_may_exceed_the_bound_together_and_one_may_not() {
    let (_, mut room) = room();
    room.epoch_max = 800;
    room.wrote(700).unwrap();
    room.flushed();
    room.wrote(1400).unwrap();
    let error = room.wrote(1501).unwrap_err().to_string();
    assert!(error.contains("the records of one epoch take more than 800 bytes"), "{error}");
    assert!(error.contains("raise 'sink.buffer-bytes'"), "{error}");
}
