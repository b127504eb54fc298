//! Returns a generator's rows when they are due.
//!
//! A partition's position is the number of rows that it has returned, because a row's number determines its
//! content. If event time follows the wall clock, the position also has the time at which the partition
//! began, from which the rows' times are counted. After a restart such a table catches up with the wall clock
//! at once, like a log that was written meanwhile. A table with a start time continues at its rate from where
//! it stopped.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Clock, Nanos, PartitionId, Result};
use anabranch_operators::{Host, Polled, Positions, Source, TaskContext};

use super::load::Load;
use super::{Generate, Request};
use crate::ownership::{Announcements, owned_partitions};
use crate::positions::{check_numbered, number, numbered, unreadable};
use crate::wait::wait;

/// Rows of a partition are gathered for this long, so that a high rate does not make tiny batches.
const GATHER: Duration = Duration::from_millis(2);

/// The partitions of a generator that one task reads.
pub(super) struct PacedSource<G> {
    generator: G,
    load: Load,
    batch_rows: u64,
    clock: Arc<dyn Clock>,
    host: Arc<dyn Host>,
    opened: Nanos,
    announcements: Announcements,
    partitions: Vec<Partition>,
    /// Positions of the partitions that have ended.
    ended: Positions,
}

struct Partition {
    id: u32,
    /// Its next row.
    next: u64,
    /// Its number of rows.
    end: u64,
    /// When its next batch is due.
    due: Nanos,
    /// The wall clock when the partition began.
    since_ms: i64,
    /// How long event 0 had been due when this source was opened.
    head_start_ns: u64,
}

/// Where a partition begins or resumes.
#[derive(Default)]
struct PartitionStart {
    is_resumed: bool,
    next: u64,
    since_ms: Option<i64>,
}

impl PartitionStart {
    /// Parses a position. It ends with the options that determine its row.
    fn read(text: &str, load: &Load, (table, partition): (&str, &str)) -> Result<Self> {
        let (rows, options) = text.find(" seed ").map_or((text, ""), |at| (&text[..at], &text[at + 1..]));
        if !options.is_empty() {
            load.check_identity(options).map_err(|error| error.at(partition).at(format!("table {table}")))?;
        }
        let expected = if load.follows_clock() { "'ROWS since MILLISECONDS'" } else { "'ROWS'" };
        Self::parse(rows, load.follows_clock()).filter(|_| !options.is_empty()).ok_or_else(|| {
            unreadable(table, partition, text, &format!("{expected} with the table's options for time and rate"))
        })
    }

    /// Parses `17`, or `17 since 1704067200000` for a table whose event time follows the wall clock.
    fn parse(text: &str, follows_clock: bool) -> Option<Self> {
        let (next, since_ms) = match text.split_once(" since ") {
            Some((next, since)) => (next, Some(number(since)?)),
            None => (text, None),
        };
        (since_ms.is_some() == follows_clock).then_some(PartitionStart {
            is_resumed: true,
            next: number(next)?,
            since_ms,
        })
    }
}

fn nanos_of(event: u64, rate: u64) -> u64 {
    let after = (u128::from(event) * 1_000_000_000).div_ceil(u128::from(rate));
    u64::try_from(after).unwrap_or(u64::MAX)
}

impl<G: Generate> PacedSource<G> {
    pub(super) fn open(
        generator: G,
        load: Load,
        table: &str,
        context: &TaskContext,
        from: Option<&Positions>,
    ) -> Result<Self> {
        check_numbered(from, table, load.partitions)?;
        let clock = context.clock.clone();
        let mut source = PacedSource {
            generator,
            batch_rows: context.batch_rows.max(1) as u64,
            opened: clock.now(),
            clock,
            host: Arc::clone(&context.host),
            announcements: Announcements::default(),
            partitions: Vec::new(),
            ended: Positions::new(),
            load,
        };
        let opened_ms = source.clock.wall_ms();
        for id in owned_partitions(source.load.partitions, context) {
            let name = numbered(id, source.load.partitions);
            let start = match from.and_then(|from| from.get(&name)) {
                None => PartitionStart::default(),
                Some(text) => PartitionStart::read(text, &source.load, (table, &name))?,
            };
            source.start(id, &start, opened_ms);
        }
        Ok(source)
    }

