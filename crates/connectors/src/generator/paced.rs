//! Gives out a generator's rows when they are due.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Nanos, PartitionId, Result};
use anabranch_operators::{Polled, Source, TaskContext};

use super::load::Load;
use super::{Generate, Request};
use crate::ownership::{Announcements, owned_partitions};
use crate::wait::wait;

/// Rows of a partition are gathered for this long, so that a high rate does not make tiny batches.
const GATHER: Duration = Duration::from_millis(2);

/// The partitions of a generator that one task reads.
pub(super) struct PacedSource<G> {
    generator: G,
    load: Load,
    batch_rows: u64,
    clock: Arc<dyn Clock>,
    opened: Nanos,
    opened_ms: i64,
    announcements: Announcements,
    partitions: Vec<Partition>,
}

struct Partition {
    id: u32,
    /// Its next row.
    next: u64,
    /// Its number of rows.
    end: u64,
    /// When its next batch is due.
    due: Nanos,
}

impl<G: Generate> PacedSource<G> {
    pub(super) fn new(generator: G, load: Load, context: &TaskContext) -> Self {
        let clock = context.clock.clone();
        let rows = load.events.map(|events| generator.rows_within(events));
        let mut source = PacedSource {
            generator,
            batch_rows: context.batch_rows.max(1) as u64,
            opened: clock.now(),
            opened_ms: clock.wall_ms(),
            clock,
            announcements: Announcements::default(),
            partitions: Vec::new(),
            load,
        };
        for id in owned_partitions(source.load.partitions, context) {
            source.announcements.open(id);
            let end = rows.map_or(u64::MAX, |rows| source.share(rows, id));
            let mut partition = Partition { id, next: 0, end, due: source.opened };
            partition.due = source.due(&partition);
            source.partitions.push(partition);
        }
        source
    }

    /// How many of the table's first `rows` rows are those of a partition.
    fn share(&self, rows: u64, partition: u32) -> u64 {
        rows.saturating_sub(u64::from(partition)).div_ceil(u64::from(self.load.partitions))
    }

    /// When the next batch of a partition is due: when the last of the rows that are gathered for it is.
    fn due(&self, partition: &Partition) -> Nanos {
        let Some(rate) = self.load.rate else { return self.opened };
        if partition.next >= partition.end {
            return self.opened;
        }
        let per_second = rate / u64::from(self.load.partitions);
        let gathered = (per_second.saturating_mul(GATHER.as_millis() as u64) / 1000).clamp(1, self.batch_rows);
        let last = partition.next.saturating_add(gathered).min(partition.end) - 1;
        let row = last.saturating_mul(u64::from(self.load.partitions)).saturating_add(u64::from(partition.id));
        let event = u128::from(self.generator.event_of_row(row));
        let after = (event * 1_000_000_000).div_ceil(u128::from(rate));
        self.opened.plus(Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }

    /// Rows of a partition that are due now, at most a batch.
    fn rows_due(&self, partition: &Partition, now: Nanos) -> u64 {
        let until = match self.load.rate {
            None => partition.end,
            Some(rate) => {
                let events = u128::from(now.since(self.opened)) * u128::from(rate) / 1_000_000_000 + 1;
                let rows = self.generator.rows_within(u64::try_from(events).unwrap_or(u64::MAX));
                self.share(rows, partition.id).min(partition.end)
            }
        };
        until.saturating_sub(partition.next).min(self.batch_rows)
    }

    /// Takes what is due of the partition at `index`.
    fn take(&mut self, index: usize, now: Nanos) -> Result<Polled> {
        let count = self.rows_due(&self.partitions[index], now);
        let partition = &mut self.partitions[index];
        if partition.next >= partition.end {
            let id = partition.id;
            self.partitions.remove(index);
            return Ok(Polled::Closed(PartitionId(id)));
        }
        let request = Request {
            partition: partition.id,
            partitions: self.load.partitions,
            first: partition.next,
            count: count as usize,
            timeline: self.load.timeline(self.opened_ms, self.clock.wall_ms()),
        };
        partition.next += count;
        let due = self.due(&self.partitions[index]);
        self.partitions[index].due = due;
        let rows = self.generator.generate(&request)?;
        if self.load.rate.is_none() {
            // The others first: none is due earlier than another.
            self.partitions[index..].rotate_left(1);
        }
        Ok(Polled::Rows(rows))
    }

    fn earliest(&self) -> Option<(Nanos, usize)> {
        self.partitions.iter().enumerate().map(|(index, partition)| (partition.due, index)).min()
    }
}

impl<G: Generate> Source for PacedSource<G> {
    fn poll(&mut self, wait_at_most: Duration) -> Result<Polled> {
        if let Some(owed) = self.announcements.next() {
            return Ok(owed);
        }
        let Some((due, index)) = self.earliest() else {
            if self.load.events.is_some() {
                return Ok(Polled::End);
            }
            // A task without partitions of a table without end.
            wait(wait_at_most);
            return Ok(Polled::Pending);
        };
        let now = self.clock.now();
        if due <= now {
            return self.take(index, now);
        }
        wait(due.after(now).min(wait_at_most));
        let now = self.clock.now();
        if due <= now { self.take(index, now) } else { Ok(Polled::Pending) }
    }
}

#[cfg(test)]
mod tests;
