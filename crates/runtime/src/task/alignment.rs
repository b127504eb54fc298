//! Where several channels meet: the minimum of their watermarks, and the alignment of their markers.
//!
//! A channel whose marker has arrived is blocked until the markers of all others have arrived (Flink's
//! barrier alignment), so that exactly the next epoch follows the aligned marker. At a marker event time is
//! the same in all tasks that receive the same envelopes, in whichever order: a snapshot has one event time
//! for all of them. This module also checks the order on each channel: consecutive epochs, growing
//! watermarks, nothing after the end.

use anabranch_model::{Envelope, Epoch, Error, EventTime, Marker, MarkerKind, Nanos, Result, Stamped};
use arrow::array::RecordBatch;

use crate::task::merged_time::{InputState, InputTime, MergedTime, TimeProgress};

/// Merges the envelopes of a task's channels into one stream.
pub(crate) struct Alignment {
    channels: Vec<Channel>,
    /// A channel that must not be read until its marker has been aligned, or never again.
    blocked: Vec<bool>,
    time: MergedTime,
}

#[derive(Clone)]
struct Channel {
    /// The last watermark before the end of event time.
    watermark: EventTime,
    /// Whether event time has reached its end.
    complete: bool,
    /// Birth of the rows that caused the watermark.
    born: Nanos,
    idle: bool,
    /// Whether it was idle at some time of the epoch.
    was_idle: bool,
    marker: Option<Marker>,
    last_epoch: u64,
    closed: Option<MarkerKind>,
}

/// The effect of an envelope on the task.
#[derive(Debug)]
pub(crate) enum Event {
    /// Rows to process.
    Batch(Stamped<RecordBatch>),
    /// The minimum over the channels has grown, or they are no longer idle.
    Watermark(Stamped<EventTime>),
    /// All channels that have not ended are idle, after this watermark if there is one.
    Idle(Option<Stamped<EventTime>>),
    /// All channels have ended the epoch, after this watermark if there is one.
    Marker(Marker, Option<Stamped<EventTime>>),
    /// Nothing.
    None,
}

impl Alignment {
    /// For channels that begin after the epoch `after`.
    pub(crate) fn new(channels: usize, after: Epoch) -> Self {
        let channel = Channel {
            watermark: EventTime::MIN,
            complete: false,
            born: Nanos(0),
            idle: false,
            was_idle: false,
            marker: None,
            last_epoch: after.0,
            closed: None,
        };
        Alignment { channels: vec![channel; channels], blocked: vec![false; channels], time: MergedTime::default() }
    }

    /// For each channel whether it must not be read now.
    pub(crate) fn blocked(&self) -> &[bool] {
        &self.blocked
    }

    /// Takes the next envelope of a channel that is not blocked.
    pub(crate) fn receive(&mut self, index: usize, envelope: Envelope) -> Result<Event> {
        let channel = &mut self.channels[index];
        if self.blocked[index] {
            return Err(Error::internal(format!("channel {index} was read while blocked")));
        }
        Ok(match envelope {
            Envelope::Batch(_) if channel.idle => {
                return Err(Error::internal(format!(
                    "channel {index} sent rows without announcing that it is no longer idle"
                )));
            }
            Envelope::Batch(batch) => Event::Batch(batch),
            Envelope::Watermark(watermark) => {
                let old = if channel.complete { EventTime::MAX } else { channel.watermark };
                if watermark.value < old {
                    let new = watermark.value;
                    return Err(Error::internal(format!("the watermark of channel {index} fell from {old} to {new}")));
                }
                match watermark.value {
                    EventTime::MAX => channel.complete = true,
                    value => channel.watermark = value,
                }
                channel.born = watermark.born;
                channel.idle = false;
                self.progress()
            }
            Envelope::Idle => {
                (channel.idle, channel.was_idle) = (true, true);
                self.progress()
            }
            Envelope::Marker(marker) => {
                if marker.epoch.0 != channel.last_epoch + 1 {
                    let (new, old) = (marker.epoch.0, channel.last_epoch);
                    return Err(Error::internal(format!("channel {index} ended epoch {new} after epoch {old}")));
                }
                channel.last_epoch = marker.epoch.0;
                channel.marker = Some(marker);
                channel.closed = marker.kind.closes().then_some(marker.kind);
                self.blocked[index] = true;
                self.align()
            }
        })
    }

    fn progress(&mut self) -> Event {
        match self.time.progress(self.channels.iter().map(|channel| channel.time(channel.idle))) {
            Some(TimeProgress::Watermark(watermark)) => Event::Watermark(watermark),
            Some(TimeProgress::Idle(watermark)) => Event::Idle(watermark),
            None => Event::None,
        }
    }

