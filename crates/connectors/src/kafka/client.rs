//! Clients of the broker: their creation, their events, and the first requests of every task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch_model::{Clock, Error, Result};
use rdkafka::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::producer::{BaseProducer, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, Message, TopicPartitionList};

use super::table::{Table, config_error};

/// A reader's client.
pub(super) type Consumer = BaseConsumer<Reports>;
/// A writer's client.
pub(super) type Producer = BaseProducer<Reports>;

/// Number of callbacks served while a request is unanswered.
const CALLBACKS: u32 = 100;

/// The time without an answer after which the client checks whether brokers refuse its connections.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// The longest time of one request, after which the client is checked again.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

/// Pause between two checks whether something is ready.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Reports of a client's callbacks, kept until the task reads them.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Why a connection last failed.
    connection: Mutex<Option<String>>,
    /// Why a broker last refused a connection, if none has answered since: its certificate or this client's
    /// login.
    refusal: Mutex<Option<String>>,
    /// The first record that could not be delivered.
    undelivered: Mutex<Option<Undelivered>>,
    /// Whether a commit of positions is in progress.
    committing: AtomicBool,
    /// Why the last commit failed.
    commit: Mutex<Option<RDKafkaErrorCode>>,
}

/// A record that could not be delivered.
#[derive(Clone, Debug)]
pub(super) struct Undelivered {
    pub(super) partition: i32,
    pub(super) reason: RDKafkaErrorCode,
}

fn put<T>(slot: &Mutex<Option<T>>, value: Option<T>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Reports {
    /// Why a connection last failed, in parentheses, or nothing.
    pub(super) fn reason(&self) -> String {
        match &*self.connection.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(reason) => format!(" ({reason})"),
            None => String::new(),
        }
    }

    /// Why a broker last refused a connection, if none has answered since.
    fn refusal(&self) -> Option<String> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A broker has answered: an earlier refusal does not explain later failures.
    pub(super) fn answered(&self) {
        put(&self.refusal, None);
    }

    /// The first record that could not be delivered since the last call.
    pub(super) fn take_undelivered(&self) -> Option<Undelivered> {
        take(&self.undelivered)
    }

    pub(super) fn commit_begins(&self) {
        self.committing.store(true, Ordering::Release);
    }

    /// Whether a commit is in progress.
    pub(super) fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Acquire)
    }

    /// Takes the error of the last commit.
    pub(super) fn take_commit_error(&self) -> Option<RDKafkaErrorCode> {
        take(&self.commit)
    }
}

impl ClientContext for Reports {
    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code().is_some_and(is_refusal) {
            put(&self.refusal, Some(reason.to_owned()));
        }
        // The summary after the errors of single connections has fewer details.
        if !reason.contains("brokers are down") {
            put(&self.connection, Some(reason.to_owned()));
        }
    }
}

impl ConsumerContext for Reports {
    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        put(&self.commit, result.err().and_then(|error| error.rdkafka_error_code()));
        self.committing.store(false, Ordering::Release);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let reason = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
            let mut first = self.undelivered.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(Undelivered { partition: message.partition(), reason });
        }
    }
}

/// Makes a reader's client. Connects to nothing yet.
pub(super) fn consumer(table: &Table) -> Result<Arc<Consumer>> {
    made(&table.consumer_config()).map(Arc::new)
}

/// Makes a writer's client. Connects to nothing yet.
pub(super) fn producer(table: &Table) -> Result<Arc<Producer>> {
    made(&table.producer_config()).map(Arc::new)
}

/// Makes the client of a writer of transactions. Connects to nothing yet.
pub(super) fn transactional_producer(table: &Table, identity: &str) -> Result<Arc<Producer>> {
    made(&table.transaction_config(identity)).map(Arc::new)
}

/// Creates a client that requests the offsets of a group. Connects to nothing yet.
pub(super) fn group_client(table: &Table, group: &str) -> Result<Consumer> {
    made(&table.group_config(group))
}

fn made<C: FromClientConfigAndContext<Reports>>(config: &ClientConfig) -> Result<C> {
    C::from_config_and_context(config, Reports::default()).map_err(config_error)
}

/// The number of partitions of a topic in `metadata`.
pub(super) fn count_in(metadata: &Metadata, topic: &str) -> Result<i32, RDKafkaErrorCode> {
    metadata.topics().iter().find(|t| t.name() == topic).map_or(Err(RDKafkaErrorCode::UnknownTopic), count_of)
}

