//! Snapshots of open panes: as rows of state, what has changed since the last one.
//!
//! From the first snapshot on, rows are grouped beside a pane's groups in a table of changes. At the next
//! snapshot the states of this table are emitted and merged into the groups. So the cost of a snapshot
//! depends on what has changed, not on the size of the state, and what is emitted is immutable while it is
//! written. When the changes since the last complete snapshot outgrow the state several times over, the next
//! snapshot is complete: that bounds what a restore reads.
//!
//! A snapshot takes states out of the tables. To put them back is [put off](super::put_off).
//!
//! Where most groups change between two snapshots, grouping twice is a waste. Then rows go directly into the
//! groups and a number of the next snapshots are complete, which costs less than changes of that size. At the
//! last of them, the series continues as long as a [sample](super::sample) shows that most groups change.
//! Otherwise changes are measured again. The number doubles each time that most groups have changed. A
//! snapshot with too few rows for that ends the series at once.
//!
//! The runs on the disk are part of the snapshot as they are: they are immutable.
//!
//! Incremental snapshots (`adds`) all contain the runs of the first one, and then only changes. Groups that
//! are put away meanwhile are among the changes too, up to a limit. Beyond it, the next snapshot is complete.

use std::sync::Arc;

use anabranch_model::{EventTime, Result};
use anabranch_state::{PaneRuns, Run};
use arrow::array::RecordBatch;

use super::groups::{Grouped, Groups};
use super::on_disk::{batch_of, states_of};
use super::put_off::Origin;
use super::sample::Sample;
use super::{OpenPane, Pane, Panes, key_columns};
use crate::keyed_state::check_columns;
use crate::{StateChange, StateShape};

/// A snapshot is complete when the rows emitted since the last complete one exceed its rows by this factor.
const CHANGES_PER_STATE: usize = 4;
/// While snapshots are incremental, changes of groups that were put away take at most the limit of the state
/// divided by this number.
const KEPT_SHARE: usize = 4;
/// Largest number of complete snapshots in a row before a sample decides whether more follow.
const WHOLE_MAX: u32 = 16;

/// What has been emitted, and what is left to emit.
#[derive(Default)]
pub(super) struct Snapshots {
    /// Rows of the last complete snapshot; `None` before the first.
    complete_rows: Option<usize>,
    /// Rows of snapshots of changes since.
    changed_rows: usize,
    /// Rows that were restored.
    restored_rows: usize,
    /// Fewer changed rows than this are not worth a complete snapshot.
    changed_rows_min: usize,
    /// How many of the next snapshots are complete because most groups change.
    whole_left: u32,
    /// How many were to be complete when changes were measured last.
    whole_last: u32,
    /// The sample of the last complete snapshot.
    sample: Sample,
    /// Rows since the last snapshot.
    rows: usize,
    /// Changes of panes that have been sealed since the last snapshot.
    sealed: Vec<(i64, Grouped)>,
    /// Groups were put on the disk since the last snapshot, some of which earlier snapshots contain.
    put_away: bool,
    /// The operator has taken over the state of a former plan version, and has taken no snapshot since. The
    /// change is final with the first snapshot, which must be quick: it is not complete only because the
    /// state has grown.
    has_succeeded: bool,
    /// The runs of the last snapshot, if it was incremental.
    runs: Option<Vec<Arc<Run>>>,
}

impl Snapshots {
    pub(super) fn new(changed_rows_min: usize) -> Snapshots {
        Snapshots { changed_rows_min, ..Snapshots::default() }
    }

    /// Whether the next snapshot contains changes only, so that rows are grouped beside the groups.
    pub(super) fn are_changes(&self) -> bool {
        self.complete_rows.is_some() && self.whole_left == 0
    }

    /// Whether the last snapshot was incremental.
    pub(super) fn add(&self) -> bool {
        self.runs.is_some()
    }

    /// Drops the changes of groups that were put away, if they take more than a quarter of this number of
    /// bytes. The next snapshot is then complete.
    pub(super) fn keep_to(&mut self, bytes_max: usize) {
        let kept: usize = self.sealed.iter().map(|(_, states)| states.size_bytes()).sum();
        if kept > bytes_max / KEPT_SHARE {
            self.sealed.clear();
            (self.runs, self.put_away) = (None, true);
        }
    }

