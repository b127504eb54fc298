use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use anabranch_dataflow::{ExchangeKind, JobOptions};
use anabranch_model::{
    Envelope, ErrorKind, Incarnation, KeyGroups, ManualClock, MarkerKind, PlanVersion, StageId, TaskId,
};
use anabranch_operators::{Sink, State, StateChange, StateShape};
use anabranch_protocol::coordinator::Report;
use arrow::array::{ArrayRef, Int64Array};

use super::*;
use crate::task::exchange::LocalChannel;
use crate::task::inbox::{Inbox, Received};
use crate::task::mail::{FromTask, Mail, Unheard};

/// Number of batches of the window, and of batches after which the task is cancelled.
const BATCHES: usize = 1000;
const CANCELLED_AFTER: usize = 3;

fn rows() -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).expect("rows")
}

/// Emits a window of many batches: some at once, the others one by one.
struct Window {
    at_once: usize,
    pieces: usize,
}

impl Operator for Window {
    fn batch(&mut self, _: RecordBatch, _: &mut Output) -> Result<()> {
        Ok(())
    }

    fn watermark(&mut self, _: EventTime, out: &mut Output) -> Result<()> {
        (0..self.at_once).for_each(|_| out.batch(rows()));
        Ok(())
    }

    fn more(&mut self, out: &mut Output) -> Result<bool> {
        let left = self.pieces.checked_sub(1);
        self.pieces = left.unwrap_or_default();
        out.batch(rows());
        Ok(left.is_some())
    }
}

/// A sink whose task is cancelled while it writes.
struct Written {
    batches: Arc<std::sync::atomic::AtomicUsize>,
    control: Arc<Control>,
}

impl Sink for Written {
    fn write(&mut self, _: &RecordBatch) -> Result<()> {
        if self.batches.fetch_add(1, Relaxed) + 1 == CANCELLED_AFTER {
            self.control.cancel();
        }
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Ok(())
    }
}

/// Counts the batches of which rows may be late, because event time may be anywhere at the receivers.
struct Ungrouped {
    ahead: EventTime,
    batches: Arc<AtomicUsize>,
}

impl Operator for Ungrouped {
    fn batch(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.batches.fetch_add(usize::from(self.ahead == EventTime::MAX), Relaxed);
        out.batch(batch);
        Ok(())
    }

    fn watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<()> {
        out.watermark(watermark);
        Ok(())
    }

    fn event_time_ahead(&mut self, time: EventTime) {
        self.ahead = time;
    }
}

fn control() -> Arc<Control> {
    Control::new(Incarnation(1), Epoch(0), Arc::new(Unheard), Vec::new(), 1)
}

impl Mail for Mutex<Vec<FromTask>> {
    fn send(&self, message: FromTask) {
        self.lock().expect("lock").push(message);
    }
}

/// The queue of a receiver that is always behind is never empty.
#[test]
fn after_idleness_rows_are_grouped_again_once_the_receiver_knows_that_it_is_over() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let inbox = Arc::new(Inbox::new(1, 1 << 20));
    let sender = Box::new(LocalChannel { inbox: Arc::clone(&inbox), channel: 0 });
    let options = JobOptions { batch_rows: 1, ..JobOptions::default() };
    let writer =
        ExchangeWriter::new(ExchangeKind::Forward, vec![sender], (KeyGroups(128), &[]), &options, Arc::clone(&clock));
    let batches: Arc<AtomicUsize> = Arc::default();
    let operator = Box::new(Ungrouped { ahead: EventTime::MIN, batches: Arc::clone(&batches) });
    let mut chain = Chain {
        links: vec![Link::new(operator, rows().schema())],
        leaving: VecDeque::new(),
        agenda: Agenda::Nothing,
        tail: Tail::Exchanges(vec![writer]),
        left: EventTime::MIN,
        idle: false,
        may_be_behind: false,
        woke: false,
        put_off: false,
        marked_at: Nanos(0),
        counters: Arc::default(),
        control: control(),
        clock: Arc::clone(&clock),
    };
    let take = || match inbox.receive(&[false], None, clock.as_ref()) {
        Received::Envelope(_, envelope) => envelope,
        _ => panic!("nothing is sent"),
    };
    let done = |chain: &mut Chain| assert!(matches!(chain.advance(), Ok(Progress::Ready)));
    chain.watermark(Stamped { value: EventTime(5), born: Nanos(0) }).expect("watermark");
    done(&mut chain);
    assert!(matches!(take(), Envelope::Watermark(_)));
    chain.idle().expect("taken");
    done(&mut chain);
    inbox.set_reached(EventTime(9));
    let mut send = || {
        chain.batch(Stamped { value: rows(), born: Nanos(0) }, 0).expect("batch");
        done(&mut chain);
        batches.load(Relaxed)
    };
    assert_eq!(send(), 1, "the receiver does not know yet that this task is no longer idle");
    assert!(matches!(take(), Envelope::Idle));
    assert_eq!(send(), 2);
    assert!(matches!(take(), Envelope::Watermark(_)));
    for _ in 0..10 {
        assert_eq!(send(), 2, "rows pass ungrouped although event time waits for this task");
        assert!(matches!(take(), Envelope::Batch(_)));
    }
    // The receiver was ahead when it learned the watermark, and late rows still pass singly.
    assert!(chain.may_be_behind);
    chain.watermark(Stamped { value: EventTime(9), born: Nanos(0) }).expect("watermark");
    done(&mut chain);
    chain.batch(Stamped { value: rows(), born: Nanos(0) }, 0).expect("batch");
    assert!(!chain.may_be_behind);
}