/// The number of a topic's partitions.
pub(super) fn count_of(topic: &MetadataTopic) -> Result<i32, RDKafkaErrorCode> {
    match topic.error().map(|error: RDKafkaRespErr| RDKafkaErrorCode::from(error)) {
        Some(error) => Err(error),
        None if topic.partitions().is_empty() => Err(RDKafkaErrorCode::UnknownTopic),
        None => Ok(i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX)),
    }
}

/// The error if no broker has answered the first request.
pub(super) fn unanswered(client: &impl Polled, table: &Table, wait: Duration, error: &KafkaError) -> Error {
    client.serve_callbacks();
    silent(client.reports(), table, wait, error.rdkafka_error_code())
}

/// The metadata of a topic, requested when a task starts.
pub(super) fn topic_metadata(client: &Producer, table: &Table, topic: &str, clock: &dyn Clock) -> Result<Metadata> {
    let wait = table.first_answer;
    let answer = patiently(client, clock, wait, |wait| client.client().fetch_metadata(Some(topic), wait));
    answer.map_err(|error| unanswered(client, table, wait, &error))
}

/// A client whose callbacks run while it is polled.
pub(super) trait Polled {
    /// Runs callbacks, and waits for the first for at most this time.
    fn serve(&self, wait: Duration);

    fn reports(&self) -> &Reports;

    /// Runs the pending callbacks.
    fn serve_callbacks(&self) {
        (0..CALLBACKS).for_each(|_| self.serve(Duration::ZERO));
    }
}

impl Polled for Consumer {
    fn serve(&self, wait: Duration) {
        let _ = self.poll(wait);
    }

    fn reports(&self) -> &Reports {
        self.context()
    }
}

impl Polled for Producer {
    fn serve(&self, wait: Duration) {
        self.poll(wait);
    }

    fn reports(&self) -> &Reports {
        self.client().context()
    }
}

/// The error if no broker answers: the servers, the time, and the reason.
pub(super) fn silent(reports: &Reports, table: &Table, wait: Duration, code: Option<RDKafkaErrorCode>) -> Error {
    let servers = &table.servers;
    if let Some(refusal) = reports.refusal() {
        return Error::outside(format!("a connection to the Kafka brokers at {servers} was refused: {refusal}"))
            .remedy("correct the certificates ('properties.ssl.*') or the login ('properties.sasl.*') of the table");
    }
    let reason = reports.reason();
    match code {
        Some(code) if !is_silence(code) => {
            Error::outside(format!("the Kafka brokers at {servers} refused: {code}{reason}"))
        }
        _ => Error::outside(format!("no Kafka broker answered at {servers} within {} s{reason}", wait.as_secs_f32()))
            .remedy("start the broker, or correct 'properties.bootstrap.servers'"),
    }
}

/// The error if no broker has answered for the time that the table allows.
pub(super) fn outage(reports: &Reports, table: &Table) -> Error {
    let (servers, seconds) = (&table.servers, table.connection_timeout.as_secs_f32());
    Error::outside(format!("no Kafka broker has answered at {servers} for {seconds} s{}", reports.reason()))
        .remedy("restart the broker; 'connection.timeout' says how long an outage may last")
}

/// Whether the client itself reports the error because no broker has answered.
fn is_silence(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::Resolve
    )
}

/// Whether a retry may succeed: a connection, a leader or a group's coordinator is being replaced.
pub(super) fn is_passing(code: RDKafkaErrorCode) -> bool {
    let is_moving = matches!(
        code,
        RDKafkaErrorCode::RequestTimedOut
            | RDKafkaErrorCode::WaitingForCoordinator
            | RDKafkaErrorCode::CoordinatorLoadInProgress
            | RDKafkaErrorCode::CoordinatorNotAvailable
            | RDKafkaErrorCode::NotCoordinator
            | RDKafkaErrorCode::LeaderNotAvailable
            | RDKafkaErrorCode::NotLeaderForPartition
    );
    is_moving || is_silence(code)
}

