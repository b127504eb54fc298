//! Events as lines: one JSON object each for programs, or time, level, event and fields for people.

use std::fmt::{Debug, Write as _};
use std::io::{ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_model::{Clock, Error, SystemClock, visible};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::arguments::LogFormat;

pub(crate) struct Output(Mutex<Written>);

struct Written {
    out: Box<dyn Write + Send>,
    /// Why writing has stopped.
    failure: Option<Error>,
}

impl Output {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Output {
        Output(Mutex::new(Written { out, failure: None }))
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why lines are missing, if any are.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failure.take()
    }

    /// After the first failure nothing more is written: a log with holes would pass for a complete one.
    fn write(&self, line: &str) {
        let mut written = self.lock();
        if written.failure.is_some() {
            return;
        }
        let outcome = written.out.write_all(line.as_bytes()).and_then(|()| written.out.flush());
        written.failure = match outcome {
            // The reader of standard error has left.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => None,
            Err(error) => Some(Error::outside(format!("cannot write the log, which ends here: {error}"))),
            Ok(()) => None,
        };
    }
}

/// Writes a line for each event.
pub(crate) struct Lines {
    format: LogFormat,
    output: Arc<Output>,
    clock: SystemClock,
}

impl Lines {
    pub(crate) fn new(format: LogFormat, output: Arc<Output>) -> Lines {
        Lines { format, output, clock: SystemClock::new() }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let fields = Fields::from_event(event);
        let time = DateTime::from_timestamp_millis(self.clock.wall_ms()).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let line = match self.format {
            LogFormat::Json => json(&time, &level, &fields),
            LogFormat::Text => text(&time, &level, &fields),
        };
        self.output.write(&line);
    }
}

/// The fields of an event.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) event: String,
    pub(super) job: Option<String>,
    pub(super) others: Map<String, Value>,
}

impl Fields {
    pub(super) fn from_event(event: &Event<'_>) -> Fields {
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields
    }

    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.event = text,
            ("job", Value::String(text)) => self.job = Some(text),
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
}

/// A line. The fields of the event follow the fields that all events have.
#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    level: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    #[serde(flatten)]
    fields: &'a Map<String, Value>,
}

fn json(time: &str, level: &str, Fields { event, job, others }: &Fields) -> String {
    let line = serde_json::to_string(&Line { time, level, event, job: job.as_deref(), fields: others });
    // Text and numbers have a written form.
    harmless(&line.unwrap_or_default()) + "\n"
}

/// JSON with escapes for the characters that could control a terminal.
fn harmless(json: &str) -> String {
    let escaped = |c: char| match visible(c.encode_utf8(&mut [0; 4])).chars().count() {
        1 => c.to_string(),
        _ => format!("\\u{:04x}", u32::from(c)),
    };
    json.chars().map(escaped).collect()
}

fn text(time: &str, level: &str, Fields { event, job, others }: &Fields) -> String {
    let mut line = format!("{time} {level} {event}");
    let job = job.iter().map(|job| ("job", Value::from(job.as_str())));
    let others = others.iter().map(|(name, value)| (name.as_str(), value.clone()));
    for (name, value) in job.chain(others) {
        // Writing to a string does not fail.
        let _ = match value {
            Value::String(text) if is_word(&text) => write!(line, " {name}={text}"),
            Value::String(text) => write!(line, " {name}=\"{}\"", text.replace("\n  help: ", "; ").replace('\n', " ")),
            Value::Number(number) if number.is_f64() => {
                write!(line, " {name}={:.1}", number.as_f64().unwrap_or_default())
            }
            value => write!(line, " {name}={value}"),
        };
    }
    visible(&line).into_owned() + "\n"
}

/// Whether a value needs no quotes.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains([' ', '"', '=', '\n'])
}

#[cfg(test)]
mod tests {
    use tracing::{debug, info, warn};
    use tracing_subscriber::prelude::*;
    use tracing_subscriber::registry;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: LogFormat, log: impl FnOnce()) -> String {
        let kept = Kept::default();
        let lines = Lines::new(format, Arc::new(Output::new(Box::new(kept.clone()))));
        tracing::subscriber::with_default(registry().with(lines), log);
        let bytes = kept.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("text")
    }

    const UGLY: &str = "a\u{1b}[31m \"b\" \u{202e}c\n\u{9b}d ä";

    #[test]
    fn an_event_is_one_json_object_that_steers_no_terminal() {
        let written = written(LogFormat::Json, || {
            info!(job = "ads", text = UGLY, "notice");
            debug!(epoch = 7_u64, took_ms = 1.5, absent = None::<u64>, "checkpoint completed");
        });
        assert!(written.chars().all(|c| c == '\n' || !c.is_control()) && !written.contains('\u{202e}'), "{written:?}");
        let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["text"], Value::from(UGLY));
        assert!(written.starts_with("{\"time\":\"2"), "{written}");
        assert!(written.contains("Z\",\"level\":\"info\",\"event\":\"notice\",\"job\":\"ads\""), "{written}");
        assert!(lines[1]["epoch"] == 7 && lines[1]["took_ms"] == 1.5 && lines[1]["level"] == "debug", "{written}");
        assert!(lines[1].get("absent").is_none() && lines[1].get("job").is_none(), "{written}");
    }

    #[test]
    fn an_event_is_one_line_for_people() {
        let written = written(LogFormat::Text, || {
            let error = Error::user("no such table").at("line 1").remedy("make one");
            warn!(error = %error, job = "ads", restarts = 2_u64, took_ms = 12.345, "job restarted");
            info!(text = UGLY, "notice");
        });
        let lines: Vec<&str> = written.lines().collect();
        let (_, first) = lines[0].split_once(' ').expect("a time");
        let expected = "warn job restarted job=ads error=\"line 1: no such table; make one\" restarts=2 took_ms=12.3";
        assert_eq!(first, expected);
        assert_eq!(lines.len(), 2, "{written:?}");
        assert!(written.chars().all(|c| c == '\n' || !c.is_control()), "{written:?}");
    }

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_is_a_failure_but_a_reader_may_leave() {
        for (kind, fails) in [(ErrorKind::BrokenPipe, false), (ErrorKind::StorageFull, true)] {
            let output = Output::new(Box::new(Broken(kind)));
            output.write("a line");
            assert_eq!(output.failure().is_some(), fails, "{kind:?}");
        }
    }
}
