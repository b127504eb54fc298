//! Samples by seconds, by ten seconds, and by minutes, within a number of bytes.

use std::collections::{BTreeSet, VecDeque};

use super::frame::Frame;

/// How many seconds a sample of each ring stands for, how many of them are kept, and which part of the bytes
/// they may take.
const RINGS: [(u8, usize, f64); 3] = [(1, 300, 0.45), (10, 360, 0.2), (60, 1440, 0.35)];

/// The samples of a job, the finest first.
#[derive(Default)]
pub(super) struct Rings([Ring; 3]);

#[derive(Default)]
struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Samples of the finer ring since the last one here.
    pending: usize,
}

impl Ring {
    fn push(&mut self, frame: Frame, count_max: usize, bytes_max: usize) {
        self.bytes += frame.bytes();
        self.frames.push_back(frame);
        while self.frames.len() > count_max || self.bytes > bytes_max && self.frames.len() > 1 {
            let Some(oldest) = self.frames.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

impl Rings {
    pub(super) fn newest(&self) -> Option<&Frame> {
        self.0[0].frames.back()
    }

    /// Keeps a sample within a number of bytes.
    pub(super) fn push(&mut self, mut frame: Frame, bytes: usize) {
        if let Some(before) = self.newest() {
            frame.share_with(before);
        }
        let of_ring = |part: f64| (bytes as f64 * part) as usize;
        self.0[0].push(frame, RINGS[0].1, of_ring(RINGS[0].2));
        for at in 1..RINGS.len() {
            let (seconds, count_max, part) = RINGS[at];
            let (finer, coarser) = self.0.split_at_mut(at);
            let (finer, ring) = (&finer[at - 1].frames, &mut coarser[0]);
            ring.pending += 1;
            let together = usize::from(seconds / RINGS[at - 1].0);
            if ring.pending < together {
                return;
            }
            ring.pending = 0;
            let frames: Vec<&Frame> = finer.iter().rev().take(together).rev().collect();
            if let Some(all) = Frame::together(&frames, seconds) {
                ring.push(all, count_max, of_ring(part));
            }
        }
    }

    /// The versions of the plan that samples are of.
    pub(super) fn versions(&self) -> BTreeSet<u32> {
        self.0.iter().flat_map(|ring| &ring.frames).map(|frame| frame.job.plan_version).collect()
    }

    /// The sample of this number, if it is kept by seconds.
    pub(super) fn numbered(&self, number: u64) -> Option<&Frame> {
        self.0[0].frames.iter().rev().find(|frame| frame.number == number)
    }

    /// The sample that stands for a moment: the finest that covers it, else the nearest one.
    pub(super) fn at(&self, at_ms: i64) -> Option<&Frame> {
        let finest = self.0.iter().find(|ring| ring.frames.front().is_some_and(|oldest| oldest.at_ms <= at_ms));
        let ring = finest.or_else(|| self.0.iter().rev().find(|ring| !ring.frames.is_empty()))?;
        let after = ring.frames.partition_point(|frame| frame.at_ms <= at_ms);
        // A coarse sample is taken at the end of its span.
        let at = if ring.frames.front()?.seconds > 1 { after } else { after.saturating_sub(1) };
        ring.frames.get(at).or(ring.frames.back())
    }

    /// The samples of a span of time, oldest first, at the finest resolution that is kept of each part.
    pub(super) fn between(&self, from_ms: i64, to_ms: i64) -> impl Iterator<Item = &Frame> {
        let begins = |ring: &Ring| ring.frames.front().map_or(i64::MAX, |oldest| oldest.at_ms);
        let [seconds, tens, minutes] = &self.0;
        let (fine, middle) = (begins(seconds), begins(tens).min(begins(seconds)));
        let of_minutes = minutes.frames.iter().filter(move |frame| frame.at_ms < middle);
        let of_tens = tens.frames.iter().filter(move |frame| frame.at_ms < fine);
        let all = of_minutes.chain(of_tens).chain(&seconds.frames);
        all.filter(move |frame| (from_ms..=to_ms).contains(&frame.at_ms))
    }

    /// Bytes of all samples.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|ring| ring.bytes).sum()
    }
}