    /// Opens a partition, or keeps its position if it has ended.
    fn start(&mut self, id: u32, start: &PartitionStart, opened_ms: i64) {
        let rows = self.load.events.map(|events| self.generator.rows_within(events));
        let since_ms = start.since_ms.unwrap_or(opened_ms);
        let mut partition = Partition {
            id,
            next: start.next,
            end: rows.map_or(u64::MAX, |rows| self.share(rows, id)),
            due: self.opened,
            since_ms,
            head_start_ns: 0,
        };
        if start.is_resumed && partition.next >= partition.end {
            self.ended.insert(numbered(id, self.load.partitions), self.position(&partition));
            return;
        }
        if let (true, Some(rate)) = (start.is_resumed, self.load.rate) {
            let given = nanos_of(self.event(&partition, partition.next), rate);
            let passed_ms = if self.load.follows_clock() { opened_ms.saturating_sub(since_ms) } else { 0 };
            let passed = u64::try_from(passed_ms).unwrap_or(0).saturating_mul(1_000_000);
            partition.head_start_ns = given.max(passed);
        }
        partition.due = self.due(&partition);
        self.announcements.open(id, numbered(id, self.load.partitions));
        self.partitions.push(partition);
    }

    /// Number of the event that is row `row` of a partition.
    fn event(&self, partition: &Partition, row: u64) -> u64 {
        let row = row.saturating_mul(u64::from(self.load.partitions)).saturating_add(u64::from(partition.id));
        self.generator.event_of_row(row)
    }

    fn position(&self, partition: &Partition) -> String {
        let Partition { next, since_ms, .. } = partition;
        let identity = self.load.identity();
        match self.load.follows_clock() {
            true => format!("{next} since {since_ms} {identity}"),
            false => format!("{next} {identity}"),
        }
    }

    /// How many of the table's first `rows` rows belong to a partition.
    fn share(&self, rows: u64, partition: u32) -> u64 {
        rows.saturating_sub(u64::from(partition)).div_ceil(u64::from(self.load.partitions))
    }

    /// When the next batch of a partition is due: when the last of the rows gathered for it is.
    fn due(&self, partition: &Partition) -> Nanos {
        let Some(rate) = self.load.rate else { return self.opened };
        if partition.next >= partition.end {
            return self.opened;
        }
        let per_second = rate / u64::from(self.load.partitions);
        let gathered = (per_second.saturating_mul(GATHER.as_millis() as u64) / 1000).clamp(1, self.batch_rows);
        let last = partition.next.saturating_add(gathered).min(partition.end) - 1;
        let after = nanos_of(self.event(partition, last), rate).saturating_sub(partition.head_start_ns);
        self.opened.plus(Duration::from_nanos(after))
    }

    /// Number of a partition's rows that are due now.
    fn rows_due(&self, partition: &Partition, now: Nanos) -> u64 {
        let until = match self.load.rate {
            None => partition.end,
            Some(rate) => {
                let passed = u128::from(now.since(self.opened)) + u128::from(partition.head_start_ns);
                let events = passed * u128::from(rate) / 1_000_000_000 + 1;
                let rows = self.generator.rows_within(u64::try_from(events).unwrap_or(u64::MAX));
                self.share(rows, partition.id).min(partition.end)
            }
        };
        until.saturating_sub(partition.next)
    }

    /// Returns the due rows of the partition at `index`. At its end, closes it.
    fn next_rows(&mut self, index: usize, now: Nanos) -> Result<Polled> {
        let count = self.rows_due(&self.partitions[index], now).min(self.batch_rows);
        let partition = &mut self.partitions[index];
        if partition.next >= partition.end {
            let partition = self.partitions.remove(index);
            self.ended.insert(numbered(partition.id, self.load.partitions), self.position(&partition));
            return Ok(Polled::Closed(PartitionId(partition.id)));
        }
        let request = Request {
            partition: partition.id,
            partitions: self.load.partitions,
            first: partition.next,
            count: count as usize,
            timeline: self.load.timeline(partition.since_ms, self.clock.wall_ms()),
        };
        partition.next += count;
        let due = self.due(&self.partitions[index]);
        self.partitions[index].due = due;
        let rows = self.generator.generate(&request)?;
        if self.load.rate.is_none() {
            // The other partitions come first: at an unlimited rate, all are due at the same time.
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
            // A task without partitions, for an unbounded table.
            wait(self.host.as_ref(), wait_at_most);
            return Ok(Polled::Pending);
        };
        let now = self.clock.now();
        if due <= now {
            return self.next_rows(index, now);
        }
        wait(self.host.as_ref(), due.after(now).min(wait_at_most));
        let now = self.clock.now();
        if due <= now { self.next_rows(index, now) } else { Ok(Polled::Pending) }
    }

    fn positions(&self) -> Result<Positions> {
        let unfinished = self.partitions.iter().map(|p| (numbered(p.id, self.load.partitions), self.position(p)));
        Ok(self.ended.clone().into_iter().chain(unfinished).collect())
    }

    fn waits_at_host(&self) -> bool {
        true
    }

    fn lag_rows(&self) -> Option<u64> {
        // Rows of an unlimited rate arrive when they are polled.
        let (_, now) = (self.load.rate?, self.clock.now());
        Some(self.partitions.iter().map(|partition| self.rows_due(partition, now)).sum())
    }
}

#[cfg(test)]
mod tests;