/// Repeats a request, for at most `wait`, as long as its error is transient and no broker refuses the
/// connection. `ask` receives the time limit of the request.
pub(super) fn patiently<T>(
    client: &impl Polled,
    clock: &dyn Clock,
    wait: Duration,
    mut ask: impl FnMut(Duration) -> KafkaResult<T>,
) -> KafkaResult<T> {
    let deadline = clock.now().plus(wait);
    let mut longest = FIRST_LOOK;
    loop {
        let left = Duration::from_nanos(deadline.0.saturating_sub(clock.now().0));
        match ask(left.min(longest).max(LOOK)) {
            Err(error) if error.rdkafka_error_code().is_some_and(is_passing) => {
                if !error.rdkafka_error_code().is_some_and(is_silence) {
                    client.reports().answered();
                }
                // A refusal is known only after its callback, so requests are kept short.
                longest = longest.saturating_mul(2).min(LONGEST_LOOK);
                client.serve_callbacks();
                if client.reports().refusal().is_some() || clock.now() >= deadline {
                    return Err(error);
                }
                client.serve(LOOK);
            }
            answer => {
                if answer.is_ok() {
                    client.reports().answered();
                }
                return answer;
            }
        }
    }
}

/// Whether an error of a connection means that broker and client do not accept each other.
fn is_refusal(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::SSL
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism
    )
}

/// Whether an error of a client is permanent.
pub(super) fn is_permanent(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Fatal
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::InvalidGroupId
            | RDKafkaErrorCode::FencedInstanceId
            | RDKafkaErrorCode::UnsupportedVersion
    )
}

#[cfg(test)]
mod tests {
    use anabranch_model::SystemClock;

    use super::super::table::tests::parse;
    use super::*;

    fn table() -> Table {
        parse(&[("properties.bootstrap.servers", "localhost:1")]).expect("table")
    }

    /// Asks with these answers one after the other, repeating the last one. Returns the answer and the number
    /// of requests.
    fn ask(wait: Duration, answers: &[KafkaResult<i32>]) -> (KafkaResult<i32>, usize) {
        ask_with(&consumer(&table()).expect("client"), wait, answers)
    }

    fn ask_with(client: &Consumer, wait: Duration, answers: &[KafkaResult<i32>]) -> (KafkaResult<i32>, usize) {
        let mut asked = 0;
        let answer = patiently(client, &SystemClock::new(), wait, |_| {
            asked += 1;
            answers[asked.min(answers.len()) - 1].clone()
        });
        (answer, asked)
    }

    #[test]
    fn a_coordinator_that_is_being_replaced_is_asked_again() {
        let moved = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NotCoordinator));
        let loading = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::CoordinatorLoadInProgress));
        assert_eq!(ask(Duration::from_secs(60), &[moved, loading, Ok(7)]), (Ok(7), 3));
    }

    /// One of several brokers may refuse the client's login while the others accept it.
    #[test]
    fn a_refusal_is_no_reason_any_more_once_a_broker_answers() {
        let (table, minute) = (table(), Duration::from_secs(60));
        let client = consumer(&table).expect("client");
        let refuse = || {
            client.context().error(KafkaError::Global(RDKafkaErrorCode::SaslAuthenticationFailed), "login failed");
        };
        let reason = || silent(client.context(), &table, minute, Some(RDKafkaErrorCode::OperationTimedOut)).to_string();
        let down = Err(KafkaError::MetadataFetch(RDKafkaErrorCode::AllBrokersDown));
        refuse();
        assert_eq!(ask_with(&client, minute, &[down.clone(), Ok(7)]), (down, 1));
        assert!(reason().contains("was refused: login failed"), "{}", reason());
        let moved = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NotCoordinator));
        assert_eq!(ask_with(&client, minute, &[moved, Ok(7)]), (Ok(7), 2));
        assert!(reason().contains("no Kafka broker answered"), "{}", reason());
        refuse();
        assert_eq!(ask_with(&client, minute, &[Ok(7)]), (Ok(7), 1));
        assert!(reason().contains("no Kafka broker answered"), "{}", reason());
    }

    #[test]
    fn what_does_not_pass_is_told_at_once_and_the_rest_in_time() {
        let denied = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::GroupAuthorizationFailed));
        assert_eq!(ask(Duration::from_secs(60), &[denied.clone(), Ok(7)]), (denied, 1));
        let moved = Err(KafkaError::OffsetFetch(RDKafkaErrorCode::NotCoordinator));
        let (answer, asked) = ask(Duration::from_millis(200), std::slice::from_ref(&moved));
        assert_eq!(answer, moved);
        assert!(asked > 1, "asked {asked} times");
    }
}
