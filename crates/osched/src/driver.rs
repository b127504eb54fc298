//! Reads one target: what runs there, and what it reports (section 6.1 of the paper: by public interfaces
//! only).

pub mod anabranch;
mod build;
pub mod flink;
pub mod local;
pub mod process;
pub mod storm;

use anabranch_model::{Nanos, Result};
use anabranch_schedule::{Graph, Metric, Readings, Role};

pub use self::build::{of, recognize};

/// The public interfaces of one running engine.
pub trait Driver: Send {
    /// What runs there now, with the threads of this machine. Called at the start, and again when threads
    /// have come or gone, a reading does not fit the graph, or the driver says so by [`Driver::is_stale`].
    fn look(&mut self) -> Result<Graph>;

    /// What the engine reports about the tasks of the graph of the last look. `now` is the caller's clock.
    /// Kernel metrics of threads are not among them: the loop adds them for all drivers alike.
    fn read(&mut self, now: Nanos) -> Result<Readings>;

    /// Which metrics this engine reports as it is configured, for `check` and for the provider. Valid after a
    /// look.
    fn offers(&self) -> Vec<Metric>;

    /// Whether the graph of the last look is no longer true as far as the driver knows.
    fn is_stale(&self) -> bool {
        false
    }

    /// What it leaves alone or cannot distinguish, and why. Valid after a look. Empty if there is nothing.
    fn left_alone(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is missing and how to switch it on: lines for the engine's configuration. Empty if nothing is.
    fn advice(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Sets the roles of the operators from a place on, by the edges.
fn set_roles(graph: &mut Graph, first: usize) {
    for index in first..graph.operators.len() {
        let has_input = graph.edges.iter().any(|edge| edge.to.0 == index);
        let has_output = graph.edges.iter().any(|edge| edge.from.0 == index);
        graph.operators[index].role = match (has_input, has_output) {
            (false, _) => Role::Source,
            (true, false) => Role::Sink,
            (true, true) => Role::Inner,
        };
    }
}