#[test]
fn a_cancelled_task_abandons_the_window_that_it_emits() {
    for (at_once, pieces) in [(BATCHES, 0), (0, BATCHES)] {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let messages: Arc<Mutex<Vec<FromTask>>> = Arc::default();
        let mail: Arc<dyn Mail> = Arc::<Mutex<Vec<FromTask>>>::clone(&messages);
        let control = Control::new(Incarnation(1), Epoch(0), mail, Vec::new(), 1);
        let batches = Arc::default();
        let sink = Written { batches: Arc::clone(&batches), control: Arc::clone(&control) };
        let operator = Box::new(Window { at_once, pieces });
        let mut chain = Chain {
            links: vec![Link::new(operator, rows().schema())],
            leaving: VecDeque::new(),
            agenda: Agenda::Nothing,
            tail: Tail::Sink(SinkTail::new(Box::new(sink), false)),
            left: EventTime::MIN,
            idle: false,
            may_be_behind: false,
            woke: false,
            put_off: false,
            marked_at: Nanos(0),
            counters: Arc::default(),
            control: Arc::clone(&control),
            clock,
        };
        chain.watermark(Stamped { value: EventTime(1), born: Nanos(0) }).expect("taken");
        let error = chain.advance().expect_err("it is abandoned");
        assert_eq!((error.kind(), batches.load(Relaxed)), (ErrorKind::Cancelled, CANCELLED_AFTER));
        // That is not a failure of the task.
        let task = TaskId { stage: StageId(0), index: 0 };
        control.failed(task, error);
        control.report(task, Report::Gone);
        assert!(matches!(messages.lock().expect("lock")[..], [FromTask::Report(_, _, Report::Gone)]));
    }
}

/// What a full channel does not take waits in the writer: at most the output of one batch, however much the
/// operator emits.
#[test]
fn a_chain_goes_on_where_its_tail_had_no_room() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let inbox = Arc::new(Inbox::new(1, 100));
    let sender = Box::new(LocalChannel { inbox: Arc::clone(&inbox), channel: 0 });
    let options = JobOptions { batch_rows: 1, ..JobOptions::default() };
    let owners = (KeyGroups(128), &[][..]);
    let writer = ExchangeWriter::new(ExchangeKind::Forward, vec![sender], owners, &options, Arc::clone(&clock));
    let mut chain = Chain {
        links: vec![Link::new(Box::new(Window { at_once: 0, pieces: BATCHES }), rows().schema())],
        leaving: VecDeque::new(),
        agenda: Agenda::Nothing,
        tail: Tail::Exchanges(vec![writer]),
        left: EventTime::MIN,
        idle: false,
        may_be_behind: false,
        woke: false,
        put_off: false,
        marked_at: Nanos(0),
        counters: Arc::default(),
        control: control(),
        clock: Arc::clone(&clock),
    };
    let take = || match inbox.receive(&[false], Some(std::time::Duration::ZERO), clock.as_ref()) {
        Received::Envelope(_, envelope) => Some(envelope),
        _ => None,
    };
    chain.watermark(Stamped { value: EventTime(5), born: Nanos(0) }).expect("watermark");
    let (mut batches, mut stops) = (0, 0);
    while let Progress::Full = chain.advance().expect("no failure") {
        stops += 1;
        assert!(matches!(chain.advance(), Ok(Progress::Full)), "it waits for room");
        assert!(chain.leaving.len() + chain.links[0].waiting.len() <= 1);
        while let Some(envelope) = take() {
            batches += usize::from(matches!(envelope, Envelope::Batch(_)));
        }
    }
    assert!(stops > BATCHES / 4, "{stops}");
    // A marker passes only when it is in the channel.
    let marker = Marker { epoch: Epoch(1), version: PlanVersion(1), snapshot: false, kind: MarkerKind::End };
    chain.marker(marker).expect("taken");
    let mut passed = chain.advance().expect("no failure");
    while matches!(passed, Progress::Full) {
        let Some(envelope) = take() else { panic!("the channel is full, and nothing is there") };
        assert!(!matches!(envelope, Envelope::Marker(_)), "it is not in the channel yet");
        batches += usize::from(matches!(envelope, Envelope::Batch(_)));
        passed = chain.advance().expect("no failure");
    }
    assert!(matches!(passed, Progress::Marked(of, None) if of == marker));
    batches += std::iter::from_fn(take).filter(|envelope| matches!(envelope, Envelope::Batch(_))).count();
    // The operator is asked once more after the flush of the epoch, and gives a batch whenever it is asked.
    assert_eq!(batches, BATCHES + 2);
}

