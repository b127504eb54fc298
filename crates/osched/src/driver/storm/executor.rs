//! What the names of Storm's threads and processes say.

use std::ops::RangeInclusive;

/// Main class of a worker. The identifier of its topology is its first argument.
const WORKER: &str = "org.apache.storm.daemon.worker.Worker ";

/// An executor: a thread that runs one or several tasks of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Executor {
    /// A spout or bolt.
    pub(super) component: String,
    /// The numbers of its tasks.
    pub(super) tasks: RangeInclusive<i64>,
}

/// Reads `Thread-42-COMPONENT-executor[7, 8]`.
pub(super) fn executor(thread: &str) -> Option<Executor> {
    let (_, rest) = thread.strip_prefix("Thread-")?.split_once('-')?;
    let (component, tasks) = rest.strip_suffix(']')?.rsplit_once("-executor[")?;
    let (first, last) = tasks.split_once(", ")?;
    let (first, last): (i64, i64) = (first.parse().ok()?, last.parse().ok()?);
    // Storm numbers the tasks of a topology; more in one thread would be a name of something else.
    let is_plausible = first <= last && last - first < 100_000;
    is_plausible.then(|| Executor { component: component.to_owned(), tasks: first..=last })
}

/// Whether what the kernel has of a thread's name may be that of an executor.
pub(super) fn may_be_executor(cut: &str) -> bool {
    cut.strip_prefix("Thread-")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(number, rest)| number.bytes().all(|byte| byte.is_ascii_digit()) && !rest.is_empty())
}

/// The topology of a worker, by the command line of its process.
pub(super) fn topology_of(command: &str) -> Option<&str> {
    command.split_once(WORKER)?.1.split_ascii_whitespace().next()
}

/// The name of a topology without number and time of its submission.
pub(super) fn name_of(topology: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = topology.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(time), Some(number), Some(name)) if is_number(time) && is_number(number) => name,
        _ => topology,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_name_component_and_tasks() {
        let read = |name| executor(name).map(|executor| (executor.component, executor.tasks));
        assert_eq!(read("Thread-42-q1o0-executor[7, 7]"), Some(("q1o0".to_owned(), 7..=7)));
        assert_eq!(read("Thread-72-a-executor[b.c-executor[7, 8]"), Some(("a-executor[b.c".to_owned(), 7..=8)));
        assert_eq!(read("Thread-55-__system-executor[-1, -1]"), Some(("__system".to_owned(), -1..=-1)));
        for other in ["Thread-4", "Thread-4-x-executor[7]", "Thread-4-x-executor[8, 7]", "x-executor[7, 7]", ""] {
            assert_eq!(read(other), None, "{other}");
        }
        assert!(may_be_executor("Thread-42-q1o0-") && !may_be_executor("Thread-42") && !may_be_executor("Thread-x-y"));
    }

    #[test]
    fn workers_name_their_topology() {
        let command = "java -cp storm.jar org.apache.storm.daemon.worker.Worker syn-3-1795958578 abc-127.0.0.1 6700 d0";
        assert_eq!(topology_of(command), Some("syn-3-1795958578"));
        assert_eq!(topology_of("java -cp storm.jar org.apache.storm.LocalCluster"), None);
        assert_eq!(name_of("syn-3-1795958578"), "syn");
        assert_eq!(name_of("my-topology-x-1"), "my-topology-x-1");
    }
}
