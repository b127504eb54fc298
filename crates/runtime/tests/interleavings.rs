//! Interleavings of the threads of a job, where they meet: `inbox`, `control` and `mailbox` are compiled here
//! with primitives that let a scheduler choose the next thread at each operation. A thread that waits forever
//! is a deadlock, which the scheduler detects.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/control.rs"]
mod control;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/credit.rs"]
mod credit;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/gathered.rs"]
mod gathered;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/inbox.rs"]
mod inbox;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/shell/mailbox.rs"]
mod mailbox;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/orders.rs"]
mod orders;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/reported.rs"]
mod reported;
#[allow(dead_code, unreachable_pub, reason = "what these tests do not need")]
#[path = "../src/task/returns.rs"]
mod returns;

/// The wings of the crate, as the files above name them.
mod task {
    pub(crate) use crate::{
        credit, gathered, hold_back, inbox, mail, orders, phases, reported, returns, sync, threads,
    };
}

mod shell {
    pub(crate) use crate::{coordinator, shared, worker};
}

/// The items that the files above import from their crate, as far as they matter here.
mod sync {
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic, mpsc};
    pub(crate) use shuttle::thread;
}

mod coordinator {
    use anabranch_model::Result;

    use crate::mail::FromTask;
    use crate::sync::mpsc::{Receiver, Sender};
    use crate::worker::FromThread;

    #[allow(dead_code, clippy::large_enum_variant, reason = "only their number counts")]
    pub(crate) enum Message {
        Task(FromTask),
        Thread(FromThread),
        Checkpoint(Sender<()>),
        Stop,
    }

    /// Ends after this number of messages.
    pub(crate) struct Shell {
        pub(crate) messages: Receiver<Message>,
        pub(crate) expected: usize,
        pub(crate) taken: u64,
    }

    impl Shell {
        pub(crate) fn run(self) -> Result<()> {
            (0..self.expected).for_each(|_| drop(self.messages.recv().unwrap()));
            Ok(())
        }
    }
}

mod mail {
    use anabranch_model::{Epoch, Error, Incarnation, TaskId};
    use anabranch_protocol::coordinator::Report;
    use anabranch_state::TaskState;

    #[allow(dead_code, reason = "only their number counts")]
    pub(crate) enum FromTask {
        Report(Incarnation, TaskId, Report<TaskState>),
        Failed(Incarnation, TaskId, Error),
        NotOpened(Incarnation, TaskId, Error),
        Opened(Incarnation),
        Dropped(Incarnation, Vec<(Epoch, String)>),
        Checkpoint,
        Full(Incarnation, bool),
        Reached,
        Agree(Incarnation, String, Vec<String>, std::sync::mpsc::Sender<Vec<String>>),
    }

    pub(crate) trait Mail: Send + Sync {
        fn send(&self, message: FromTask);
    }
}

mod worker {
    use crate::mail::Mail;

    #[allow(dead_code, reason = "no thread reports anything here")]
    pub(crate) struct FromThread;

    #[allow(dead_code, reason = "no thread reports anything here")]
    pub(crate) trait WorkerMail: Mail {
        fn send_from_thread(&self, message: FromThread);
    }
}

mod phases {
    #[allow(dead_code, reason = "no task measures anything here")]
    pub(crate) struct Passage;
}

mod hold_back {
    #[derive(Debug, Default)]
    pub(crate) struct Foremost(());
}

mod shared {
    use anabranch_model::Result;

    use crate::sync::Mutex;

    #[derive(Default)]
    pub(crate) struct Shared {
        pub(crate) ends: Mutex<Vec<Result<()>>>,
    }

    impl Shared {
        pub(crate) fn end(&self, outcome: Result<()>) {
            self.ends.lock().unwrap().push(outcome);
        }
    }
}

mod threads {
    use anabranch_model::Error;

    pub(crate) fn panicked(_: &(dyn std::any::Any + Send)) -> Error {
        Error::internal("panic")
    }

    pub(crate) fn no_thread(error: &std::io::Error) -> Error {
        Error::outside(error.to_string())
    }
}

use std::time::Duration;

use anabranch_model::{
    Envelope, Epoch, Error, EventTime, Group, Incarnation, ManualClock, Nanos, StageId, Stamped, TaskId,
};
use anabranch_protocol::alignment::Aligned;
use anabranch_protocol::coordinator::{Pace, Then};
use control::Control;
use coordinator::{Message, Shell};
use inbox::{Inbox, Received};
use mail::FromTask;
use mailbox::Mailbox;
use shared::Shared;
use sync::{Arc, thread};