    /// All channels have their markers. Another task may have received the envelopes of a temporarily idle
    /// channel after those of other channels: there, event time has advanced as if the channel were still
    /// idle. So it advances here too.
    fn agree(&mut self) -> Option<Stamped<EventTime>> {
        let grown = match self.channels.iter().all(Channel::ended) {
            true => None,
            false => self.time.advance(self.channels.iter().map(|channel| channel.time(channel.was_idle))),
        };
        self.channels.iter_mut().for_each(|channel| channel.was_idle = channel.idle);
        grown
    }

    fn align(&mut self) -> Event {
        if self.channels.iter().any(|c| c.marker.is_none() && c.closed.is_none()) {
            return Event::None;
        }
        let kinds = self.channels.iter().map(|c| c.closed);
        let kind = kinds.reduce(|a, b| match (a, b) {
            (None, _) | (_, None) => None,
            (Some(MarkerKind::Stop), _) | (_, Some(MarkerKind::Stop)) => Some(MarkerKind::Stop),
            _ => Some(MarkerKind::End),
        });
        let kind = kind.flatten().unwrap_or(MarkerKind::Cut);
        let newest = self.channels.iter().filter_map(|c| c.marker).max_by_key(|m| m.epoch);
        let agreed = self.agree();
        for (channel, blocked) in self.channels.iter_mut().zip(&mut self.blocked) {
            channel.marker = None;
            *blocked = channel.closed.is_some();
        }
        newest.map_or(Event::None, |marker| Event::Marker(Marker { kind, ..marker }, agreed))
    }
}

impl Channel {
    /// The event time of the channel. A stopped channel still holds event time back.
    fn time(&self, is_idle: bool) -> InputTime {
        let state = match (self.ended(), is_idle) {
            (true, _) => InputState::Ended,
            (false, true) => InputState::Idle,
            (false, false) => InputState::Active,
        };
        InputTime { reached: Stamped { value: self.watermark, born: self.born }, state }
    }

    /// The stream of this channel is complete, so it does not count in the minimum.
    fn ended(&self) -> bool {
        self.closed == Some(MarkerKind::End) || self.complete
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::{PlanVersion, Rng};

    use super::*;

    fn marker(epoch: u64, kind: MarkerKind) -> Envelope {
        Envelope::Marker(Marker { epoch: Epoch(epoch), version: PlanVersion(1), snapshot: false, kind })
    }

    fn watermark(ms: i64) -> Envelope {
        Envelope::Watermark(Stamped { value: EventTime(ms), born: Nanos(0) })
    }

    /// Feeds (channel, envelope) pairs and shows the events as text.
    fn check(channels: usize, steps: Vec<(usize, Envelope)>, expected: &[&str]) {
        let mut alignment = Alignment::new(channels, Epoch(0));
        let seen: Vec<String> = steps
            .into_iter()
            .map(|(channel, envelope)| match alignment.receive(channel, envelope).expect("in order") {
                Event::Batch(_) => "batch".into(),
                Event::Watermark(w) => format!("watermark {}", w.value.0),
                Event::Idle(None) => "idle".into(),
                Event::Idle(Some(w)) => format!("watermark {}, idle", w.value.0),
                Event::Marker(m, None) => format!("{:?} {}", m.kind, m.epoch.0),
                Event::Marker(m, Some(w)) => format!("watermark {}, {:?} {}", w.value.0, m.kind, m.epoch.0),
                Event::None => "-".into(),
            })
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_marker_passes_when_all_channels_have_it() {
        use MarkerKind::{Cut, End, Stop};
        check(2, vec![(0, marker(1, Cut)), (1, marker(1, Cut)), (1, marker(2, Cut))], &["-", "Cut 1", "-"]);
        let ends = vec![(0, marker(1, End)), (1, marker(1, Cut)), (1, marker(2, Cut)), (1, marker(3, End))];
        check(2, ends, &["-", "Cut 1", "Cut 2", "End 3"]);
        check(2, vec![(0, marker(1, End)), (1, marker(1, Stop))], &["-", "Stop 1"]);
    }

    #[test]
    fn the_watermark_is_the_minimum_of_the_active_channels() {
        check(2, vec![(0, watermark(5)), (1, watermark(3)), (1, watermark(9))], &["-", "watermark 3", "watermark 5"]);
        check(2, vec![(0, watermark(5)), (1, Envelope::Idle), (0, Envelope::Idle)], &["-", "watermark 5", "idle"]);
        // Whichever becomes idle first, the latest watermark counts, and a channel that is active again
        // announces it.
        let idle = |first: usize| {
            vec![(0, watermark(9)), (1, watermark(5)), (first, Envelope::Idle), (1 - first, Envelope::Idle)]
        };
        check(2, idle(0), &["-", "watermark 5", "-", "watermark 9, idle"]);
        check(2, idle(1), &["-", "watermark 5", "watermark 9", "idle"]);
        // This includes the watermark of a channel that has ended since: another task may have seen it idle
        // before its end.
        let mut ended = idle(0);
        ended.insert(3, (0, watermark(i64::MAX)));
        check(2, ended, &["-", "watermark 5", "-", "-", "watermark 9, idle"]);
        let woken = vec![(0, watermark(5)), (0, Envelope::Idle), (0, watermark(5)), (0, watermark(6))];
        check(1, woken, &["watermark 5", "idle", "watermark 5", "watermark 6"]);
        // An idle channel that wakes up behind the others does not pull the watermark back.
        check(
            2,
            vec![(0, watermark(5)), (1, Envelope::Idle), (1, watermark(2)), (1, watermark(6)), (0, watermark(7))],
            &["-", "watermark 5", "-", "-", "watermark 6"],
        );
        let end = vec![(0, watermark(5)), (1, watermark(i64::MAX)), (1, marker(1, MarkerKind::End)), (0, watermark(8))];
        check(2, end, &["-", "watermark 5", "-", "watermark 8"]);
        let idle = vec![(0, Envelope::Idle), (1, watermark(i64::MAX)), (0, watermark(3)), (0, watermark(i64::MAX))];
        check(2, idle, &["-", "idle", "watermark 3", "watermark 9223372036854775807"]);
        check(2, vec![(0, watermark(i64::MAX)), (1, watermark(i64::MAX))], &["-", "watermark 9223372036854775807"]);
    }

    /// All channels' envelopes, interleaved at random: at each marker event time is the same.
    #[test]
    fn at_a_marker_tasks_agree_on_event_time_in_whichever_order_they_receive() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let sent: Vec<Vec<Envelope>> = (0..1 + rng.below(3)).map(|_| sent(&mut rng)).collect();
            let mut reached: Option<Vec<EventTime>> = None;
            for _ in 0..4 {
                let mut alignment = Alignment::new(sent.len(), Epoch(0));
                let mut next = vec![0; sent.len()];
                let mut at_markers = Vec::new();
                loop {
                    let may = |channel: &usize| !alignment.blocked()[*channel] && next[*channel] < sent[*channel].len();
                    let open: Vec<usize> = (0..sent.len()).filter(may).collect();
                    let Some(channel) = (!open.is_empty()).then(|| open[rng.below(open.len() as u64) as usize]) else {
                        break;
                    };
                    next[channel] += 1;
                    let envelope = again(&sent[channel][next[channel] - 1]);
                    if let Event::Marker(..) = alignment.receive(channel, envelope).expect("in order") {
                        at_markers.push(alignment.time.watermark());
                    }
                }
                assert_eq!(reached.get_or_insert(at_markers.clone()), &at_markers, "seed {seed}: {sent:?}");
            }
        }
    }

