//! Names of Storm's metrics as its Graphite reporter writes them:
//! `storm.worker.TOPOLOGY.HOST.COMPONENT[.STREAM].TASK.PORT-METRIC`, with dots within names as underscores,
//! except in METRIC.

/// A value that the driver uses, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Identifier of a topology: its name, a number, and when it was submitted.
    pub(super) topology: &'a str,
    /// A spout or bolt, with underscores for dots.
    pub(super) component: &'a str,
    /// Storm's number of the task.
    pub(super) task: i64,
    pub(super) value: Of<'a>,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of<'a> {
    /// Rows that wait for the executor: the same for all of its tasks.
    QueueRows,
    /// How long a row that comes now will wait, in milliseconds.
    QueuedMs,
    /// How full the queue is: 0 to 1.
    QueueShare,
    /// Rows of a stream that were processed.
    RowsIn {
        /// The component that emitted them, as it is named.
        source: &'a str,
        stream: &'a str,
    },
    /// Rows of a stream that were sent, once for each task that gets them.
    RowsOut { stream: &'a str },
}

/// Whether a component or stream is Storm's own, for acknowledgements, ticks and the like.
pub(super) fn is_internal(name: &str) -> bool {
    name.starts_with("__")
}

/// The component in the form that paths have.
pub(super) fn plain(component: &str) -> String {
    component.replace('.', "_")
}

/// Reads a path. None: the driver does not use it.
pub(super) fn parse(path: &str) -> Option<Line<'_>> {
    let (_, rest) = path.split_once("storm.worker.")?;
    let mut parts = rest.splitn(4, '.');
    let (topology, _host, component) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = parts.next()?;
    // TASK.PORT-METRIC, or STREAM.TASK.PORT-METRIC.
    let (task, metric) = task_and_metric(rest).or_else(|| task_and_metric(rest.split_once('.')?.1))?;
    Some(Line { topology, component, task, value: value(metric)? })
}

fn task_and_metric(text: &str) -> Option<(i64, &str)> {
    let (task, rest) = text.split_once('.')?;
    let (port, metric) = rest.split_once('-')?;
    port.parse::<u16>().ok()?;
    Some((task.parse().ok()?, metric))
}

fn value(metric: &str) -> Option<Of<'_>> {
    match metric {
        "receive-queue-population" => return Some(Of::QueueRows),
        "receive-queue-sojourn_time_ms" => return Some(Of::QueuedMs),
        "receive-queue-pct_full" => return Some(Of::QueueShare),
        _ => {}
    }
    let counted = metric.strip_suffix(".count")?;
    if let Some(stream) = counted.strip_prefix("__transfer-count-") {
        return (!is_internal(stream)).then_some(Of::RowsOut { stream });
    }
    let (source, stream) = counted.strip_prefix("__execute-count-")?.rsplit_once(':')?;
    (!is_internal(stream) && !is_internal(source)).then_some(Of::RowsIn { source, stream })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_topology_component_and_task() {
        let line = |task, value| Some(Line { topology: "t-1-17", component: "step_one", task, value });
        for (rest, expected) in [
            ("7.1024-receive-queue-population", line(7, Of::QueueRows)),
            ("7.1024-receive-queue-sojourn_time_ms", line(7, Of::QueuedMs)),
            ("7.1024-receive-queue-pct_full", line(7, Of::QueueShare)),
            (
                "default.10.6700-__execute-count-numbers.x:default.count",
                line(10, Of::RowsIn { source: "numbers.x", stream: "default" }),
            ),
            ("3.4.6700-__transfer-count-3.count", line(4, Of::RowsOut { stream: "3" })),
            ("__ack_ack.4.6700-__transfer-count-__ack_ack.count", None),
            ("default.10.6700-__execute-count-__system:__tick.count", None),
            ("default.10.6700-__execute-count-numbers:default.m1_rate", None),
            ("7.1024-receive-queue-capacity", None),
            ("7.port-receive-queue-population", None),
            ("x.7", None),
        ] {
            let path = format!("storm.worker.t-1-17.host_example.step_one.{rest}");
            assert_eq!(parse(&path), expected, "{path}");
        }
        let system = parse("prefix.storm.worker.t-1-17.h.__acker.1.1024-receive-queue-population");
        assert_eq!(system.map(|line| (line.component, line.task)), Some(("__acker", 1)));
        assert_eq!(parse("storm.topology.t.h.__system.-1.1024-uptimeSecs"), None);
        assert_eq!(parse(""), None);
    }
}
