//! Creates the topic that a sink writes to, if it does not exist.

use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::FromClientConfig;
use rdkafka::error::RDKafkaErrorCode;

use super::client::{LOOK, Producer, count_in, topic_metadata};
use super::table::{Table, config_error};

/// Requests the broker's own default.
const BROKERS_DEFAULT: i32 = -1;

/// Ensures that the topic exists, and returns its number of partitions. Several tasks may do so at once.
pub(super) fn ensure_topic(client: &Producer, table: &Table, topic: &str, clock: &dyn Clock) -> Result<i32> {
    let mut deadline = clock.now().plus(table.first_answer);
    let mut is_requested = false;
    loop {
        let code = match count_in(&topic_metadata(client, table, topic, clock)?, topic) {
            Ok(count) => return Ok(count),
            Err(code) => code,
        };
        match code {
            RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition if !is_requested => {
                // A broker has answered, so the outage timeout applies from here on.
                create(table, topic, table.connection_timeout)?;
                deadline = clock.now().plus(table.connection_timeout);
                is_requested = true;
            }
            // It was just created, by this task or another: leaders are being elected.
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::LeaderNotAvailable => {}
            code => return Err(Error::outside(format!("topic '{topic}' cannot be written: {code}"))),
        }
        if clock.now() >= deadline {
            return Err(Error::outside(format!("topic '{topic}' was created but cannot be written: {code}")));
        }
        client.poll(LOOK);
    }
}

fn create(table: &Table, topic: &str, wait: Duration) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        AdminClient::from_config(&table.producer_config()).map_err(config_error)?;
    let partitions = table.created_partitions.unwrap_or(BROKERS_DEFAULT);
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(BROKERS_DEFAULT));
    let options = AdminOptions::new().request_timeout(Some(wait)).operation_timeout(Some(wait));
    let failed = |reason: String| {
        Error::outside(format!("topic '{topic}' does not exist and cannot be created: {reason}"))
            .remedy("create it, or grant the right to create topics")
    };
    // The client completes its futures from a thread of its own, within the timeout of its options.
    let outcomes = block_on(admin.create_topics([&new], &options)).map_err(|error| failed(error.to_string()))?;
    for outcome in outcomes {
        match outcome {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => return Err(failed(code.to_string())),
        }
    }
    Ok(())
}
