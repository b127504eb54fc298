//! Makes the requests of one thread.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::OnMalformed;
use anabranch_model::{Error, Result, Secrets};
use anabranch_operators::TaskContext;
use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, RecordBatch, StringArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::stream::{StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tokio::runtime::{Builder, Runtime};

use super::elements::elements;
use super::options::HttpTable;
use crate::format::json::{JsonDecoder, JsonEncoder, JsonOptions};
use crate::format::{Decode, Decoded, Encode, batch, printable};
use crate::lookup::{Caller, Failed, LOOK};

const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Number of retries of a request for one key within a call.
const RETRIES_MAX: u32 = 3;
/// Pause before the first retry; each further one is longer by this.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Connections without a request for this time are not reused: few services keep them for longer.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Limit of the bytes of an error answer that are read.
const ERROR_BYTES: usize = 4 << 10;
/// Limit of the characters of an answer in a message.
const SHOWN: usize = 200;

/// Calls the service from one thread: a request for each key, or one request for many keys.
pub(super) struct HttpCaller {
    table: HttpTable,
    task: TaskContext,
    on_malformed: OnMalformed,
    client: Client,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    columns: SchemaRef,
    /// The columns of the lookup key.
    keys: Vec<usize>,
    decoder: JsonDecoder,
    /// Number of concurrent requests.
    concurrency: usize,
    requests: u64,
}

impl Drop for HttpCaller {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpCaller {
    pub(super) fn new(
        table: HttpTable,
        task: TaskContext,
        on_malformed: OnMalformed,
        columns: &SchemaRef,
        keys: Vec<usize>,
        threads: usize,
    ) -> Result<HttpCaller> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::internal(format!("no runtime for requests: {error}")))?;
        let client = Client::builder().default_headers(table.headers.clone()).timeout(table.timeout);
        // A redirection could lead the headers, which may hold secrets, to another host.
        let client = client.connect_timeout(table.timeout).redirect(Policy::none()).pool_idle_timeout(IDLE_MAX).build();
        let client = client.map_err(|error| Error::outside(format!("no client for requests: {error}")))?;
        Ok(HttpCaller {
            concurrency: table.concurrency.div_ceil(threads),
            decoder: JsonDecoder::new(Arc::clone(columns), &JsonOptions::default())?,
            columns: Arc::clone(columns),
            table,
            task,
            on_malformed,
            client,
            runtime: Some(runtime),
            keys,
            requests: 0,
        })
    }

    /// The distinct URLs for keys, each with the row of the first key that needs it.
    fn urls(&self, keys: &RecordBatch) -> Result<Vec<(usize, Url)>> {
        let texts =
            keys.columns().iter().map(|column| Ok(cast(column, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = texts.iter().map(|column| column.as_string::<i32>()).collect();
        let schema = keys.schema();
        let mut known = BTreeSet::new();
        let mut urls = Vec::with_capacity(keys.num_rows());
        for row in 0..keys.num_rows() {
            let value = |name: &str| {
                let column = schema.fields().iter().position(|field| field.name() == name)?;
                texts.get(column).map(|texts| texts.value(row))
            };
            // Keys may differ only in columns that are not in the URL.
            let values: Vec<Option<&str>> = self.table.url.columns().map(value).collect();
            // A key that is no valid path segment has no rows.
            if known.insert(values) && self.table.url.is_named(value) {
                let url = self.table.url.filled(value).ok_or_else(|| Error::internal("a key that makes no URL"))?;
                urls.push((row, url));
            }
        }
        Ok(urls)
    }

    /// One request for each URL.
    fn each(&mut self, keys: &RecordBatch) -> Result<RecordBatch, Failed> {
        let (rows, urls): (Vec<usize>, Vec<Url>) = self.urls(keys)?.into_iter().unzip();
        let requests: Vec<RequestBuilder> = urls.into_iter().map(|url| self.client.get(url)).collect();
        self.requests = requests.len() as u64;
        let answers = self.wait(async {
            let sent = requests.into_iter().map(|request| answer_for_one(request, &self.table.secrets));
            futures::stream::iter(sent).buffered(self.concurrency).try_collect::<Vec<_>>().await
        })?;
        let mut batches = Vec::new();
        for (row, body) in rows.into_iter().zip(&answers) {
            let found = self.decode(body)?;
            if found.num_rows() > 0 {
                batches.push(self.with_key(&found, &keys.slice(row, 1))?);
            }
        }
        Ok(concat_batches(&self.columns, &batches).map_err(Error::from)?)
    }

    /// Sets the key columns that are in the URL to this key, whether or not the returned rows contain them.
    fn with_key(&self, rows: &RecordBatch, key: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        let first = arrow::array::UInt32Array::from(vec![0; rows.num_rows()]);
        for (column, value) in self.keys.iter().zip(key.columns()) {
            let is_in_url = self.table.url.columns().any(|name| name == self.columns.field(*column).name());
            if is_in_url {
                let value = cast(value, self.columns.field(*column).data_type())?;
                columns[*column] = arrow::compute::take(&value, &first, None)?;
            }
        }
        batch(&self.columns, columns, rows.num_rows())
    }

    /// One request for all keys.
    fn together(&mut self, keys: &RecordBatch) -> Result<RecordBatch, Failed> {
        let names = self.keys.iter().map(|key| self.columns.field(*key).name().clone());
        let fields = names.zip(keys.columns()).map(|(name, column)| Field::new(name, column.data_type().clone(), true));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let keys = batch(&schema, keys.columns().to_vec(), keys.num_rows())?;
        let mut body = vec![b'['];
        for (row, object) in JsonEncoder::new(&schema)?.encode(&keys)?.iter().flatten().enumerate() {
            if row > 0 {
                body.push(b',');
            }
            body.extend_from_slice(object);
        }
        body.push(b']');
        let url = self.table.url.filled(|_| None).ok_or_else(|| Error::internal("a url without columns"))?;
        let json = HeaderValue::from_static("application/json");
        let request = self.client.post(url).header(CONTENT_TYPE, json).body(body);
        self.requests = 1;
        let answer = self.wait(answer(request, false, &self.table.secrets))?;
        Ok(self.decode(&answer)?)
    }

    fn decode(&mut self, answer: &[u8]) -> Result<RecordBatch> {
        let place = format!("an answer of the service at {}", self.table.url);
        let shown = |answer: &[u8]| shown(answer, &self.table.secrets);
        let rows =
            elements(answer).map_err(|what| Error::user(format!("{what}: {}", shown(answer))).at(place.clone()))?;
        let mut records = BinaryBuilder::new();
        rows.iter().for_each(|row| records.append_value(row));
        let Decoded { batch, malformed } = self.decoder.decode(&records.finish())?;
        match malformed.into_iter().next() {
            Some((row, error)) if self.on_malformed == OnMalformed::Fail => {
                Err(Error::user(format!("{error}: {}", shown(rows[row]))).at(place))
            }
            _ => Ok(batch),
        }
    }

    /// Waits for answers, or until the job's tasks are cancelled.
    fn wait<T>(&self, requests: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let runtime = self.runtime.as_ref().ok_or_else(|| Error::internal("requests without a runtime"))?;
        runtime.block_on(async {
            let mut requests = pin!(requests);
            loop {
                match tokio::time::timeout(LOOK, requests.as_mut()).await {
                    Ok(outcome) => return outcome,
                    Err(_) if self.task.host.is_cancelled() => return Err(Error::cancelled().into()),
                    Err(_) => {}
                }
            }
        })
    }
}

/// The answer for one key. Transient failures are retried soon, so that the answers for other keys are not
/// lost.
async fn answer_for_one(request: RequestBuilder, secrets: &Secrets) -> Result<Vec<u8>, Failed> {
    for tries in 1..=RETRIES_MAX {
        let Some(copy) = request.try_clone() else { break };
        match answer(copy, true, secrets).await {
            Err(Failed::Passing(_)) => tokio::time::sleep(RETRY_PAUSE * tries).await,
            outcome => return outcome,
        }
    }
    answer(request, true, secrets).await
}

/// The beginning of an answer, for a message. A service may quote the request, which may contain secrets.
fn shown(answer: &[u8], secrets: &Secrets) -> String {
    let text = String::from_utf8_lossy(&answer[..answer.len().min(ERROR_BYTES)]);
    printable(&secrets.hide(&text).chars().take(SHOWN).collect::<String>())
}

/// Sends a request, and receives its answer. For a single key, 404 means that there is no row.
async fn answer(request: RequestBuilder, may_be_missing: bool, secrets: &Secrets) -> Result<Vec<u8>, Failed> {
    let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
    let mut response = sent(request).await.map_err(|error| passing(&error))?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && may_be_missing || status == StatusCode::NO_CONTENT {
        return Ok(Vec::new());
    }
    if status.is_redirection() {
        return Err(Error::user(format!("the service answers {status}, and redirections are not followed"))
            .remedy("write the final address into 'url'")
            .into());
    }
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| passing(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > ANSWER_BYTES_MAX {
            let error = Error::outside(format!("an answer has more than {ANSWER_BYTES_MAX} bytes"));
            let remedy = match may_be_missing {
                true => "let the service return fewer rows for a key",
                false => "ask for fewer keys at once: 'request.max-keys'",
            };
            return Err(error.remedy(remedy).into());
        }
        if !status.is_success() && body.len() >= ERROR_BYTES {
            break;
        }
    }
    if status.is_success() {
        return Ok(body);
    }
    let reason = format!("{status}: {}", shown(&body, secrets));
    match status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        true => Err(Failed::Passing(reason)),
        false => Err(Error::user(format!("the service refuses a request: {reason}"))
            .remedy("see 'url', 'token' and 'header.*' of the table")
            .into()),
    }
}

/// Sends a request, and retries on another connection if the service has closed the first one, which is
/// normal for idle connections.
async fn sent(request: RequestBuilder) -> reqwest::Result<Response> {
    let again = request.try_clone();
    match (request.send().await, again) {
        (Err(error), Some(again)) if error.is_request() && !error.is_timeout() && !error.is_connect() => {
            again.send().await
        }
        (outcome, _) => outcome,
    }
}

/// Why a request has no answer. Omits its URL, which may contain a secret.
fn passing(error: &reqwest::Error) -> Failed {
    let mut reason = if error.is_timeout() { "no answer in time".to_owned() } else { "no answer".to_owned() };
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        reason = format!("{reason}: {inner}");
        source = inner.source();
    }
    Failed::Passing(reason)
}

impl Caller for HttpCaller {
    fn call(&mut self, keys: &RecordBatch) -> Result<RecordBatch, Failed> {
        let is_for_one = self.table.url.columns().next().is_some();
        match is_for_one {
            true => self.each(keys),
            false => self.together(keys),
        }
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}
