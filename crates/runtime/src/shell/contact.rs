//! The newest heartbeat of this process that the coordinator of a job has answered. One answer is for all
//! jobs of the process, so it does not wake the threads of the jobs. Each job reads the newest answer when it
//! is awake, and at the latest when its lease would expire.

use std::sync::{Mutex, PoisonError};

use anabranch_model::Nanos;
use anabranch_protocol::worker::Term;

/// The newest answer for one job. The thread of the process writes it, the thread of the job reads it.
#[derive(Debug, Default)]
pub(crate) struct Contact(Mutex<Newest>);

#[derive(Debug, Default)]
struct Newest {
    /// Number of messages given to the thread of the job.
    given: u64,
    /// The answer arrived after these messages.
    answer: Option<(Term, Nanos)>,
}

impl Contact {
    /// Counts a message given to the job. The job handles it before any later answer: the message may come
    /// from another coordinator, or concern other tasks.
    pub(crate) fn count_message(&self) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Newest { given: newest.given + 1, answer: None };
    }

    /// Records that the process of the job's coordinator in this term has answered the heartbeat that was
    /// sent at this time.
    pub(crate) fn answered(&self, term: Term, sent: Nanos) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answer = Some((term, sent));
    }

    /// The newest answer, for a job that has handled this number of messages.
    pub(crate) fn newest(&self, taken: u64) -> Option<(Term, Nanos)> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        newest.answer.filter(|_| newest.given == taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_all_messages_before_it_are_taken() {
        let contact = Contact::default();
        contact.answered(Term(1), Nanos(5));
        assert_eq!(contact.newest(0), Some((Term(1), Nanos(5))));
        contact.count_message();
        assert_eq!(contact.newest(1), None, "it came before the message");
        contact.answered(Term(2), Nanos(7));
        assert_eq!(contact.newest(0), None, "the job has not taken the message yet");
        assert_eq!(contact.newest(1), Some((Term(2), Nanos(7))));
    }
}
