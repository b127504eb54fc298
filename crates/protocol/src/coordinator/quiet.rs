//! A job whose sources pass nothing on gets no groups: nobody waits for the end of an epoch in which nothing
//! happened.
//!
//! Sources report the newest epoch in which they have passed something on. They do so with their cuts, and
//! for an epoch without a grant when its time is over: then something waits for the grant. A source without a
//! grant goes on in its present epoch, so no row waits for anything but the end of its epoch, and that comes
//! with the grant.
//!
//! While groups follow each other, one is granted ahead. A row that comes after a pause gets one epoch, so a
//! job with few rows has about one epoch for each. From time to time an epoch is granted although nothing was
//! passed on. If nobody waits for the ends of epochs, because all results become visible with checkpoints,
//! few rows get epochs no more often than that.

use anabranch_model::{Epoch, Nanos};

use super::config::Quiet as Config;
use crate::table::{Transition, row};

/// The machine as a table.
pub(super) const TABLE: &[Transition] = &[
    row("busy", "a group is due, and something was passed on since the last one", "busy", "grant it"),
    row("busy", "a group is due, and nothing was passed on", "quiet", "grant it: one is ahead"),
    row("quiet", "sources wait for a grant, soon after the last one", "busy", "grant the group"),
    row("quiet", "sources wait for a grant, after a pause", "quiet", "grant one epoch"),
    row("quiet", "sources wait for a grant, neither soon nor after a pause", "quiet", "wait for the pause to be over"),
    row("quiet", "something was passed on since the last group", "busy", "grant the group that is due"),
    row(
        "quiet",
        "a checkpoint is due, and would contain something new",
        "quiet",
        "grant it one epoch, to be cut at once",
    ),
    row("quiet", "nothing was passed on for the longest time", "quiet", "grant one epoch"),
];

/// How many epochs to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Group,
    One,
}

/// The machine that says whether a group that is due is wanted.
#[derive(Debug)]
pub(super) struct Quiet {
    config: Option<Config>,
    /// The newest epoch in which a source has passed something on.
    active: Epoch,
    /// The same when a group was last granted because of it.
    seen: Epoch,
    busy: bool,
    /// From here on, what sources wait for a grant is a cost of coordination.
    counts_from: Nanos,
    granted_at: Nanos,
}

impl Quiet {
    /// The sources of an incarnation begin.
    pub(super) fn new(now: Nanos, config: Option<&Config>, from: Epoch) -> Self {
        Quiet { config: config.cloned(), active: from, seen: from, busy: true, counts_from: now, granted_at: now }
    }

    /// A source has passed something on in this epoch.
    pub(super) fn passed_on(&mut self, epoch: Epoch) {
        self.active = epoch.max(self.active);
    }

    /// The newest epoch in which something was passed on.
    pub(super) fn active(&self) -> Epoch {
        self.active
    }

    /// Whether groups have been granted ahead for so long that what sources have waited, as they report it,
    /// was a cost of coordination. Sources that passed nothing on for a while also wait. That says nothing
    /// about the cost, and larger groups would give epochs to a job that needs few.
    pub(super) fn counts_waits(&self, now: Nanos) -> bool {
        now >= self.counts_from
    }

    /// A group is granted.
    pub(super) fn granted(&mut self, now: Nanos) {
        self.granted_at = now;
    }

    /// A group is due, and epochs up to `last` are granted: whether it is wanted. `retries`: a checkpoint has
    /// failed.
    pub(super) fn wants(&mut self, now: Nanos, last: Epoch, retries: bool) -> Option<Wanted> {
        let Some(Config { soon, pause, longest }) = self.config else { return Some(Wanted::Group) };
        let since = |time| now >= self.granted_at.plus(time);
        let (news, soon, paused) = (self.active > self.seen, !since(soon), since(pause));
        let was_busy = std::mem::replace(&mut self.busy, false);
        if !was_busy && self.active > last && !soon {
            let is_due = paused || retries;
            if is_due {
                (self.seen, self.counts_from) = (self.active, now.plus(longest));
            }
            return is_due.then_some(Wanted::One);
        }
        if news {
            (self.busy, self.seen) = (true, self.active);
        }
        if news || was_busy {
            if !was_busy {
                self.counts_from = now.plus(longest);
            }
            return Some(Wanted::Group);
        }
        let over = now >= self.granted_at.plus(longest);
        (over || (retries && !soon)).then_some(Wanted::One)
    }

