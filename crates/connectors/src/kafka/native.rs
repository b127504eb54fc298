//! Functions of librdkafka that its Rust crate does not offer. Messages are taken from a queue many at a
//! time. They are taken and produced without an event, an allocation and a reference count for each. Topics
//! are described with their identities. All `unsafe` of the connector is here.
//!
//! Partitions are started one by one on a queue of our own (librdkafka's "simple" consumer), not through a
//! consumer group: the job decides which task reads which partition, and no group coordinator is needed. Our
//! queue holds records only. Errors and acknowledged commits are in the client's own queue.

mod describe;

use std::ffi::{CStr, CString};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result};
use rdkafka::bindings::{
    self as sys, rd_kafka_message_t, rd_kafka_queue_t, rd_kafka_resp_err_t, rd_kafka_timestamp_type_t,
    rd_kafka_topic_t, rd_kafka_vu_s__bindgen_ty_1 as Part,
};
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

pub(super) use self::describe::{Described, describe};
use super::attached::Outgoing;
use super::client::{Consumer, Producer};

/// Keeps the native client alive as long as its topics and queues.
pub(super) trait Client: Send + Sync {
    fn native(&self) -> *mut sys::rd_kafka_t;
}

impl Client for Consumer {
    fn native(&self) -> *mut sys::rd_kafka_t {
        self.client().native_ptr()
    }
}

impl Client for Producer {
    fn native(&self) -> *mut sys::rd_kafka_t {
        self.client().native_ptr()
    }
}

/// A topic of one client.
pub(super) struct Topic {
    topic: NonNull<rd_kafka_topic_t>,
    _client: Arc<dyn Client>,
}

// SAFETY: librdkafka's handles may be used from any thread; `_client` outlives the handle.
unsafe impl Send for Topic {}

impl Topic {
    pub(super) fn new(client: &Arc<impl Client + 'static>, name: &str) -> Result<Topic> {
        let client: Arc<dyn Client> = client.clone();
        let c_name = CString::new(name).map_err(|_| Error::user("a topic's name contains a zero byte"))?;
        // SAFETY: the client lives, the name is copied, no configuration means the client's default.
        let topic = unsafe { sys::rd_kafka_topic_new(client.native(), c_name.as_ptr(), ptr::null_mut()) };
        match NonNull::new(topic) {
            Some(topic) => Ok(Topic { topic, _client: client }),
            None => Err(Error::outside(format!("topic '{name}' cannot be opened: {}", last_error()))),
        }
    }

    /// The offset at the end of a partition, as the broker last reported it to the client. `None` before the
    /// first report.
    pub(super) fn end(&self, partition: i32) -> Option<i64> {
        let (mut low, mut high) = (-1, -1);
        // SAFETY: client and topic live, the name lives as long as the topic, and both offsets are written
        // before the call returns.
        let outcome = unsafe {
            let name = sys::rd_kafka_topic_name(self.topic.as_ptr());
            sys::rd_kafka_get_watermark_offsets(self._client.native(), name, partition, &raw mut low, &raw mut high)
        };
        Some(high).filter(|high| outcome == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && *high >= 0)
    }

    /// Produces one record; `partition` -1 leaves the choice to the client's partitioner. Copies the whole
    /// message.
    pub(super) fn produce(&self, partition: i32, record: &Outgoing<'_>) -> Result<(), RDKafkaErrorCode> {
        if !record.attached.is_empty() {
            return self.produce_attached(partition, record);
        }
        let (key_ptr, key_len) = bytes(record.key);
        let (value_ptr, value_len) = bytes(record.value);
        // SAFETY: pointers and lengths are those of live slices; with F_COPY librdkafka keeps none of them
        // and writes to none.
        let outcome = unsafe {
            sys::rd_kafka_produce(
                self.topic.as_ptr(),
                partition,
                sys::RD_KAFKA_MSG_F_COPY,
                value_ptr.cast_mut().cast(),
                value_len,
                key_ptr.cast(),
                key_len,
                ptr::null_mut(),
            )
        };
        if outcome == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Like [`Topic::produce`], for a record with a time or with headers.
    fn produce_attached(&self, partition: i32, record: &Outgoing<'_>) -> Result<(), RDKafkaErrorCode> {
        use sys::rd_kafka_vtype_t as kind;
        let memory = |part: Option<&[u8]>| {
            let (ptr, size) = bytes(part);
            Part { mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: ptr.cast_mut().cast(), size } }
        };
        let part = |vtype, u| sys::rd_kafka_vu_t { vtype, u };
        let mut parts = vec![
            part(kind::RD_KAFKA_VTYPE_RKT, Part { rkt: self.topic.as_ptr() }),
            part(kind::RD_KAFKA_VTYPE_PARTITION, Part { i32_: partition }),
            part(kind::RD_KAFKA_VTYPE_MSGFLAGS, Part { i: sys::RD_KAFKA_MSG_F_COPY }),
            part(kind::RD_KAFKA_VTYPE_VALUE, memory(record.value)),
            part(kind::RD_KAFKA_VTYPE_KEY, memory(record.key)),
        ];
        if let Some(time_ms) = record.attached.time_ms {
            parts.push(part(kind::RD_KAFKA_VTYPE_TIMESTAMP, Part { i64_: time_ms }));
        }
        let headers = native_headers(&record.attached.headers);
        if !headers.is_null() {
            parts.push(part(kind::RD_KAFKA_VTYPE_HEADERS, Part { headers }));
        }
        // SAFETY: client and topic live; pointers and lengths are those of live slices, and with F_COPY
        // librdkafka keeps none of them. It owns the headers if it takes the record; if not, they are
        // destroyed here, once, and so is the error.
        unsafe {
            let error = sys::rd_kafka_produceva(self._client.native(), parts.as_ptr(), parts.len());
            if error.is_null() {
                return Ok(());
            }
            if !headers.is_null() {
                sys::rd_kafka_headers_destroy(headers);
            }
            let code = sys::rd_kafka_error_code(error).into();
            sys::rd_kafka_error_destroy(error);
            Err(code)
        }
    }
}

