//! Requests and their answers.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anabranch_model::{Error, ErrorKind, Latch, Result, Secrets};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use super::autoscale::{autoscale, observations};
use super::body::Body;
use super::connection::Service;
use super::description::DESCRIPTION;
use super::documents::{
    CheckpointsDocument, CounterList, ErrorDocument, Health, JobDocument, JobList, NoticeList, Readiness, RequestKind,
    Requested, ServerDocument, TaskList, WorkerList,
};
use super::drain::{drain, undrain};
use super::exposition;
use super::functions::functions;
use super::guard::Guard;
use super::jobs::{JobState, Jobs, Reading, Refusal, ServedJob, no_job};
use super::orders::{JobOrder, OrderErrorDocument, Submitted};
use super::past::{history, plan};
use super::query::Parameters;
use super::rates::Rates;
use super::reconfigure::{changes, reconfigure, script};
use super::removal::remove;
use super::routes::{Matched, Target, View, find};
use super::samples::Samples;
use super::savepoints::savepoint;
use super::security::Access;
use super::state::state;
use super::{MORE_THREADS, live, page, sql};
use crate::threads::{lock, spawn};

/// Largest body of a request, in bytes.
pub(super) const BODY_MAX: usize = 64 << 10;
/// Largest order of a job, in bytes.
const ORDER_MAX: usize = 4 << 20;

pub(super) type Answer = Response<Body>;
/// An answer, or one that refuses the request.
pub(super) type Answered = Result<Answer, Box<Answer>>;

/// What the server serves, and what it keeps between requests.
pub(super) struct Api {
    pub(super) jobs: Arc<dyn Jobs>,
    guard: Arc<Guard>,
    samples: Mutex<Samples>,
    /// The number of the newest sample, for those who wait for the next one.
    pub(super) ticks: watch::Sender<u64>,
    /// Held while the state of a checkpoint is read.
    pub(super) reading: Mutex<()>,
    /// The streams of samples that may still be opened.
    pub(super) streams: Arc<Semaphore>,
    /// Closes when the savepoint that was begun last has ended.
    pub(super) savepoint: Mutex<Option<Receiver<()>>>,
    /// Held while a worker is drained.
    pub(super) draining: Mutex<()>,
    pub(super) is_closing: Latch,
    /// Time for a request's body to arrive.
    body_wait: Duration,
}

impl Api {
    pub(super) fn new(jobs: Arc<dyn Jobs>, guard: Arc<Guard>, body_wait: Duration) -> Api {
        let (samples, savepoint, draining) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (ticks, streams) = (watch::Sender::default(), Arc::new(Semaphore::new(live::STREAMS_MAX)));
        let (is_closing, reading) = (Latch::default(), Mutex::default());
        Api { jobs, reading, guard, samples, ticks, streams, savepoint, draining, is_closing, body_wait }
    }

    /// The server ends: gives up the savepoint that is being taken, if there is one. Returns a channel that
    /// closes when it has ended.
    pub(super) fn close(&self) -> Option<Receiver<()>> {
        self.is_closing.set();
        // Streams wait for the next sample, and end now.
        self.ticks.send_modify(|_| {});
        lock(&self.savepoint).take()
    }

    /// A process that ends changes no job any more.
    pub(super) fn refuses_changes(&self) -> Result<(), Refusal> {
        match self.is_closing.is_set() {
            true => Err(Refusal::Conflict(Error::outside("the process ends: the job was not changed"))),
            false => Ok(()),
        }
    }

    pub(super) fn samples(&self) -> MutexGuard<'_, Samples> {
        lock(&self.samples)
    }

    pub(super) fn readings(&self) -> Vec<(String, Reading)> {
        self.jobs.jobs().iter().map(|job| (job.name().to_owned(), job.reading())).collect()
    }

    fn rates(&self, job: &str, reading: &Reading) -> Rates {
        self.samples().history(job).map(|history| history.rates(reading)).unwrap_or_default()
    }

    /// The job of this name; else an answer with those that exist.
    pub(super) fn job(&self, name: &str) -> Result<Arc<dyn ServedJob>, Box<Answer>> {
        let jobs = self.jobs.jobs();
        let names: Vec<String> = jobs.iter().map(|job| format!("'{}'", job.name())).collect();
        jobs.into_iter().find(|job| job.name() == name).ok_or_else(|| {
            let remedy = match names.is_empty() {
                true => "there are no jobs yet: submit one".to_owned(),
                false => format!("the jobs are: {}", names.join(", ")),
            };
            refused(StatusCode::NOT_FOUND, &no_job(name).remedy(remedy))
        })
    }
}