    /// The operator has taken over the state of a former plan version.
    pub(super) fn succeed(&mut self) {
        self.has_succeeded = true;
    }

    /// Rows of earlier snapshots were restored.
    pub(super) fn restored(&mut self, rows: usize) {
        self.restored_rows += rows;
    }

    /// Continues the restored snapshots, which contain this number of groups. Rows beyond that number count
    /// as changed: otherwise the files of state that is moved often would never be replaced by a complete
    /// one.
    pub(super) fn go_on(&mut self, groups: usize) {
        self.complete_rows = Some(groups);
        self.changed_rows = self.restored_rows.saturating_sub(groups);
    }

    /// Counts rows.
    pub(super) fn rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Counts rows of changes that were emitted, and the groups that they are from.
    fn changed(&mut self, rows: usize, groups: usize) {
        self.changed_rows += rows;
        self.whole_last = match rows * 2 > groups {
            true => (self.whole_last * 2).clamp(1, WHOLE_MAX),
            false => 0,
        };
        self.whole_left = self.whole_last;
    }

    /// Groups have been put on the disk, whose runs are in the next snapshot.
    pub(super) fn put_away(&mut self) {
        self.put_away = true;
    }

    /// Merges an open pane's changes into its groups before it is sealed, and keeps them for the next
    /// snapshot.
    pub(super) fn keep(&mut self, pane: i64, open: &mut OpenPane) -> Result<()> {
        if let Some(states) = open.gather()? {
            self.sealed.push((pane, states));
        }
        open.changed = None;
        Ok(())
    }
}

impl OpenPane {
    /// Merges everything into one table.
    pub(super) fn whole(mut self) -> Result<Box<Groups>> {
        self.gather()?;
        Ok(self.groups)
    }

    /// Whether rows go into the table of changes: snapshots contain changes only, or the groups do not have
    /// all of their states back.
    pub(super) fn goes_beside(&self, snapshots: &Snapshots) -> bool {
        snapshots.are_changes() || self.put_off.has_states_of_groups()
    }

    /// Does a piece of what was put off.
    pub(super) fn catch_up(&mut self, snapshots: &Snapshots) -> Result<()> {
        self.put_off.merge_piece(&mut self.groups)?;
        // The table of changes was needed only while the groups were without their states.
        if self.changed.is_some() && !self.goes_beside(snapshots) {
            self.take_changes()?;
            self.changed = None;
        }
        Ok(())
    }

    /// Takes the states of the table of changes. The groups get them later. The states that were put off
    /// before are merged now, so never more than those of one snapshot are put off.
    fn take_changes(&mut self) -> Result<Option<Grouped>> {
        let Some(changed) = &mut self.changed else { return Ok(None) };
        self.put_off.merge_all(&mut self.groups)?;
        let states = changed.states()?;
        changed.clear();
        self.put_off.push(states.clone(), Origin::Changes);
        Ok(Some(states))
    }

    /// Merges all states into the groups. Returns those of the table of changes.
    fn gather(&mut self) -> Result<Option<Grouped>> {
        let changed = self.take_changes()?;
        self.put_off.merge_all(&mut self.groups)?;
        Ok(changed)
    }

    /// Takes all states. The groups get them later.
    fn take_states(&mut self) -> Result<Grouped> {
        self.gather()?;
        let states = self.groups.states()?;
        self.put_off.push(states.clone(), Origin::Groups);
        Ok(states)
    }
}

impl Panes {
    pub(super) fn shape_of_state(&self) -> StateShape {
        let (table, schema) = (String::new(), self.state_schema.clone());
        let keys = key_columns(self.times.is_some(), self.key_types.len());
        StateShape { table, schema, keys, pane: self.times.map(|_| 0) }
    }

