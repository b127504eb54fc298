//! When sources are held back, and how much: a source needs so little of a core that no priority restrains
//! it, so past saturation the backlog would stand inside of the query, where each row that waits makes
//! results older.
//!
//! The valve is open for a part of each cycle. Above the bound the part is halved, below half of the bound it
//! grows by steps, in between it stays: additive increase, multiplicative decrease, as congestion control
//! does (Chiu and Jain 1989). It never closes wholly: a source that is not let in at all would report neither
//! progress nor its end.

use anabranch_model::Nanos;

/// The smallest part of the time for which sources run.
pub const OPENING_MIN: f64 = 0.05;

/// By how much the opening grows in a step.
const GROWTH: f64 = 0.1;

/// The part of the bound below which the opening grows again.
const LOW_SHARE: f64 = 0.5;

/// Holds the sources of one query, or of all queries of a target, back.
#[derive(Clone, Debug)]
pub struct Valve {
    bound: f64,
    step_ns: u64,
    cycle_ns: u64,
    opening: f64,
    changed: Nanos,
}

impl Valve {
    /// An open valve. It closes while the greatest inner queue is above `bound` (rows, or another unit that
    /// its caller uses throughout); a change takes effect for at least `step_ns`, because queues follow with
    /// delay; a cycle of letting in and holding back takes `cycle_ns`. Both are at least 1 ns; `now` is the
    /// caller's clock.
    #[must_use]
    pub fn new(bound: f64, step_ns: u64, cycle_ns: u64, now: Nanos) -> Self {
        Valve { bound, step_ns: step_ns.max(1), cycle_ns: cycle_ns.max(1), opening: 1.0, changed: now }
    }

    /// Takes the greatest inner queue of now, and gives the part of the time for which sources may run: from
    /// [`OPENING_MIN`] to 1. A queue that is not known opens it: sources are not held back without a reason.
    ///
    /// The first step from fully open is taken at once; later ones are at least a step apart.
    pub fn update(&mut self, now: Nanos, queue: f64) -> f64 {
        if queue.is_nan() {
            if self.opening < 1.0 {
                (self.opening, self.changed) = (1.0, now);
            }
            return self.opening;
        }
        let due = now.since(self.changed) >= self.step_ns;
        let next = if queue > self.bound && (due || self.opening >= 1.0) {
            (self.opening / 2.0).max(OPENING_MIN)
        } else if queue < self.bound * LOW_SHARE && due {
            (self.opening + GROWTH).min(1.0)
        } else {
            self.opening
        };
        if next != self.opening {
            (self.opening, self.changed) = (next, now);
        }
        self.opening
    }

    /// The part of the time for which sources may run, as of the last update.
    #[must_use]
    pub fn opening(&self) -> f64 {
        self.opening
    }

    /// Whether sources may run at this moment: in the first part of each cycle.
    #[must_use]
    pub fn lets_in(&self, now: Nanos) -> bool {
        let place = now.0 % self.cycle_ns;
        (place as f64) < self.opening * self.cycle_ns as f64
    }

    /// When [`Valve::lets_in`] changes next if nothing is updated until then. None while it is fully open.
    #[must_use]
    pub fn next_change(&self, now: Nanos) -> Option<Nanos> {
        if self.opening >= 1.0 {
            return None;
        }
        let begin = now.0 - now.0 % self.cycle_ns;
        let closes = begin + (self.opening * self.cycle_ns as f64).ceil() as u64;
        Some(Nanos(if closes > now.0 { closes } else { begin + self.cycle_ns }))
    }
}

#[cfg(test)]
mod tests;
