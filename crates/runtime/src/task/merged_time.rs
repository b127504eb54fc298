//! Event time of several inputs that advance independently: the partitions of a source, the channels of a
//! task. One rule applies to both.
//!
//! The minimum of the active inputs decides. When all inputs that have not ended are idle, the latest
//! watermark of any input counts, in whichever order they became idle or ended: slower inputs no longer hold
//! event time back, even if several become idle at once. When all inputs have ended, event time ends.

use anabranch_model::{EventTime, Nanos, Stamped};

/// How far an input has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputTime {
    /// Its watermark before the end of event time.
    pub(crate) reached: Stamped<EventTime>,
    pub(crate) state: InputState,
}

/// Whether an input holds event time back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputState {
    Active,
    Idle,
    Ended,
}

/// The effect of all inputs together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeProgress {
    /// Event time has advanced, or the inputs are no longer idle.
    Watermark(Stamped<EventTime>),
    /// All inputs that have not ended are idle, after this watermark if there is one.
    Idle(Option<Stamped<EventTime>>),
}

/// Event time of the inputs together, as far as it was passed on. It never falls.
#[derive(Debug)]
pub(crate) struct MergedTime {
    watermark: EventTime,
    idle: bool,
}

impl Default for MergedTime {
    fn default() -> Self {
        MergedTime { watermark: EventTime::MIN, idle: false }
    }
}

impl MergedTime {
    pub(crate) fn watermark(&self) -> EventTime {
        self.watermark
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle
    }

    /// The progress to pass on since the last call, if there is any.
    pub(crate) fn progress(&mut self, inputs: impl Iterator<Item = InputTime>) -> Option<TimeProgress> {
        let (reached, is_idle) = merge(inputs);
        let was_idle = std::mem::replace(&mut self.idle, is_idle);
        let grown = self.reach(reached);
        match (is_idle, grown) {
            (true, None) if was_idle => None,
            (true, grown) => Some(TimeProgress::Idle(grown)),
            (false, Some(grown)) => Some(TimeProgress::Watermark(grown)),
            (false, None) => was_idle.then_some(TimeProgress::Watermark(Stamped { value: self.watermark, ..reached })),
        }
    }

    /// Advances event time for this state of the inputs. Returns the watermark to pass on. Whether the inputs
    /// are idle stays unchanged.
    pub(crate) fn advance(&mut self, inputs: impl Iterator<Item = InputTime>) -> Option<Stamped<EventTime>> {
        let (reached, _) = merge(inputs);
        self.reach(reached)
    }

    fn reach(&mut self, reached: Stamped<EventTime>) -> Option<Stamped<EventTime>> {
        let grown = (reached.value > self.watermark).then_some(reached);
        self.watermark = self.watermark.max(reached.value);
        grown
    }
}

/// Event time of the inputs, and whether those that have not ended are idle.
fn merge(inputs: impl Iterator<Item = InputTime>) -> (Stamped<EventTime>, bool) {
    let (mut least, mut latest, mut is_open) = (None::<Stamped<EventTime>>, None::<Stamped<EventTime>>, false);
    let mut born = Nanos(0);
    for InputTime { reached, state } in inputs {
        born = born.max(reached.born);
        is_open |= state != InputState::Ended;
        if state == InputState::Active && least.is_none_or(|least| reached.value < least.value) {
            least = Some(reached);
        }
        if latest.is_none_or(|latest| reached.value >= latest.value) {
            latest = Some(reached);
        }
    }
    let end = Stamped { value: EventTime::MAX, born };
    match least {
        Some(least) => (least, false),
        None if is_open => (latest.unwrap_or(end), true),
        None => (end, false),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::Rng;

    use super::*;

    fn input(ms: i64, state: InputState) -> InputTime {
        InputTime { reached: Stamped { value: EventTime(ms), born: Nanos(0) }, state }
    }

    /// Whether inputs become idle at once or one after the other, event time ends at the same point.
    #[test]
    fn event_time_does_not_depend_on_how_many_inputs_become_idle_at_once() {
        use InputState::{Active, Idle};
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let times: Vec<i64> = (0..1 + rng.below(5)).map(|_| rng.below(20) as i64).collect();
            let (mut at_once, mut in_turn) = (MergedTime::default(), MergedTime::default());
            let all = |state| times.iter().map(move |ms| input(*ms, state));
            at_once.progress(all(Active));
            in_turn.progress(all(Active));
            at_once.progress(all(Idle));
            let mut idle = vec![false; times.len()];
            while idle.contains(&false) {
                idle[rng.below(times.len() as u64) as usize] = true;
                let states = idle.iter().map(|idle| if *idle { Idle } else { Active });
                in_turn.progress(times.iter().zip(states).map(|(ms, state)| input(*ms, state)));
            }
            let latest = times.iter().copied().max().map(EventTime);
            assert_eq!((Some(at_once.watermark()), at_once.is_idle()), (latest, true), "seed {seed}: {times:?}");
            assert_eq!((Some(in_turn.watermark()), in_turn.is_idle()), (latest, true), "seed {seed}: {times:?}");
        }
    }
}
