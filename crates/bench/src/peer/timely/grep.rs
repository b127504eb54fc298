//! Grep: a filter over lines. No exchange.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_model::Result;
use timely::dataflow::ProbeHandle;
use timely::dataflow::operators::vec::Filter;
use timely::dataflow::operators::{Inspect, Probe};

use super::{Input, Span, feed_lines, run};
use crate::answer::Answer;
use crate::contestant::RunResult;
use crate::limit::grep::pattern;
use crate::workload::LogLines;

/// Finds the lines that match on `workers` workers.
pub(crate) fn grep(log: &Arc<LogLines>, workers: usize) -> Result<RunResult> {
    let log = Arc::clone(log);
    run(workers, move |worker| {
        let regex = pattern()?;
        let answer = Rc::new(RefCell::new(Answer::default()));
        let found = Rc::clone(&answer);
        let (searched, shown) = (Arc::clone(&log), Arc::clone(&log));
        let mut input = Input::<Span>::new();
        let probe = ProbeHandle::new();
        worker.dataflow(|scope| {
            input
                .to_stream(scope)
                .filter(move |span| regex.is_match(&searched.text.bytes()[span.0..span.1]))
                .inspect(move |span| found.borrow_mut().add_line(&shown.text.bytes()[span.0..span.1]))
                .probe_with(&probe);
        });
        let rows = feed_lines(worker, input, &probe, &log.text);
        let answer = *answer.borrow();
        Ok((rows, answer))
    })
}
