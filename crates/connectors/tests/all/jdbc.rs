//! The connector `jdbc` against a real PostgreSQL server, one for most tests of this file. Without its
//! programs the tests fail; `make test` installs them.

mod exactly_once;
mod harness;
mod reading;
mod refusals;
mod security;
mod writing;
