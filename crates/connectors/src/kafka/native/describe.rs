//! Descriptions of topics by the brokers, with their identities.

use std::ffi::{CString, c_char};
use std::ptr;
use std::time::Duration;

use rdkafka::bindings::{self as sys, rd_kafka_resp_err_t};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::super::client::Consumer;
use super::super::topic_id::TopicId;
use super::{Client as _, millis};

/// How much later than requested the client may answer.
const LATE: Duration = Duration::from_millis(500);

/// An existing topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Described {
    /// `None`: the brokers are older than topic identities.
    pub(in super::super) id: Option<TopicId>,
    pub(in super::super) partitions: i32,
}

/// Requests the descriptions of these topics from a broker. `wait` is the time limit of the request.
pub(in super::super) fn describe(
    client: &Consumer,
    names: &[&str],
    wait: Duration,
) -> KafkaResult<Vec<Result<Described, RDKafkaErrorCode>>> {
    let failed = |code: rd_kafka_resp_err_t| KafkaError::MetadataFetch(code.into());
    let c_names = names.iter().map(|name| CString::new(*name)).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<*const c_char> = c_names.iter().map(|name| name.as_ptr()).collect();
    let native = client.native();
    let mut error = [0; 512];
    // SAFETY: the client lives. Names, options and the queue live until the calls return, which copy or count
    // what they keep. Everything created here is destroyed here, once, after its last use.
    unsafe {
        let topics = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        let options =
            sys::rd_kafka_AdminOptions_new(native, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        let timeout = millis(wait).max(1);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, timeout, error.as_mut_ptr(), error.len());
        let queue = sys::rd_kafka_queue_new(native);
        sys::rd_kafka_DescribeTopics(native, topics, options, queue);
        let event = sys::rd_kafka_queue_poll(queue, millis(wait + LATE));
        let answer = match event.is_null() {
            true => Err(failed(rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__TIMED_OUT)),
            false => match sys::rd_kafka_event_error(event) {
                rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(described(event, names.len())),
                code => Err(failed(code)),
            },
        };
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_queue_destroy(queue);
        sys::rd_kafka_AdminOptions_destroy(options);
        sys::rd_kafka_TopicCollection_destroy(topics);
        answer
    }
}

/// The answer in an event: one description per requested topic, in order.
///
/// # Safety
/// The event must be the answer to a request for descriptions of topics, and not yet be destroyed.
unsafe fn described(event: *mut sys::rd_kafka_event_t, asked: usize) -> Vec<Result<Described, RDKafkaErrorCode>> {
    let unknown = || Err(RDKafkaErrorCode::UnknownTopicOrPartition);
    // SAFETY: the event lives, and the result and its topics live as long; `count` topics lie there.
    let topics = unsafe {
        let mut count = 0;
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let topics = match result.is_null() {
            true => ptr::null_mut(),
            false => sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count),
        };
        if topics.is_null() { &[][..] } else { std::slice::from_raw_parts(topics.cast_const(), count) }
    };
    let one = |topic: &*const sys::rd_kafka_TopicDescription_t| {
        if topic.is_null() {
            return unknown();
        }
        // SAFETY: the topic lives as long as the event; so do its error and its identity.
        unsafe {
            let error = sys::rd_kafka_TopicDescription_error(*topic);
            if !error.is_null() && sys::rd_kafka_error_code(error) != rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(sys::rd_kafka_error_code(error).into());
            }
            let mut partitions = 0;
            sys::rd_kafka_TopicDescription_partitions(*topic, &raw mut partitions);
            let id = sys::rd_kafka_TopicDescription_topic_id(*topic);
            let id = match id.is_null() {
                true => None,
                false => TopicId::from_halves(
                    sys::rd_kafka_Uuid_most_significant_bits(id),
                    sys::rd_kafka_Uuid_least_significant_bits(id),
                ),
            };
            match i32::try_from(partitions) {
                Ok(0) => unknown(),
                partitions => Ok(Described { id, partitions: partitions.unwrap_or(i32::MAX) }),
            }
        }
    };
    let mut all: Vec<_> = topics.iter().map(one).collect();
    all.resize_with(asked, unknown);
    all
}