/// An operator that has this number of deferred pieces of work.
struct Behind(usize);

impl Operator for Behind {
    fn batch(&mut self, _: RecordBatch, _: &mut Output) -> Result<()> {
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Behind {
    fn tables(&self) -> Vec<StateShape> {
        Vec::new()
    }

    fn snapshot(&mut self, _: bool) -> Result<Vec<StateChange>> {
        Ok(Vec::new())
    }

    fn catch_up(&mut self) -> Result<bool> {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        Ok(left.is_some())
    }

    fn restore(&mut self, _: usize, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn goes_on(&mut self) {}

    fn succeed(&mut self, _: &mut dyn State) -> Result<()> {
        Ok(())
    }
}

/// Counts how often it must send the rows that it has gathered.
struct Flushed(Arc<AtomicUsize>);

impl Sink for Flushed {
    fn write(&mut self, _: &RecordBatch) -> Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.0.fetch_add(1, Relaxed);
        Ok(())
    }

    fn epoch_end(&mut self, _: Epoch) -> Result<()> {
        Ok(())
    }
}

#[test]
fn work_that_was_put_off_is_done_in_pauses_before_the_sink_flushes_once() {
    let flushed: Arc<AtomicUsize> = Arc::default();
    let mut chain = Chain {
        links: vec![Link::new(Box::new(Behind(5)), rows().schema())],
        leaving: VecDeque::new(),
        agenda: Agenda::Nothing,
        tail: Tail::Sink(SinkTail::new(Box::new(Flushed(Arc::clone(&flushed))), false)),
        left: EventTime::MIN,
        idle: false,
        may_be_behind: false,
        woke: false,
        put_off: true,
        marked_at: Nanos(0),
        counters: Arc::default(),
        control: control(),
        clock: Arc::new(ManualClock::default()),
    };
    let mut pieces = 0;
    while chain.next_deadline() == Some(Nanos(0)) {
        chain.pause().expect("paused");
        assert_eq!(flushed.load(Relaxed), 0, "a sink may take long");
        assert!(matches!(chain.advance(), Ok(Progress::Ready)));
        pieces += 1;
    }
    chain.pause().expect("paused");
    assert_eq!((pieces, flushed.load(Relaxed)), (6, 1));
}

/// Records the times that it receives.
struct Clocked(Arc<Mutex<Vec<i64>>>);

impl Operator for Clocked {
    fn batch(&mut self, _: RecordBatch, _: &mut Output) -> Result<()> {
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn State> {
        Some(self)
    }
}

impl State for Clocked {
    fn tables(&self) -> Vec<StateShape> {
        Vec::new()
    }

    fn snapshot(&mut self, _: bool) -> Result<Vec<StateChange>> {
        Ok(Vec::new())
    }

    fn restore(&mut self, _: usize, _: RecordBatch) -> Result<()> {
        Ok(())
    }

    fn goes_on(&mut self) {}

    fn succeed(&mut self, _: &mut dyn State) -> Result<()> {
        Ok(())
    }

    fn processing_time(&mut self, wall_ms: i64) -> Result<()> {
        self.0.lock().expect("lock").push(wall_ms);
        Ok(())
    }
}

#[test]
fn operators_are_told_the_time_at_the_end_of_each_epoch() {
    let (clock, told) = (Arc::new(ManualClock::default()), Arc::<Mutex<Vec<i64>>>::default());
    let control = control();
    let sink = Written { batches: Arc::default(), control: Arc::clone(&control) };
    let mut chain = Chain {
        links: vec![Link::new(Box::new(Clocked(Arc::clone(&told))), rows().schema())],
        leaving: VecDeque::new(),
        agenda: Agenda::Nothing,
        tail: Tail::Sink(SinkTail::new(Box::new(sink), false)),
        left: EventTime::MIN,
        idle: false,
        may_be_behind: false,
        woke: false,
        put_off: false,
        marked_at: Nanos(0),
        counters: Arc::default(),
        control,
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
    };
    for epoch in 1..=2 {
        clock.step_wall(500);
        let marker = Marker { epoch: Epoch(epoch), version: PlanVersion(0), snapshot: false, kind: MarkerKind::Cut };
        chain.marker(marker).expect("taken");
        while !matches!(chain.advance().expect("no failure"), Progress::Marked(..)) {}
    }
    let told = told.lock().expect("lock");
    assert_eq!(told[1] - told[0], 500);
}
