//! Which task of a stage owns which key groups, so that the busiest task has as little to do as possible.
//!
//! The load of a key group is a number of rows. Each task owns consecutive key groups, and the tasks stay in
//! their order. Among all divisions with the smallest largest load, the one is chosen that moves the fewest
//! key groups. A key group is not divided: rows of one key have one owner.

use anabranch_model::KeyGroupRange;

/// Tasks whose loads differ by at most this share of the largest are left as they are.
const EVEN: f64 = 0.1;
/// A change that takes less than this share from the busiest task is not worth it.
const GAIN_MIN: f64 = 0.05;
/// Fewer rows say nothing about the load.
const ROWS_MIN: u64 = 1000;

/// What a stage should do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// What was decided.
    pub verdict: Verdict,
    /// The key groups of each task from now on.
    pub ranges: Vec<KeyGroupRange>,
    /// Rows of each task as it is.
    pub before: Vec<u64>,
    /// Rows that each task would have had with the new key groups.
    pub after: Vec<u64>,
    /// Key groups that get another task.
    pub moved: Vec<Move>,
    /// Key groups with more rows than the mean of all tasks, with these rows.
    pub hot: Vec<(u16, u64)>,
}

/// Whether a stage gets other key groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Moves,
    /// It has one task.
    OneTask,
    /// There were too few rows to tell.
    TooFewRows,
    /// Its tasks have about as much to do as each other.
    Even,
    /// No division is better by so much that it is worth a change.
    NoBetter,
}

/// Consecutive key groups that get another task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The key groups.
    pub groups: KeyGroupRange,
    /// The task that has them.
    pub from: u32,
    /// The task that gets them.
    pub to: u32,
}

/// Decides for a stage whose key groups had these rows, and whose tasks own these key groups.
#[must_use]
pub fn balance(rows: &[u64], present: &[KeyGroupRange]) -> Balance {
    let (total, tasks) = (rows.iter().sum::<u64>(), present.len() as u64);
    let is_hot = |rows: u64| tasks > 1 && rows.saturating_mul(tasks) > total;
    let hot = (0..).zip(rows).filter(|(_, rows)| is_hot(**rows)).map(|(group, rows)| (group, *rows)).collect();
    let before = loads(rows, present);
    let (most, least) = (largest(&before), before.iter().copied().min().unwrap_or(0));
    let (ranges, after, moved) = (present.to_vec(), before.clone(), Vec::new());
    let mut stays = Balance { verdict: Verdict::Moves, ranges, before, after, moved, hot };
    stays.verdict = match () {
        () if tasks < 2 => Verdict::OneTask,
        () if total < ROWS_MIN => Verdict::TooFewRows,
        () if least as f64 >= most as f64 * (1.0 - EVEN) => Verdict::Even,
        () => {
            let ranges = divide(rows, present);
            let after = loads(rows, &ranges);
            if largest(&after) as f64 <= most as f64 * (1.0 - GAIN_MIN) {
                return Balance { moved: moves(present, &ranges), ranges, after, ..stays };
            }
            Verdict::NoBetter
        }
    };
    stays
}

fn largest(loads: &[u64]) -> u64 {
    loads.iter().copied().max().unwrap_or(0)
}

/// The rows of each task.
fn loads(rows: &[u64], ranges: &[KeyGroupRange]) -> Vec<u64> {
    let of = |range: &KeyGroupRange| rows.get(usize::from(range.first)..usize::from(range.end));
    ranges.iter().map(|range| of(range).unwrap_or_default().iter().sum()).collect()
}

/// Consecutive key groups for each task, at least one: with the smallest largest load, and among these with
/// the fewest key groups that move.
fn divide(rows: &[u64], present: &[KeyGroupRange]) -> Vec<KeyGroupRange> {
    let (groups, tasks) = (rows.len(), present.len());
    let sums: Vec<u64> = std::iter::once(0)
        .chain(rows.iter().scan(0, |sum, rows| {
            *sum += rows;
            Some(*sum)
        }))
        .collect();
    let most = smallest_maximum(rows, tasks);
    // `best[end]`: the fewest key groups that move if the tasks so far own `0..end`, and where the last one
    // of them begins.
    let mut best: Vec<Option<u32>> = vec![None; groups + 1];
    best[0] = Some(0);
    let mut begins = Vec::with_capacity(tasks);
    for own in present {
        let mut next = vec![None; groups + 1];
        let mut begin = vec![0; groups + 1];
        for end in 1..=groups {
            for first in (0..end).rev() {
                if sums[end] - sums[first] > most {
                    break;
                }
                let Some(moved) = best[first] else { continue };
                let range = KeyGroupRange { first: first as u16, end: end as u16 };
                let moved = moved + len(range) - len(range.and(*own));
                if next[end].is_none_or(|fewest| moved < fewest) {
                    (next[end], begin[end]) = (Some(moved), first);
                }
            }
        }
        best = next;
        begins.push(begin);
    }
    let mut end = groups;
    let mut ranges: Vec<KeyGroupRange> = Vec::with_capacity(tasks);
    for begin in begins.iter().rev() {
        let first = begin[end];
        ranges.push(KeyGroupRange { first: first as u16, end: end as u16 });
        end = first;
    }
    ranges.reverse();
    ranges
}

/// The smallest largest load of so many tasks.
fn smallest_maximum(rows: &[u64], tasks: usize) -> u64 {
    let fits = |most: u64| {
        let (mut needed, mut load) = (1, 0_u64);
        for rows in rows {
            load += rows;
            if load > most {
                (needed, load) = (needed + 1, *rows);
            }
        }
        needed <= tasks
    };
    let (mut low, mut high) = (rows.iter().copied().max().unwrap_or(0), rows.iter().sum());
    while low < high {
        let middle = low + (high - low) / 2;
        (low, high) = if fits(middle) { (low, middle) } else { (middle + 1, high) };
    }
    low
}

fn len(range: KeyGroupRange) -> u32 {
    u32::from(range.end.saturating_sub(range.first))
}

/// What changes its task, in the order of the key groups.
fn moves(from: &[KeyGroupRange], to: &[KeyGroupRange]) -> Vec<Move> {
    let both = |(to, new): (u32, &KeyGroupRange)| {
        let new = *new;
        (0..).zip(from).map(move |(from, old)| Move { groups: new.and(*old), from, to })
    };
    let moved = |of: &Move| of.from != of.to && of.groups != KeyGroupRange::EMPTY;
    let mut moves: Vec<Move> = (0..).zip(to).flat_map(both).filter(moved).collect();
    moves.sort_by_key(|of| of.groups.first);
    moves
}

#[cfg(test)]
mod tests;