/// Schedules of each test. Some tens are enough to find the bugs that the tests are for.
const SCHEDULES: usize = 400;

fn mailbox() -> (Arc<Mailbox>, Arc<Shared>, sync::mpsc::Receiver<Message>) {
    let (sender, messages) = sync::mpsc::channel();
    let shared = Arc::new(Shared::default());
    (Mailbox::new(sender, Arc::clone(&shared)), shared, messages)
}

fn control(inboxes: Vec<Arc<Inbox>>) -> Arc<Control> {
    Control::new(Incarnation(1), Epoch(0), mailbox().0, inboxes, 1)
}

fn watermark(ms: i64) -> Envelope {
    Envelope::Watermark(Stamped { value: EventTime(ms), born: Nanos(0) })
}

/// Sends as a task does: it waits while there is no room.
fn send(inbox: &Inbox, channel: usize, envelope: Envelope) {
    let mut next = Some(envelope);
    while let Some(refused) = next.and_then(|envelope| inbox.offer(channel, envelope, &ManualClock::default())) {
        inbox.wait_for_room(channel, &refused);
        next = Some(refused);
    }
}

#[test]
fn a_reader_that_is_woken_returns_whether_it_waits_already_or_not() {
    let interleave = || {
        let inbox = Arc::new(Inbox::new(1, 1));
        let reader = Arc::clone(&inbox);
        let reader = thread::spawn(move || {
            assert!(matches!(reader.receive(&[false], None, &ManualClock::default()), Received::Timeout));
        });
        inbox.wake();
        reader.join().unwrap();
    };
    shuttle::check_random(interleave, SCHEDULES);
}

