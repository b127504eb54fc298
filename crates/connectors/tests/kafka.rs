//! The Kafka connector against a real broker, one for all tests of this file. Without Java or the broker's jars the tests
//! fail; `make test` installs both.

#![expect(clippy::unwrap_used, reason = "a test stops at the first error")]

#[path = "support/broker.rs"]
mod broker;
#[path = "support/certificates.rs"]
mod certificates;
#[path = "conformance/rows.rs"]
mod rows;
#[path = "conformance/suite.rs"]
mod suite;

#[path = "kafka/conformance.rs"]
mod conformance;
#[path = "kafka/exactly_once.rs"]
mod exactly_once;
#[path = "kafka/failures.rs"]
mod failures;
#[path = "kafka/groups.rs"]
mod groups;
#[path = "kafka/harness.rs"]
mod harness;
#[path = "kafka/metadata.rs"]
mod metadata;
#[path = "kafka/positions.rs"]
mod positions;
#[path = "kafka/reading.rs"]
mod reading;
#[path = "kafka/security.rs"]
mod security;
#[path = "kafka/writing.rs"]
mod writing;
