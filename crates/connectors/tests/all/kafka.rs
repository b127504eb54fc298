//! The Kafka connector against a real broker, one for all tests of this file. Without Java or the broker's
//! jars the tests fail; `make test` installs both.

mod conformance;
mod exactly_once;
mod failures;
mod groups;
mod harness;
mod identity;
mod keys;
mod metadata;
mod notices;
mod positions;
mod reading;
mod security;
mod writing;
