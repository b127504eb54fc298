//! The newest heartbeat of this process that the coordinator of a job has answered. Answers are for all jobs
//! of a process, so they do not wake the thread of a job: it reads the newest one when it does something, and
//! at the latest when its lease would be over.

use std::sync::{Mutex, PoisonError};

use anabranch_model::Nanos;
use anabranch_protocol::worker::Term;

/// The newest answer for one job. The thread of the process writes it, the thread of the job reads it.
#[derive(Debug, Default)]
pub(crate) struct Contact(Mutex<Newest>);

#[derive(Debug, Default)]
struct Newest {
    /// How many messages the thread of the job was given.
    given: u64,
    /// Came after these messages.
    answer: Option<(Term, Nanos)>,
}

impl Contact {
    /// The job is given a message. It takes that before any answer that comes later: the message may be of
    /// another coordinator, or of other tasks.
    pub(crate) fn gives(&self) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Newest { given: newest.given + 1, answer: None };
    }

    /// The process that has the job's coordinator in this term has answered the heartbeat that was sent then.
    pub(crate) fn answered(&self, term: Term, sent: Nanos) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answer = Some((term, sent));
    }

    /// The newest answer, for a job that has taken so many messages.
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
        contact.gives();
        assert_eq!(contact.newest(1), None, "it came before the message");
        contact.answered(Term(2), Nanos(7));
        assert_eq!(contact.newest(0), None, "the job has not taken the message yet");
        assert_eq!(contact.newest(1), Some((Term(2), Nanos(7))));
    }
}
