//! What a running job has to say to its user: failures that it survived, a broker that is away, a resume from
//! checkpoints.
//!
//! Sources, sinks and the coordinator's driver report; the live view, the log lines and the summary read. A
//! notice that repeats itself is counted, so that a failure per second does not push the others out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Nanos;

/// Notices kept; older ones are dropped and counted.
const KEPT: usize = 100;

/// One thing that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Position among the job's notices, from 1. A notice that repeats itself gets a new number.
    pub number: u64,
    /// When it was last reported.
    pub at: Nanos,
    /// How often in a row it was reported.
    pub times: u64,
    /// A sentence, with what to do about it.
    pub text: String,
}

impl Notice {
    /// Whether this report is logged: the 1st, 2nd, 4th, 8th, ... in a row is, so that a notice that repeats
    /// itself does not fill the log.
    #[must_use]
    pub fn is_logged(&self) -> bool {
        self.times.is_power_of_two()
    }
}

/// The notices of one job: bounded, shared by its tasks and its observers.
#[derive(Debug, Default)]
pub struct Notices(Mutex<KeptNotices>);

#[derive(Debug, Default)]
struct KeptNotices {
    notices: VecDeque<Notice>,
    last: u64,
}

impl Notices {
    /// Reports `text`. The same text as that of the last notice only raises its count. Returns the notice.
    pub fn report(&self, at: Nanos, text: impl Into<String>) -> Notice {
        let text = text.into();
        let mut kept = self.lock();
        kept.last += 1;
        let number = kept.last;
        match kept.notices.back_mut().filter(|newest| newest.text == text) {
            Some(newest) => {
                newest.number = number;
                newest.at = at;
                newest.times += 1;
                newest.clone()
            }
            None => {
                if kept.notices.len() == KEPT {
                    kept.notices.pop_front();
                }
                let notice = Notice { number, at, times: 1, text };
                kept.notices.push_back(notice.clone());
                notice
            }
        }
    }

    /// Notices with a number above `number`, oldest first; 0 returns all that are kept.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<Notice> {
        self.lock().notices.iter().filter(|notice| notice.number > number).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, KeptNotices> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_that_repeats_itself_is_counted_and_the_oldest_give_way() {
        let notices = Notices::default();
        notices.report(Nanos(1), "a");
        notices.report(Nanos(2), "b");
        notices.report(Nanos(3), "b");
        assert_eq!(notices.after(1), [Notice { number: 3, at: Nanos(3), times: 2, text: "b".into() }]);
        for n in 0..200 {
            notices.report(Nanos(n), n.to_string());
        }
        assert_eq!(notices.after(0).len(), KEPT);
        assert_eq!(notices.after(0)[KEPT - 1].text, "199");
    }
}
