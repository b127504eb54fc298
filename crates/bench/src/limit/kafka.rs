//! Records of a topic, taken from librdkafka and only counted: what reading costs without an engine.

use std::ffi::CString;
use std::ptr;
use std::time::Duration;

use anabranch_model::{Error, Result};
use rdkafka::bindings as sys;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, error::KafkaError};

use crate::contestant::RunResult;

/// Records taken at a time.
const BATCH: usize = 1024;
/// How long the consumer waits for records.
const WAIT_MS: i32 = 100;
/// Waits without a record after which the topic is taken for shorter than announced.
const WAITS_MAX: u32 = 300;

/// Counts the records of partition 0 from its beginning.
pub(crate) fn count(servers: &str, topic: &str, records: u64) -> Result<RunResult> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers);
    // Only the wall time depends on it: the client looks again sooner when its queue was full.
    config.set("fetch.queue.backoff.ms", "5");
    let failed = |error: KafkaError| Error::outside(format!("the consumer of topic {topic}: {error}"));
    let client: BaseConsumer = config.create().map_err(failed)?;
    client.fetch_metadata(Some(topic), Duration::from_secs(10)).map_err(failed)?;
    let name = CString::new(topic).map_err(|error| Error::internal(error.to_string()))?;
    let native = client.client().native_ptr();
    // SAFETY: the client lives until all handles made of it are destroyed below; the topic's name is copied.
    let (handle, queue) =
        unsafe { (sys::rd_kafka_topic_new(native, name.as_ptr(), ptr::null_mut()), sys::rd_kafka_queue_new(native)) };
    // SAFETY: both handles live.
    unsafe { sys::rd_kafka_consume_start_queue(handle, 0, i64::from(sys::RD_KAFKA_OFFSET_BEGINNING), queue) };
    let counted = take(queue, records);
    // SAFETY: both handles live, and are used by nothing from here on.
    unsafe {
        sys::rd_kafka_consume_stop(handle, 0);
        sys::rd_kafka_queue_destroy(queue);
        sys::rd_kafka_topic_destroy(handle);
    }
    match counted {
        events if events == records => Ok(RunResult { events, result_hash: None }),
        events => Err(Error::outside(format!("topic {topic} gave {events} records, not {records}"))),
    }
}

/// Takes this many records from a queue, unless no more come.
fn take(queue: *mut sys::rd_kafka_queue_t, records: u64) -> u64 {
    let mut messages: Vec<*mut sys::rd_kafka_message_t> = vec![ptr::null_mut(); BATCH];
    let (mut counted, mut waits) = (0, 0);
    while counted < records && waits < WAITS_MAX {
        // SAFETY: the queue lives, and there is room for as many pointers as announced.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(queue, WAIT_MS, messages.as_mut_ptr(), BATCH) };
        let count = usize::try_from(count).unwrap_or(0);
        waits = if count == 0 { waits + 1 } else { 0 };
        for &message in &messages[..count] {
            // SAFETY: the client gave this message to us; it is destroyed once, after its last use.
            unsafe {
                let is_record = (*message).err == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
                counted += u64::from(is_record && std::hint::black_box((*message).len) > 0);
                sys::rd_kafka_message_destroy(message);
            }
        }
    }
    counted
}
