use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};

use anabranch_model::ManualClock;

use super::*;
use crate::view::model::tests::task;

/// Signals that no test sends to itself: each test uses different numbers.
static NEXT_SIGNAL: AtomicI32 = AtomicI32::new(34);

fn signals() -> (Signals, i32) {
    let number = NEXT_SIGNAL.fetch_add(1, Ordering::SeqCst);
    (Signals::catch(&[number]).expect("signals"), number)
}

/// A job with one row per poll, which ends some polls after a stop was requested. Each poll takes 300 ms of
/// its clock.
struct Fake {
    clock: ManualClock,
    looks: Cell<u64>,
    ends_at: Cell<u64>,
    stops: Cell<u32>,
    output: Console,
}

impl Fake {
    fn ending_at(looks: u64) -> Self {
        Fake {
            clock: ManualClock::default(),
            looks: Cell::new(0),
            ends_at: Cell::new(looks),
            stops: Cell::new(0),
            output: Console::output(),
        }
    }

    fn watch<'a>(&'a self, signals: &'a Signals, limit: Option<Duration>) -> Watch<'a> {
        let output = &self.output;
        Watch { job: self, clock: &self.clock, started: Nanos(0), limit, signals, output, only_watches: false }
    }
}

impl Watched for Fake {
    fn notices(&self, number: u64) -> Vec<Notice> {
        let notice = |number, text: &str| Notice { number, at: Nanos(0), times: number, text: text.into() };
        let all = [notice(1, "the job resumes"), notice(2, "a broker is away\n  help: start it")];
        all.into_iter().filter(|notice| notice.number > number && notice.number < self.looks.get()).collect()
    }

    fn metrics(&self) -> Vec<TaskMetrics> {
        vec![TaskMetrics { rows_in: self.looks.get() * 30, ..task(0, 0) }]
    }

    fn why(&self) -> Option<String> {
        None
    }

    fn stop(&self) {
        self.stops.set(self.stops.get() + 1);
        self.ends_at.set(self.looks.get() + 3);
    }

    fn is_finished(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.clock.advance(Duration::from_millis(300));
        self.looks.get() >= self.ends_at.get()
    }
}

#[test]
fn a_job_that_ends_by_itself_is_not_asked_to_stop() {
    let (signals, _) = signals();
    let job = Fake::ending_at(5);
    job.watch(&signals, None).quietly(&mut Vec::new()).expect("watched");
    assert_eq!((job.looks.get(), job.stops.get()), (5, 0));
}

#[test]
fn a_job_is_asked_once_when_its_time_is_over() {
    let (signals, _) = signals();
    let job = Fake::ending_at(1000);
    job.watch(&signals, Some(Duration::from_secs(3))).quietly(&mut Vec::new()).expect("watched");
    assert_eq!((job.looks.get(), job.stops.get()), (13, 1));
}

#[test]
fn a_signal_asks_the_job_to_stop() {
    let (signals, number) = signals();
    signal_hook::low_level::raise(number).expect("raise");
    let job = Fake::ending_at(1_000_000);
    job.watch(&signals, None).quietly(&mut Vec::new()).expect("watched");
    assert_eq!(job.stops.get(), 1);
    signals.reset();
    assert!(!signals.stop_asked());
}

#[test]
fn lines_come_every_second_with_rates_notices_and_the_request_to_stop() {
    let (signals, _) = signals();
    let job = Fake::ending_at(1000);
    let mut out = Vec::new();
    job.watch(&signals, Some(Duration::from_secs(4))).with_lines(&mut out).expect("lines");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7, "{text}");
    let (notices, lines): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.starts_with("notice: "));
    assert_eq!(notices, ["notice: the job resumes", "notice: a broker is away; start it (2 times)"]);
    assert!(lines[0].contains(" 1 s  100 events/s"), "{text}");
    assert!(lines[1].contains(" 2 s  100 events/s"), "{text}");
    assert!(lines.iter().any(|l| l.starts_with("stopping")), "{text}");
}

#[test]
fn keys_that_stop() {
    let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    assert!(asks_to_stop(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
    assert!(asks_to_stop(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    assert!(!asks_to_stop(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
    assert!(!asks_to_stop(&Event::FocusGained));
}

#[test]
fn only_a_second_request_of_the_user_ends_at_once() {
    let mut keys = Keys::default();
    assert_eq!(keys.press(false), Pressed::First);
    assert_eq!(keys.press(false), Pressed::Again);
    assert_eq!(Keys::default().press(true), Pressed::Again);
}

#[test]
fn notices_come_while_the_job_runs_even_if_nothing_else_is_wanted() {
    let (signals, _) = signals();
    let job = Fake::ending_at(5);
    let mut out = Vec::new();
    job.watch(&signals, None).quietly(&mut out).expect("watched");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text, "notice: the job resumes\nnotice: a broker is away; start it (2 times)\n");
}