/// The thread that reads a connection delivers, asks and fails while the task receives.
#[test]
fn a_reader_takes_what_was_delivered_then_answers_then_fails() {
    let interleave = || {
        let inbox = Arc::new(Inbox::new(1, 1));
        let returns = returns::Returns::new([4000].into_iter());
        let (to, credit) = (Arc::clone(&inbox), Arc::clone(&returns));
        let connection = thread::spawn(move || {
            let clock = ManualClock::default();
            (0..3).for_each(|ms| to.deliver(0, watermark(ms), credit.received(0, 500).unwrap(), &clock));
            to.ask(0, returns::Question { permit: credit.received(0, 1).unwrap(), sent: 3 });
            let (mut due, mut answered) = (Vec::new(), false);
            while !answered {
                credit.take(&mut due, Duration::from_secs(1));
                answered = due.drain(..).any(|due| due == (0, returns::Return::Reached(3, EventTime(2))));
            }
            to.fail(0, Error::outside("broken"));
        });
        let receive = || inbox.receive(&[false], None, &ManualClock::default());
        for ms in 0..3 {
            assert!(matches!(receive(), Received::Envelope(0, Envelope::Watermark(w)) if w.value == EventTime(ms)));
            inbox.set_reached(EventTime(ms));
        }
        assert!(matches!(receive(), Received::Failed(error) if error.message() == "broken"));
        connection.join().unwrap();
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn the_reader_sees_what_it_was_woken_for() {
    let interleave = || {
        let inbox = Arc::new(Inbox::new(1, 1));
        let control = control(vec![Arc::clone(&inbox)]);
        let task = Arc::clone(&control);
        let reader = thread::spawn(move || {
            while task.done() < Epoch(3) {
                let _ = inbox.receive(&[false], None, &ManualClock::default());
            }
        });
        for epoch in 1..=3 {
            control.set_done(Epoch(epoch));
            control.wake();
        }
        reader.join().unwrap();
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn full_channels_pass_everything_in_order_and_no_thread_waits_forever() {
    let interleave = || {
        // Room for one envelope on each channel.
        let inbox = Arc::new(Inbox::new(2, 1));
        let senders = [0, 1].map(|channel| {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                (0..3).for_each(|ms| {
                    send(&inbox, channel, watermark(ms));
                });
            })
        });
        let (mut seen, mut first_only) = ([0, 0], true);
        while seen != [3, 3] {
            // One channel is blocked until the other has sent everything, as in an alignment.
            first_only &= seen[0] < 3;
            match inbox.receive(&[false, first_only], None, &ManualClock::default()) {
                Received::Envelope(channel, Envelope::Watermark(watermark)) => {
                    assert_eq!(watermark.value, EventTime(seen[channel]));
                    seen[channel] += 1;
                }
                _ => panic!("neither woken nor closed"),
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn threads_that_wait_at_an_inbox_continue_when_the_job_is_cancelled() {
    let interleave = || {
        let inboxes = [0, 1].map(|_| Arc::new(Inbox::new(1, 1)));
        let control = control(inboxes.to_vec());
        let [read, written] = inboxes;
        let reader = thread::spawn(move || {
            while !matches!(
                read.receive(&[false], Some(Duration::from_secs(1)), &ManualClock::default()),
                Received::Closed
            ) {}
        });
        let writer = thread::spawn(move || {
            (0..3).for_each(|ms| send(&written, 0, watermark(ms)));
        });
        let task = Arc::clone(&control);
        let waiter = thread::spawn(move || {
            task.wait_settled(Epoch(1));
            assert!(!task.is_done(Epoch(1)));
        });
        control.cancel();
        [reader, writer, waiter].into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

/// A source that may cut an epoch knows whether that is a checkpoint and its last one.
#[test]
fn orders_are_seen_as_a_whole() {
    let interleave = || {
        let control = control(Vec::new());
        let sources = [0, 1].map(|_| {
            let source = Arc::clone(&control);
            thread::spawn(move || {
                let (granted, stop_after) = (source.granted(), source.stop_after());
                match granted {
                    Epoch(2) => assert!(source.is_checkpoint(Epoch(2)) || source.granted() == Epoch(4)),
                    Epoch(4) => assert!(source.is_checkpoint(Epoch(4)) && stop_after == Some(Epoch(4))),
                    _ => assert_eq!(granted, Epoch(0)),
                }
            })
        });
        let group = |last: u64| Group { first: Epoch(last - 1), last: Epoch(last) };
        control.grant(group(2), Pace::Steady, Then::Next, Some(Nanos(0)));
        control.grant(group(4), Pace::AtOnce, Then::Stop, Some(Nanos(0)));
        sources.into_iter().for_each(|source| source.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

/// A value that is read while it is replaced is no mixture of two.
#[test]
fn no_reader_sees_a_part_of_an_order() {
    let interleave = || {
        let published = Arc::new(orders::Published::after(Epoch(0)));
        let readers = [0, 1].map(|_| {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                for orders in (0..3).filter_map(|_| published.read()) {
                    assert_eq!(orders.granted, orders.done);
                    assert_eq!(orders.granted, orders.aborted);
                }
            })
        });
        for epoch in [1, 2].map(Epoch) {
            published.change(|orders| (orders.granted, orders.aborted, orders.done) = (epoch, epoch, epoch));
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

/// Sources of one worker tell it how far they are, while it tells that the coordinator, also of its own
/// accord.
#[test]
fn what_the_coordinator_learns_last_of_sources_is_how_far_they_are() {
    let interleave = || {
        let (mailbox, _, messages) = mailbox();
        let control = Control::new(Incarnation(1), Epoch(0), mailbox, Vec::new(), 2);
        let tasks = [0, 1].map(|index| TaskId { stage: StageId(0), index });
        control.align([("g".to_owned(), Aligned::new(tasks, false, 0))].into());
        let sources = tasks.map(|task| {
            let control = Arc::clone(&control);
            let times = [10, 20, 15].map(|ms| EventTime(ms + i64::from(task.index)));
            thread::spawn(move || {
                times.into_iter().for_each(|time| _ = control.reached("g", task, time, Nanos(1)));
            })
        });
        let mut told = control.reached_here(false, Nanos(1));
        sources.into_iter().for_each(|source| source.join().unwrap());
        while let Ok(message) = messages.try_recv() {
            assert!(matches!(message, Message::Task(FromTask::Reached)));
            told.extend(control.reached_here(false, Nanos(1)));
        }
        assert_eq!(told.last(), Some(&("g".to_owned(), EventTime(15))));
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn a_task_that_waits_for_an_epoch_learns_of_it() {
    let interleave = || {
        let control = control(Vec::new());
        let waiters = [0, 1].map(|_| {
            let task = Arc::clone(&control);
            thread::spawn(move || {
                task.wait_settled(Epoch(2));
                assert!(task.is_done(Epoch(2)));
            })
        });
        control.set_done(Epoch(1));
        control.set_done(Epoch(2));
        control.set_none_done();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    };
    shuttle::check_random(interleave, SCHEDULES);
}

#[test]
fn the_coordinator_is_started_once_and_gets_every_message() {
    let interleave = || {
        let (mailbox, shared, messages) = mailbox();
        mailbox.set_shell(Shell { messages, expected: 4, taken: 0 });
        let senders = [0, 1].map(|_| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || (0..2).for_each(|_| mailbox.send(Message::Stop)))
        });
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        mailbox.join();
        assert_eq!(shared.ends.lock().unwrap().len(), 1);
    };
    shuttle::check_random(interleave, SCHEDULES);
}
