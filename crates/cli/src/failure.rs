//! A failed command: the message for the user, and the exit code for scripts.

use anabranch_model::{Error, ErrorKind};

use anabranch_server::render;

/// The job failed, or an outside system did.
const FAILED: u8 = 1;
/// The SQL or the command line is wrong.
const WRONG: u8 = 2;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The message for standard error.
    pub(crate) text: String,
    pub(crate) code: u8,
}

impl Failure {
    /// A failure before the job ran: the statements, or their request, are wrong.
    pub(crate) fn planning(error: &Error, sql: &str) -> Self {
        let code = if matches!(error.kind(), ErrorKind::User | ErrorKind::Fenced) { WRONG } else { FAILED };
        Failure { text: render(error, sql), code }
    }

    /// Like [`Failure::planning`], for a failure without statements.
    #[expect(clippy::needless_pass_by_value, reason = "the form that map_err wants")]
    pub(crate) fn request(error: Error) -> Self {
        Self::planning(&error, "")
    }
}

/// A failure while the job ran.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { text: render(&error, ""), code: FAILED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_whose_fault_it_is() {
        assert_eq!(Failure::planning(&Error::user("typo"), "").code, 2);
        assert_eq!(Failure::planning(&Error::outside("no broker"), "").code, 1);
        assert_eq!(Failure::from(Error::user("malformed record")).code, 1);
    }
}
