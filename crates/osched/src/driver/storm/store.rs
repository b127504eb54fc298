//! The newest values that topologies have pushed. The listener writes it and the driver reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch_model::Nanos;

use super::line::{Line, Of, plain};

/// Values that are kept of all topologies: ten thousand tasks with ten values each.
const VALUES_MAX: usize = 100_000;
/// A topology that has pushed nothing for so long is gone.
const GONE: Duration = Duration::from_secs(60);

/// A value and when it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) value: f64,
    pub(super) at: Nanos,
}

/// The values of one task of Storm.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TaskValues {
    pub(super) queue_rows: Option<Value>,
    pub(super) queued_ms: Option<Value>,
    pub(super) queue_share: Option<Value>,
    /// By the component that emitted, and the stream.
    pub(super) rows_in: BTreeMap<(String, String), Value>,
    /// By stream.
    pub(super) rows_out: BTreeMap<String, Value>,
}

/// What one topology has pushed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Topology {
    /// By component, with underscores for dots, and the number of the task.
    pub(super) tasks: BTreeMap<(String, i64), TaskValues>,
    newest: Nanos,
}

/// What all topologies have pushed.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// By identifier.
    pub(super) topologies: BTreeMap<String, Topology>,
    values: usize,
    /// Grows with each task and each edge that was not known, and when a topology is gone.
    pub(super) changes: u64,
    /// When the last value came.
    pub(super) newest: Option<Nanos>,
}

impl Store {
    /// Keeps a value. Returns false if there is no room.
    pub(super) fn add(&mut self, line: &Line<'_>, value: f64, now: Nanos) -> bool {
        if self.values >= VALUES_MAX {
            self.forget_gone(now);
        }
        let has_room = self.values < VALUES_MAX;
        if !self.topologies.contains_key(line.topology) {
            if !has_room {
                return false;
            }
            self.topologies.insert(line.topology.to_owned(), Topology::default());
        }
        let Some(topology) = self.topologies.get_mut(line.topology) else { return false };
        (topology.newest, self.newest) = (now, Some(now));
        let key = (line.component.to_owned(), line.task);
        if !topology.tasks.contains_key(&key) {
            if !has_room {
                return false;
            }
            self.changes += 1;
        }
        let task = topology.tasks.entry(key).or_default();
        let value = Value { value, at: now };
        let former = match line.value {
            Of::QueueRows => task.queue_rows.replace(value),
            Of::QueuedMs => task.queued_ms.replace(value),
            Of::QueueShare => task.queue_share.replace(value),
            Of::RowsOut { stream } => replace(&mut task.rows_out, stream, value, has_room),
            Of::RowsIn { source, stream } => {
                let former = replace(&mut task.rows_in, &(source.to_owned(), stream.to_owned()), value, has_room);
                self.changes += u64::from(former.is_none());
                former
            }
        };
        self.values += usize::from(former.is_none());
        true
    }

    /// Drops topologies that push no more.
    pub(super) fn forget_gone(&mut self, now: Nanos) {
        let before = self.topologies.len();
        self.topologies.retain(|_, topology| now.since(topology.newest) < GONE.as_nanos() as u64);
        if self.topologies.len() != before {
            self.changes += 1;
            self.values =
                self.topologies.values().flat_map(|topology| topology.tasks.values()).map(TaskValues::len).sum();
        }
    }
}

fn replace<K: Ord + ToOwned<Owned = O> + ?Sized, O: Ord + std::borrow::Borrow<K>>(
    values: &mut BTreeMap<O, Value>,
    key: &K,
    value: Value,
    has_room: bool,
) -> Option<Value> {
    match values.get_mut(key) {
        Some(former) => Some(std::mem::replace(former, value)),
        None if has_room => values.insert(key.to_owned(), value),
        None => Some(value),
    }
}

impl TaskValues {
    fn len(&self) -> usize {
        let single = [self.queue_rows, self.queued_ms, self.queue_share].iter().flatten().count();
        single + self.rows_in.len() + self.rows_out.len()
    }
}

impl Topology {
    /// Components as they are named, from whom to whom rows flow. Receivers have the form of paths.
    pub(super) fn edges(&self) -> BTreeSet<(String, String)> {
        let of_task = |(component, _): &(String, i64), values: &TaskValues| {
            let edges = values.rows_in.keys().map(|(source, _)| (source.clone(), component.clone()));
            edges.collect::<Vec<_>>()
        };
        self.tasks.iter().flat_map(|(task, values)| of_task(task, values)).collect()
    }

    /// Whether an executor of this component with these tasks is among those that have pushed.
    pub(super) fn has(&self, component: &str, tasks: std::ops::RangeInclusive<i64>) -> bool {
        let component = plain(component);
        tasks.into_iter().any(|task| self.tasks.contains_key(&(component.clone(), task)))
    }

    /// The values of the tasks of an executor.
    pub(super) fn of(
        &self,
        component: &str,
        tasks: std::ops::RangeInclusive<i64>,
    ) -> impl Iterator<Item = &TaskValues> {
        let component = plain(component);
        tasks.filter_map(move |task| self.tasks.get(&(component.clone(), task)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::parse;
    use super::*;

    fn path(topology: usize, task: usize) -> String {
        format!("storm.worker.t-{topology}.h.c.{task}.1-receive-queue-population")
    }

    #[test]
    fn memory_is_bounded_and_room_comes_back() {
        let mut store = Store::default();
        let add = |store: &mut Store, topology, task, at| {
            let path = path(topology, task);
            store.add(&parse(&path).expect("a line"), 1.0, Nanos(at))
        };
        for task in 0..VALUES_MAX {
            assert!(add(&mut store, 1, task, 0));
        }
        assert!(!add(&mut store, 1, VALUES_MAX, 1) && !add(&mut store, 2, 1, 1), "no room");
        assert!(add(&mut store, 1, 5, 1), "what is known is kept up to date");
        let changes = store.changes;
        let later = GONE.as_nanos() as u64 + 1;
        assert!(add(&mut store, 2, 1, later + 1), "the silent topology has made room");
        assert!(store.topologies.len() == 1 && store.values == 1 && store.changes > changes);
    }
}