/// What a browser may do with an answer: run the page's own scripts, and send requests to where it came from.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Service for Api {
    fn sample(&self) {
        let jobs = self.jobs.jobs();
        let number = {
            let mut samples = self.samples();
            samples.record(&jobs);
            samples.number()
        };
        self.ticks.send_replace(number);
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        answered(self, request).await.unwrap_or_else(|refused| *refused)
    }
}

/// Tells browsers what they may do with an answer.
pub(super) fn protected(mut answer: Answer) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    answer
}

async fn answered(api: Arc<Api>, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    let found = find(&head.method, head.uri.path());
    if found == Matched::Target(Target::Health, String::new()) {
        return Ok(health());
    }
    if let Matched::Target(target @ (Target::Page | Target::PageFile), name) = &found {
        // The page has no data, so it needs no token.
        api.guard.check_name(&head.headers)?;
        return if *target == Target::Page { Ok(page::index()) } else { page::file(name) };
    }
    let access = match api.guard.check(&head.method, &head.headers) {
        Ok(access) => access,
        // A probe has no token. It learns whether this process is ready, and no names of jobs.
        Err(_) if found == Matched::Target(Target::Readiness, String::new()) => {
            return Ok(readiness(&api, Readiness::without_jobs));
        }
        Err(refused) => return Err(refused),
    };
    let (target, name) = match found {
        Matched::Target(target, name) => (target, name),
        Matched::OtherMethod(methods) => {
            let methods = methods.join(", ");
            let error = Error::user(format!("{} is not possible here", head.method)).at(head.uri.path());
            let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, &error.remedy(format!("use {methods}")));
            if let Ok(methods) = HeaderValue::from_str(&methods) {
                answer.headers_mut().insert(ALLOW, methods);
            }
            return Ok(answer);
        }
        Matched::Nothing => {
            let error = Error::user("there is nothing at this path").at(head.uri.path());
            return Err(refused(StatusCode::NOT_FOUND, &error.remedy("GET /api/v1/openapi.json describes all paths")));
        }
    };
    let has_text = matches!(
        target,
        Target::Submit | Target::Reconfigure | Target::Functions | Target::Check | Target::Complete | Target::Preview
    );
    let limit = if has_text { ORDER_MAX } else { BODY_MAX };
    let body = read(body, limit, api.body_wait).await?;
    let is_of_process = matches!(target, Target::Readiness | Target::Metrics | Target::Description | Target::Server);
    let parameters = Parameters::of(head.uri.query());
    if let Some(url) = api.jobs.elsewhere().filter(|_| !is_of_process) {
        let error = Error::outside("this coordinator stands by: another one has the jobs");
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, &error.remedy(format!("send the request to {url}"))));
    }
    carry_out(api, target, name, parameters, access, body).await
}

