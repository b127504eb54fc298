//! The connector `jdbc` against a real PostgreSQL server, one for most tests of this file. Without its programs the tests fail; `make test`
//! installs them.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

#[path = "support/certificates.rs"]
mod certificates;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "conformance/suite.rs"]
mod suite;

#[path = "jdbc/exactly_once.rs"]
mod exactly_once;
#[path = "jdbc/harness.rs"]
mod harness;
#[path = "jdbc/reading.rs"]
mod reading;
#[path = "jdbc/refusals.rs"]
mod refusals;
#[path = "jdbc/security.rs"]
mod security;
#[path = "jdbc/writing.rs"]
mod writing;