    /// When a group that is due is wanted although nothing was passed on.
    pub(super) fn deadline(&self, retries: bool) -> Option<Nanos> {
        let Config { soon, longest, .. } = self.config.as_ref()?;
        Some(self.granted_at.plus(if retries { *soon } else { *longest }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    const SOON: Duration = Duration::from_millis(300);
    const LONGEST: Duration = Duration::from_secs(2);

    /// A job of one source with epochs of 100 ms, whose rows come at these times. Returns when each epoch was
    /// cut.
    fn cuts(rows_ms: &[u64], until_ms: u64) -> Vec<u64> {
        cuts_with(SOON, rows_ms, until_ms)
    }

    fn cuts_with(pause: Duration, rows_ms: &[u64], until_ms: u64) -> Vec<u64> {
        let config = Config { soon: SOON, pause, longest: LONGEST };
        let mut quiet = Quiet::new(Nanos(0), Some(&config), Epoch(0));
        let (mut granted, mut cut, mut cuts) = (0, 0, Vec::new());
        let mut active = false;
        for now_ms in 0..until_ms {
            active |= rows_ms.contains(&now_ms);
            let is_over = now_ms >= cuts.last().map_or(100, |last| (last / 100 + 1) * 100);
            if is_over && cut < granted {
                cut += 1;
                cuts.push(now_ms);
            }
            if active && (is_over || cuts.last() == Some(&now_ms)) {
                quiet.passed_on(Epoch(if cuts.last() == Some(&now_ms) { cut } else { cut + 1 }));
            }
            active &= cuts.last() != Some(&now_ms);
            // The group's turn is the epoch before its last one.
            while cut + 1 >= granted
                && let Some(wanted) = quiet.wants(Nanos(now_ms * MS), Epoch(granted), false)
            {
                assert!(granted < 3 || wanted == Wanted::Group || !quiet.busy);
                granted += 1;
                quiet.granted(Nanos(now_ms * MS));
            }
        }
        cuts
    }

    #[test]
    fn a_job_without_rows_has_few_epochs() {
        let cuts = cuts(&[], 20_000);
        assert!(cuts.len() <= 3 + 10, "{cuts:?}");
        assert!(cuts.len() >= 8, "{cuts:?}");
    }

    #[test]
    fn a_row_after_a_pause_ends_its_epoch_at_once_and_has_one() {
        let cuts = cuts(&[5_050, 6_050, 7_050], 8_000);
        let after: Vec<u64> = cuts.into_iter().filter(|at| *at > 5_000).collect();
        assert_eq!(after, [5_051, 6_051, 7_051]);
    }

    #[test]
    fn rows_in_each_epoch_wait_for_no_grant() {
        let rows: Vec<u64> = (3_000..9_000).step_by(20).collect();
        for pause in [SOON, LONGEST] {
            let after = cuts_with(pause, &rows, 9_000).into_iter().filter(|at| *at > 6_000);
            assert!(after.eq((61..90).map(|tenth| tenth * 100)));
        }
    }

    #[test]
    fn rows_whose_epochs_nobody_waits_for_have_as_few_epochs_as_no_rows() {
        let rows: Vec<u64> = (0..40).map(|row| 550 + row * 1_000).collect();
        let often = cuts(&rows, 40_000).len();
        assert!(often >= 38, "{often}");
        let seldom = cuts_with(LONGEST, &rows, 40_000);
        assert!(seldom.len() <= 3 + 20 && seldom.len() >= 18, "{seldom:?}");
    }
}