/// Answers a request that may be answered.
async fn carry_out(
    api: Arc<Api>,
    target: Target,
    name: String,
    parameters: Parameters,
    access: Access,
    body: Bytes,
) -> Answered {
    match target {
        Target::Health => Ok(health()),
        Target::Page => Ok(page::index()),
        Target::PageFile => page::file(&name),
        Target::Readiness => Ok(readiness(&api, |readiness| readiness)),
        Target::Metrics => {
            Ok(answer(StatusCode::OK, exposition::CONTENT_TYPE, exposition::text(&api.readings()).into()))
        }
        Target::Description => Ok(json_text(StatusCode::OK, DESCRIPTION.clone())),
        Target::Server => Ok(json(StatusCode::OK, &ServerDocument::of(&api, access))),
        Target::Workers => Ok(json(StatusCode::OK, &WorkerList::of(api.jobs.workers(), &api.readings()))),
        Target::Drain => drain(api, name).await,
        Target::Undrain => undrain(api, name).await,
        Target::Functions => functions(api, body).await,
        Target::Check => sql::check(api, body).await,
        Target::Complete => sql::complete(api, body).await,
        Target::Preview => sql::preview(api, &body),

        Target::Jobs => Ok(json(StatusCode::OK, &JobList::of(&api.readings()))),
        Target::Live => live::all(&api, &parameters),
        Target::Submit => take(api, order(&body)?).await,
        Target::Demo => demo(api).await,

        Target::View(view) => shown(&api, view, api.job(&name)?.as_ref(), &parameters),
        Target::State => state(api, name, parameters).await,
        Target::Script => on_thread("script", REQUEST, move || script(&api, &name)).await?,

        Target::Stop => change(&api, &name, RequestKind::Stop, |job| {
            job.stop();
            Ok(())
        }),
        Target::Cancel => change(&api, &name, RequestKind::Cancel, |job| {
            job.cancel();
            Ok(())
        }),
        Target::AbortChange => change(&api, &name, RequestKind::Abort, |job| job.abort_change()),
        Target::Reconfigure => {
            running(&api, &name, None)?;
            reconfigure(api, name, body).await
        }
        Target::Savepoint => {
            let job = running(&api, &name, None)?;
            savepoint(api, job, &body).await
        }
        Target::Remove => remove(api, name, &body).await,
    }
}

fn shown(api: &Arc<Api>, view: View, job: &dyn ServedJob, parameters: &Parameters) -> Answered {
    let (name, reading) = (job.name(), job.reading());
    Ok(match view {
        View::Job => {
            let why = api.samples().why(job);
            json(StatusCode::OK, &JobDocument::of(job, &reading, &api.rates(name, &reading), &why))
        }
        View::Plan => plan(api, job, parameters)?,
        View::Tasks => json(StatusCode::OK, &TaskList::of(&reading, &api.rates(name, &reading))),
        View::Checkpoints => json(StatusCode::OK, &CheckpointsDocument::of(&reading, api.samples().checkpoints(name))),
        View::Counters => json(StatusCode::OK, &CounterList::from(&reading)),
        View::Changes => changes(api, name, reading.status.changing),
        View::Autoscale => autoscale(api, job),
        View::Observations => observations(api, job),
        View::Notices => json(StatusCode::OK, &NoticeList::of(job.notices(), &reading)),
        View::Live => live::of_job(api, name, parameters)?,
        View::Why => json(StatusCode::OK, &api.samples().why(job)),
        View::History => history(api, name, parameters)?,
    })
}

fn health() -> Answer {
    json(StatusCode::OK, &Health { healthy: true })
}

fn readiness(api: &Api, shown: impl FnOnce(Readiness) -> Readiness) -> Answer {
    let readiness = Readiness::of(&api.readings(), api.jobs.takes_jobs());
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &shown(readiness))
}

/// Starts the job of the demonstration.
async fn demo(api: Arc<Api>) -> Answered {
    let none = || Error::user("this process has no demonstration");
    let none = || refused(StatusCode::CONFLICT, &none().remedy("start one: anabranch demo, or anabranch serve"));
    let order = api.jobs.demo().ok_or_else(none)?;
    take(api, order).await
}

/// A job that can be changed, else why it cannot: it is over.
fn running(api: &Api, name: &str, requested: Option<RequestKind>) -> Result<Arc<dyn ServedJob>, Box<Answer>> {
    let job = api.job(name)?;
    let reading = job.reading();
    if !reading.status.ended {
        return Ok(job);
    }
    let (state, resumes) = match reading.state() {
        JobState::Stopped => ("is stopped", true),
        JobState::Cancelled => ("is cancelled", true),
        JobState::Failed => ("has failed", true),
        _ => ("has ended", false),
    };
    let error = Error::user(format!("the job '{name}' {state}"));
    let error = match (requested, resumes) {
        (Some(RequestKind::Stop | RequestKind::Cancel), _) => error,
        (_, true) => error.remedy("submit it again: it resumes"),
        (_, false) => error.remedy(format!(
            "to run it anew, empty the tables that it writes, remove it (anabranch remove {name}), and submit it again"
        )),
    };
    Err(refused(StatusCode::CONFLICT, &error))
}

