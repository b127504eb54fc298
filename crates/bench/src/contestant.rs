//! What is measured: a program that processes a workload once and returns the answer.

use anabranch_model::Result;

/// Outcome of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunResult {
    /// Records read.
    pub(crate) events: u64,
    /// Hash of the answer; `None` for programs that do only a part of the work and have no answer to compare.
    pub(crate) result_hash: Option<u64>,
}

/// A program in a comparison. Contestants of one comparison share a workload, and those that answer must
/// agree.
pub(crate) struct Contestant {
    /// Name in the table: `limit: ...`, `peer: ...`, `engine: ...`.
    pub(crate) name: String,
    body: Box<dyn FnMut() -> Result<RunResult>>,
}

impl Contestant {
    /// Processes the whole workload once. Everything in here is measured, so the workload is generated
    /// before.
    pub(crate) fn run(&mut self) -> Result<RunResult> {
        (self.body)()
    }
}

/// A contestant that consists of a function.
pub(crate) fn program(name: impl Into<String>, body: impl FnMut() -> Result<RunResult> + 'static) -> Contestant {
    Contestant { name: name.into(), body: Box::new(body) }
}