/// Pointer and length of bytes. Missing bytes have a null pointer; empty ones do not.
fn bytes(part: Option<&[u8]>) -> (*const u8, usize) {
    part.map_or((ptr::null(), 0), |part| (part.as_ptr(), part.len()))
}

/// Copies headers; null if there are none.
fn native_headers(headers: &[(&str, Option<&[u8]>)]) -> *mut sys::rd_kafka_headers_t {
    if headers.is_empty() {
        return ptr::null_mut();
    }
    let length = |length: usize| isize::try_from(length).unwrap_or(isize::MAX);
    // SAFETY: names and values are live slices of these lengths, which the calls copy.
    unsafe {
        let native = sys::rd_kafka_headers_new(headers.len());
        for (name, value) in headers {
            let (value, size) = bytes(*value);
            sys::rd_kafka_header_add(native, name.as_ptr().cast(), length(name.len()), value.cast(), length(size));
        }
        native
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: made by rd_kafka_topic_new, destroyed once.
        unsafe { sys::rd_kafka_topic_destroy(self.topic.as_ptr()) }
    }
}

/// Waits, at most for `wait`, until every produced record has been acknowledged or has failed. Returns
/// whether it has.
pub(super) fn flush(producer: &Producer, wait: Duration) -> bool {
    // SAFETY: the client lives.
    let outcome = unsafe { sys::rd_kafka_flush(producer.native(), millis(wait)) };
    outcome == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
}

/// The queue into which the records of a task's partitions arrive.
pub(super) struct Queue {
    queue: NonNull<rd_kafka_queue_t>,
    messages: Vec<*mut rd_kafka_message_t>,
    _client: Arc<Consumer>,
}

// SAFETY: librdkafka's handles may be used from any thread; `messages` is empty between calls.
unsafe impl Send for Queue {}

/// One element of the queue.
pub(super) struct Received<'a> {
    /// Name of the topic.
    pub(super) topic: &'a CStr,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) what: Element<'a>,
    message: &'a rd_kafka_message_t,
}

impl Received<'_> {
    /// The record's time in milliseconds since 1970, and what kind of time it is; -1 if it has none.
    pub(super) fn time(&self) -> (i64, &'static str) {
        let mut kind = rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message lives as long as this view of it, and the call writes to `kind`.
        let ms = unsafe { sys::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        let kind = match kind {
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => "CreateTime",
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => "LogAppendTime",
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => "NoTimestampType",
        };
        (ms, kind)
    }

    /// The record's key, if it has one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let (key, length) = (self.message.key.cast::<u8>().cast_const(), self.message.key_len);
        // SAFETY: librdkafka guarantees `length` bytes there, for as long as the message lives.
        (!key.is_null()).then(|| unsafe { std::slice::from_raw_parts(key, length) })
    }

    /// The leader epoch of the record.
    pub(super) fn leader_epoch(&self) -> Option<i32> {
        // SAFETY: the message lives as long as this view of it.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.message) };
        (epoch >= 0).then_some(epoch)
    }

    /// The record's headers in their order.
    pub(super) fn headers(&self) -> Vec<(String, Option<Vec<u8>>)> {
        let none = rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
        let mut headers = ptr::null_mut();
        // SAFETY: the message lives as long as this view of it, and owns the headers.
        if unsafe { sys::rd_kafka_message_headers(self.message, &raw mut headers) } != none {
            return Vec::new();
        }
        let mut found = Vec::new();
        loop {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the headers live as long as the message; the call writes to the other three.
            let outcome = unsafe {
                sys::rd_kafka_header_get_all(headers, found.len(), &raw mut name, &raw mut value, &raw mut size)
            };
            if outcome != none {
                return found;
            }
            // SAFETY: librdkafka returns names that end with a zero byte, and `size` bytes at a value that is
            // not null.
            let (name, value) = unsafe {
                let bytes = || std::slice::from_raw_parts(value.cast::<u8>(), size).to_vec();
                (CStr::from_ptr(name).to_string_lossy().into_owned(), (!value.is_null()).then(bytes))
            };
            found.push((name, value));
        }
    }
}

