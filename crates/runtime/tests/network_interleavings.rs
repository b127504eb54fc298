//! Interleavings of the threads of a connection with the tasks at its ends: `outbox` and `returns` are
//! compiled here with primitives that let a scheduler choose the next thread at each operation. A thread that
//! waits forever is a deadlock, which the scheduler detects.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/credit.rs"]
mod credit;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/network/outbox.rs"]
mod outbox;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/returns.rs"]
mod returns;

/// The wings of the crate, as the files above name them.
mod task {
    pub(crate) use crate::{credit, sync};
}

/// The items that the files above import from their crate.
mod sync {
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
}

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_model::EventTime;
use outbox::{Closed, NextFrames, Outbox};
use returns::{Permit, Question, Return, Returns};
use shuttle::sync::mpsc::{Receiver, channel};
use shuttle::thread;
use sync::Arc;

/// Schedules of each test. Some tens are enough to find the bugs that the tests are for.
const SCHEDULES: usize = 400;

/// A channel and a number that grows on it.
type Frame = (usize, u64);

const FRAMES: u64 = 4;
const BYTES: u64 = 10;
/// No time passes in these tests.
const BEAT: Duration = Duration::from_secs(1);
/// The number of a question.
const QUESTION: u64 = u64::MAX;
/// What the receiver answers.
const REACHED: EventTime = EventTime(5);

/// What a test has of a connection: its sending end, what it delivers, and its threads.
type Connection = (Arc<Outbox<Frame>>, Receiver<(Frame, Permit)>, Vec<thread::JoinHandle<()>>);

/// Both ends, without sockets: a thread passes frames from the sender to the receiver, another one credits
/// back. The frames come out with what holds their bytes.
fn connection(limits: &[u64]) -> Connection {
    let (outbox, returns) = (Arc::new(Outbox::<Frame>::new(limits.len())), Returns::new(limits.iter().copied()));
    let (deliver, delivered) = channel();
    let (frames, ends, received) = (Arc::clone(&outbox), Arc::clone(&returns), Arc::clone(&returns));
    let rows = thread::spawn(move || {
        let mut queue = VecDeque::new();
        while frames.take(&mut queue, BEAT) == NextFrames::Write {
            for frame in queue.drain(..) {
                let permit = received.received(frame.0, BYTES).unwrap();
                if frame.1 == QUESTION {
                    Question { permit, sent: FRAMES }.answer(REACHED);
                    continue;
                }
                // The test may need no more.
                let _ = deliver.send((frame, permit));
            }
        }
        ends.end();
    });
    let granted = Arc::clone(&outbox);
    let credit = thread::spawn(move || {
        for (channel, bytes) in returns.limits().into_iter().enumerate() {
            granted.open(channel, bytes).unwrap();
        }
        let mut due = Vec::new();
        while returns.take(&mut due, BEAT) == returns::NextCredits::Send {
            due.drain(..).for_each(|(channel, of)| match of {
                Return::Credit(bytes) => granted.returned(channel, bytes).unwrap(),
                Return::Reached(asked, time) => granted.answered(channel, asked, time).unwrap(),
            });
        }
    });
    (outbox, delivered, vec![rows, credit])
}

fn sender(outbox: &Arc<Outbox<Frame>>, channel: usize) -> thread::JoinHandle<Result<(), Closed>> {
    let outbox = Arc::clone(outbox);
    thread::spawn(move || (0..FRAMES).try_for_each(|number| send(&outbox, channel, &[number], false)))
}

/// Sends frames of one envelope as a task does: it waits while there is no room.
fn send(outbox: &Outbox<Frame>, channel: usize, numbers: &[u64], last: bool) -> Result<(), Closed> {
    while outbox.room(channel)?.is_none() {
        outbox.wait_for_room(channel);
    }
    outbox.push(channel, numbers.iter().map(|number| (BYTES, (channel, *number))), last)
}

/// The last frames of all channels end the connection, also those that still wait for credit.
#[test]
fn a_connection_ends_by_itself_after_the_last_frames_of_all_channels() {
    let interleave = || {
        let (outbox, delivered, threads) = connection(&[1, 3 * BYTES]);
        let senders = [0, 1].map(|channel| {
            let outbox = Arc::clone(&outbox);
            let numbers: Vec<u64> = (0..FRAMES).collect();
            thread::spawn(move || send(&outbox, channel, &numbers, true))
        });
        let mut next = [0, 0];
        for _ in 0..2 * FRAMES {
            let ((channel, number), _permit) = delivered.recv().unwrap();
            assert_eq!(number, next[channel]);
            next[channel] += 1;
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(delivered.recv().is_err());
        assert_eq!(outbox.room(0), Err(Closed));
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn a_question_is_asked_once_and_answered_after_what_was_sent_before() {
    let interleave = || {
        let (outbox, delivered, threads) = connection(&[2 * BYTES]);
        let receiver = thread::spawn(move || delivered.iter().count() as u64);
        sender(&outbox, 0).join().unwrap().unwrap();
        while outbox.reached(0, FRAMES).is_none() {
            outbox.ask(0, FRAMES, FRAMES, || (BYTES, (0, QUESTION)));
            thread::yield_now();
        }
        assert_eq!(outbox.reached(0, FRAMES), Some(REACHED));
        assert_eq!(outbox.reached(0, FRAMES + 1), None);
        outbox.finish();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(receiver.join().unwrap(), FRAMES, "and no question");
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn every_frame_passes_in_order_within_its_limit() {
    let interleave = || {
        // Room for one frame, and for some.
        let limits = [1, 3 * BYTES];
        let (outbox, delivered, threads) = connection(&limits);
        let senders = [0, 1].map(|channel| sender(&outbox, channel));
        let mut next = [0, 0];
        for _ in 0..2 * FRAMES {
            let ((channel, number), permit) = delivered.recv().unwrap();
            assert_eq!(number, next[channel]);
            next[channel] += 1;
            assert!(outbox.outstanding(channel) <= limits[channel].max(BYTES));
            drop(permit);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap().unwrap());
        outbox.finish();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn a_channel_whose_task_takes_nothing_does_not_stop_another_one() {
    let interleave = || {
        let (outbox, delivered, threads) = connection(&[1, 1]);
        let senders = [0, 1].map(|channel| sender(&outbox, channel));
        let (mut held, mut passed) = (Vec::new(), 0);
        while passed < FRAMES {
            match delivered.recv().unwrap() {
                ((0, _), permit) => held.push(permit),
                _ => passed += 1,
            }
        }
        assert!(held.len() <= 1);
        held.clear();
        let [stopped, other] = senders;
        other.join().unwrap().unwrap();
        while let Ok(((0, number), _)) = delivered.recv()
            && number + 1 < FRAMES
        {}
        stopped.join().unwrap().unwrap();
        outbox.finish();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn tasks_that_wait_for_credit_continue_when_the_connection_is_closed() {
    let interleave = || {
        let (outbox, delivered, threads) = connection(&[1, 1]);
        let senders = [0, 1].map(|channel| sender(&outbox, channel));
        let held = delivered.recv().unwrap();
        outbox.close();
        let [first, second] = senders.map(|sender| sender.join().unwrap());
        assert!(first == Err(Closed) || second == Err(Closed));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(held);
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn what_was_sent_before_the_end_is_taken() {
    let interleave = || {
        let (outbox, delivered, threads) = connection(&[FRAMES * BYTES]);
        sender(&outbox, 0).join().unwrap().unwrap();
        outbox.finish();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(delivered.iter().count() as u64, FRAMES);
    };
    shuttle::check_random(interleave, SCHEDULES);
}
