//! The Kafka connector against a real broker, one for all tests of this file. Without Java or the broker's jars the
//! tests fail; `make setup` installs both.

#[path = "support/broker.rs"]
mod broker;
#[path = "kafka/failures.rs"]
mod failures;
#[path = "kafka/groups.rs"]
mod groups;
#[path = "kafka/harness.rs"]
mod harness;
#[path = "kafka/reading.rs"]
mod reading;
#[path = "kafka/writing.rs"]
mod writing;