/// A received element.
pub(super) enum Element<'a> {
    /// A record; without a value if it is a tombstone.
    Record(Option<&'a [u8]>),
    /// There is nothing at or after `offset` now.
    End,
    /// The partition cannot be read any further.
    Error(RDKafkaErrorCode, String),
}

impl Queue {
    pub(super) fn new(client: &Arc<Consumer>) -> Result<Queue> {
        // SAFETY: the client lives.
        let queue = unsafe { sys::rd_kafka_queue_new(client.native()) };
        let queue = NonNull::new(queue).ok_or_else(|| Error::internal("librdkafka made no queue"))?;
        Ok(Queue { queue, messages: Vec::new(), _client: client.clone() })
    }

    /// Starts a partition: its records arrive here from `offset` on (or from a logical offset in librdkafka's
    /// encoding).
    pub(super) fn start(&self, topic: &Topic, partition: i32, offset: i64) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: topic and queue are live handles of one client.
        let outcome =
            unsafe { sys::rd_kafka_consume_start_queue(topic.topic.as_ptr(), partition, offset, self.queue.as_ptr()) };
        if outcome == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Stops a partition. Records that it had queued may still arrive.
    pub(super) fn stop(&self, topic: &Topic, partition: i32) {
        // SAFETY: the topic is a live handle. An error can only mean that the partition was not started.
        unsafe { sys::rd_kafka_consume_stop(topic.topic.as_ptr(), partition) };
    }

    /// Passes at most `max` elements to `each`. Waits for the first at most `wait`, for the others not at
    /// all.
    pub(super) fn receive(&mut self, max: usize, wait: Duration, mut each: impl FnMut(Received<'_>)) -> usize {
        self.messages.clear();
        self.messages.resize(max, ptr::null_mut());
        let mut count = self.fill(0);
        if count == 0 && max > 0 && !wait.is_zero() {
            // The call for batches would wait until the batch is full; the call for one returns when one is
            // there. SAFETY: the queue lives.
            let first = unsafe { sys::rd_kafka_consume_queue(self.queue.as_ptr(), millis(wait)) };
            if !first.is_null() {
                self.messages[0] = first;
                count = 1 + self.fill(1);
            }
        }
        for &message in &self.messages[..count] {
            // SAFETY: librdkafka has passed the first `count` messages to us; each is destroyed once, after
            // its last use.
            unsafe {
                each(received(&*message));
                sys::rd_kafka_message_destroy(message);
            }
        }
        self.messages.clear();
        count
    }

    /// Fills `messages` from `from` on. Returns the number of messages.
    fn fill(&mut self, from: usize) -> usize {
        let room = &mut self.messages[from..];
        // SAFETY: the queue lives and `room` has space for the announced number of pointers.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(self.queue.as_ptr(), 0, room.as_mut_ptr(), room.len()) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by rd_kafka_queue_new, destroyed once.
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// A view of a message.
///
/// # Safety
/// The message must have been received from librdkafka and not yet been destroyed.
unsafe fn received(message: &rd_kafka_message_t) -> Received<'_> {
    let bytes = || {
        // SAFETY: librdkafka guarantees `len` bytes at `payload`, for as long as the message lives.
        (!message.payload.is_null())
            .then(|| unsafe { std::slice::from_raw_parts(message.payload.cast::<u8>().cast_const(), message.len) })
    };
    let what = match message.err {
        rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Element::Record(bytes()),
        rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTITION_EOF => Element::End,
        code => Element::Error(code.into(), bytes().map(String::from_utf8_lossy).unwrap_or_default().into_owned()),
    };
    let topic = if message.rkt.is_null() {
        // An error of the whole client.
        c""
    } else {
        // SAFETY: the name belongs to the topic, which the message keeps alive.
        unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(message.rkt)) }
    };
    Received { topic, partition: message.partition, offset: message.offset, what, message }
}

fn last_error() -> RDKafkaErrorCode {
    // SAFETY: reads a variable of this thread.
    unsafe { sys::rd_kafka_last_error() }.into()
}

/// Whole milliseconds, rounded up so that a short wait does not become none.
fn millis(wait: Duration) -> i32 {
    i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}