    /// Whether the next snapshot contains the whole state.
    fn is_complete(&self, adds: bool) -> bool {
        let Snapshots { complete_rows, changed_rows, changed_rows_min, put_away, .. } = self.snapshots;
        let outgrown = || match complete_rows {
            Some(_) if self.snapshots.has_succeeded => false,
            Some(rows) => changed_rows > changed_rows_min.max(CHANGES_PER_STATE * rows),
            None => true,
        };
        match adds {
            true if self.snapshots.add() => false,
            true => put_away || !self.snapshots.are_changes(),
            // Without any pane, a complete snapshot costs nothing and releases the earlier ones.
            false => outgrown() || put_away || self.snapshots.whole_left > 0 || self.panes.is_empty(),
        }
    }

    pub(super) fn take_snapshot(&mut self, adds: bool) -> Result<StateChange> {
        let complete = self.is_complete(adds);
        self.snapshots.has_succeeded = false;
        let new_rows = std::mem::take(&mut self.snapshots.rows);
        let mut rows = Vec::new();
        let sealed = std::mem::take(&mut self.snapshots.sealed);
        if complete {
            for (start, pane) in &mut self.panes {
                match pane {
                    Pane::Open(open) => rows.push((*start, open.take_states()?)),
                    Pane::Sealed(sealed) => rows.push((*start, sealed.clone())),
                    Pane::Away => {}
                }
            }
        } else {
            rows.extend(sealed.into_iter().filter(|(start, _)| self.panes.contains_key(start)));
            for (start, pane) in &mut self.panes {
                if let Pane::Open(open) = pane {
                    rows.extend(open.take_changes()?.map(|states| (*start, states)));
                }
            }
        }
        let count = rows.iter().map(|(_, states)| states.len).sum();
        match complete {
            true => {
                self.snapshots.put_away = false;
                (self.snapshots.complete_rows, self.snapshots.changed_rows) = (Some(count), 0);
                let is_worth_it = count >= self.snapshots.changed_rows_min && !self.functions.states_vary();
                let most_change = self.snapshots.sample.follow(if is_worth_it { &rows } else { &[] })?;
                // So few rows cannot have changed most groups.
                let are_few = new_rows * 2 <= count;
                self.snapshots.whole_left = match self.snapshots.whole_left {
                    _ if adds || are_few => 0,
                    1 if most_change => 1,
                    left => left.saturating_sub(1),
                };
                if self.snapshots.whole_left > 0 {
                    self.remember_keys(&rows);
                }
            }
            false if adds => self.snapshots.changed_rows += count,
            false => {
                let groups = self.panes.values().map(Pane::len).sum();
                self.snapshots.changed(count, groups);
                if !self.snapshots.are_changes() {
                    self.panes.values_mut().for_each(Pane::drop_changes_table);
                }
            }
        }
        let rows = rows.into_iter().filter(|(_, states)| states.len > 0);
        let batch = |(start, states): (i64, Grouped)| {
            let panes = self.times.map(|_| vec![start; states.len]);
            batch_of(&self.state_schema, panes, states)
        };
        let rows = rows.map(batch).collect::<Result<_>>()?;
        let first_pane = self.panes.keys().next().map_or(EventTime::MAX, |start| EventTime(*start));
        let first_pane = if adds { EventTime::MIN } else { first_pane };
        let of_disk = || self.disk.as_ref().map_or_else(Vec::new, PaneRuns::files);
        let runs = self.snapshots.runs.take().filter(|_| adds).unwrap_or_else(of_disk);
        self.snapshots.runs = adds.then(|| runs.clone());
        Ok(StateChange { rows, complete, first_pane, runs })
    }

    /// Remembers the keys of open panes, because the next snapshot is likely to have the same.
    fn remember_keys(&mut self, panes: &[(i64, Grouped)]) {
        for (start, states) in panes {
            if let Some(Pane::Open(open)) = self.panes.get_mut(start) {
                open.groups.remember(&states.keys);
            }
        }
    }

    /// Merges rows of a snapshot into the panes. The next snapshot is complete and contains them, unless it
    /// continues the restored ones.
    pub(super) fn take_up(&mut self, rows: &RecordBatch) -> Result<()> {
        check_columns(rows.schema_ref(), &self.state_schema)?;
        let (input, pane) = states_of(rows, self.times.is_some(), &self.functions)?;
        self.add_to_panes(&input, pane.as_ref())
    }
}