    /// Epochs of watermarks, idle or not, and sometimes the end.
    fn sent(rng: &mut Rng) -> Vec<Envelope> {
        let (mut all, mut time) = (Vec::new(), 0);
        for epoch in 1..=4 {
            for _ in 0..rng.below(4) {
                time += rng.below(3) as i64;
                all.push(if rng.below(3) == 0 { Envelope::Idle } else { watermark(time) });
            }
            if epoch == 4 || rng.below(8) == 0 {
                all.extend([watermark(i64::MAX), marker(epoch, MarkerKind::End)]);
                break;
            }
            all.push(marker(epoch, MarkerKind::Cut));
        }
        all
    }

    fn again(envelope: &Envelope) -> Envelope {
        match envelope {
            Envelope::Watermark(watermark) => Envelope::Watermark(*watermark),
            Envelope::Marker(marker) => Envelope::Marker(*marker),
            _ => Envelope::Idle,
        }
    }

    #[test]
    fn a_stopped_channel_holds_the_watermark() {
        check(
            2,
            vec![(0, watermark(5)), (0, marker(1, MarkerKind::Stop)), (1, watermark(9))],
            &["-", "-", "watermark 5"],
        );
    }

    #[test]
    fn disorder_on_a_channel_is_an_internal_error() {
        let no_rows = RecordBatch::new_empty(std::sync::Arc::new(arrow::datatypes::Schema::empty()));
        for steps in [
            vec![watermark(5), watermark(4)],
            vec![marker(2, MarkerKind::Cut)],
            vec![marker(1, MarkerKind::End), watermark(1)],
            vec![Envelope::Idle, Envelope::Batch(Stamped { value: no_rows, born: Nanos(0) })],
        ] {
            let mut alignment = Alignment::new(1, Epoch(0));
            let last = steps.into_iter().map(|e| alignment.receive(0, e)).last().expect("steps");
            assert!(last.expect_err("disorder").to_string().contains("internal error"));
        }
    }
}