/// Answers a request that a running job carries out later.
fn change(api: &Api, name: &str, requested: RequestKind, ask: impl FnOnce(&dyn ServedJob) -> Result<()>) -> Answered {
    let job = running(api, name, Some(requested))?;
    ask(job.as_ref()).map_err(|error| refused(StatusCode::CONFLICT, &error))?;
    Ok(json(StatusCode::ACCEPTED, &Requested { name: name.to_owned(), requested }))
}

fn order(body: &Bytes) -> Result<JobOrder, Box<Answer>> {
    let form = "{\"name\": \"NAME\", \"sql\": \"STATEMENTS\", \"settings\": {\"OPTION\": \"VALUE\"}}";
    parsed(body, "a job", form).map_err(|error| wrong_order(&error, ""))
}

/// Takes a new job on a separate thread: planning takes a while, and its list is written.
async fn take(api: Arc<Api>, order: JobOrder) -> Answered {
    if Secrets::has_marks(&order.sql) {
        let error = Error::user("the text has marks in the places of secrets");
        return Err(wrong_order(&error.remedy("write the secrets in their places"), ""));
    }
    let (name, sql) = (order.name.clone(), order.sql.clone());
    match on_thread("submit", "planning", move || api.jobs.submit(order)).await? {
        Ok(()) => Ok(json(StatusCode::CREATED, &Submitted { name })),
        Err(Refusal::Wrong(error)) if error.kind() == ErrorKind::User => Err(wrong_order(&error, &sql)),
        Err(why) => Err(failed(why.error())),
    }
}

/// What an answer names if the thread of a request panics.
pub(super) const REQUEST: &str = "the request";

/// Runs something that waits on a thread of its own. `what` is what a panic there ends.
pub(super) async fn on_thread<T: Send + 'static>(
    name: &str,
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Box<Answer>> {
    let (answer, answered) = oneshot::channel();
    // The client may have left.
    spawn(name, move || drop(answer.send(run()))).map_err(no_thread)?;
    answered.await.map_err(|_| failed(&Error::internal(format!("{what} ended by a panic"))))
}

pub(super) fn no_thread(error: Error) -> Box<Answer> {
    refused(StatusCode::SERVICE_UNAVAILABLE, &error.remedy(MORE_THREADS))
}

/// The order in a body, or why the body is not `what`. `form` is an example of one.
pub(super) fn parsed<T: DeserializeOwned>(body: &[u8], what: &str, form: &str) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|error| Error::user(format!("the body is not {what}: {error}")).remedy(format!("send {form}")))
}

/// Refuses an order whose body or SQL is wrong.
pub(super) fn wrong_order(error: &Error, sql: &str) -> Box<Answer> {
    Box::new(json(StatusCode::BAD_REQUEST, &OrderErrorDocument::of(error, sql)))
}

/// Refuses a request because of this error.
pub(super) fn failed(error: &Error) -> Box<Answer> {
    let status = match error.kind() {
        ErrorKind::User | ErrorKind::Fenced => StatusCode::CONFLICT,
        ErrorKind::Outside | ErrorKind::Damaged => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Cancelled | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refused(status, error)
}

/// The body of a request, within its limits.
pub(super) async fn read(body: Incoming, limit: usize, wait: Duration) -> Result<Bytes, Box<Answer>> {
    let (status, error) = match timeout(wait, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => return Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = Error::user(format!("the body has more than {limit} bytes"));
            (StatusCode::PAYLOAD_TOO_LARGE, error.remedy("send a shorter one"))
        }
        Ok(Err(error)) => (StatusCode::BAD_REQUEST, Error::user(format!("the body cannot be read: {error}"))),
        Err(_) => {
            let error = Error::user(format!("the body did not arrive within {} s", wait.as_secs()));
            (StatusCode::REQUEST_TIMEOUT, error.remedy("send it again"))
        }
    };
    Err(refused(status, &error))
}

pub(super) fn refused(status: StatusCode, error: &Error) -> Box<Answer> {
    Box::new(refusal(status, error))
}

pub(super) fn refusal(status: StatusCode, error: &Error) -> Answer {
    json(status, &ErrorDocument::from(error))
}

pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(mut text) => {
            text.push(b'\n');
            json_text(status, text.into())
        }
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, "application/json", Bytes::from_static(b"{}")),
    }
}

/// A document that was made before.
pub(super) fn json_text(status: StatusCode, document: Bytes) -> Answer {
    answer(status, "application/json", document)
}

pub(super) fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
