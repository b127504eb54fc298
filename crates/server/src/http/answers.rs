//! Requests and their answers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch_model::{Error, ErrorKind, Latch, Result};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::autoscale::{ScalingRecords, autoscale, observations};
use super::documents::{
    CheckpointsDocument, CounterList, ErrorDocument, JobDocument, JobList, NoticeList, PlanDocument, Readiness,
    Requested, SavepointDocument, TaskList, WorkerList,
};
use super::drain::{drain, undrain};
use super::exposition;
use super::functions::functions;
use super::jobs::{Jobs, Reading, Refusal, ServedJob};
use super::orders::{JobOrder, OrderErrorDocument, SavepointOrder, Submitted};
use super::rates::{History, Rates};
use super::reconfigure::{changes, reconfigure};
use super::removal::remove;
use super::routes::{Found, Target, find};
use super::security::Token;

/// The description of the API for programs.
const DESCRIPTION: &str = include_str!("openapi.json");
/// Largest body of a request, in bytes.
const BODY_MAX: usize = 64 << 10;
/// Largest order of a job, in bytes.
const ORDER_MAX: usize = 4 << 20;

pub(super) type Answer = Response<Full<Bytes>>;

/// What the server serves, and what it keeps between requests.
pub(super) struct Api {
    pub(super) jobs: Arc<dyn Jobs>,
    token: Option<Token>,
    histories: Mutex<BTreeMap<String, History>>,
    /// Closes when the savepoint that was begun last has ended.
    savepoint: Mutex<Option<Receiver<()>>>,
    /// Held while a worker is drained.
    pub(super) draining: Mutex<()>,
    pub(super) is_closing: Latch,
    /// Time for a request's body to arrive.
    body_wait: Duration,
}

impl Api {
    pub(super) fn new(jobs: Arc<dyn Jobs>, token: Option<Token>, body_wait: Duration) -> Api {
        let (histories, savepoint, draining) = (Mutex::default(), Mutex::default(), Mutex::default());
        Api { jobs, token, histories, savepoint, draining, is_closing: Latch::default(), body_wait }
    }

    /// Takes a sample of each job, for rates.
    pub(super) fn sample(&self) {
        let mut histories = self.histories();
        for (name, reading) in self.readings() {
            histories.entry(name).or_default().push(&reading);
        }
    }

    /// The server ends: gives up the savepoint that is being taken, if there is one. Returns a channel that closes when it has
    /// ended.
    pub(super) fn close(&self) -> Option<Receiver<()>> {
        self.is_closing.set();
        self.savepoint.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A process that ends changes no job any more.
    pub(super) fn refuses_changes(&self) -> Result<(), Refusal> {
        match self.is_closing.is_set() {
            true => Err(Refusal::Conflict(Error::outside("the process ends: the job was not changed"))),
            false => Ok(()),
        }
    }

    fn histories(&self) -> MutexGuard<'_, BTreeMap<String, History>> {
        self.histories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readings(&self) -> Vec<(String, Reading)> {
        self.jobs.jobs().iter().map(|job| (job.name().to_owned(), job.reading())).collect()
    }

    fn rates(&self, job: &str, reading: &Reading) -> Rates {
        self.histories().get(job).map(|history| history.rates(reading)).unwrap_or_default()
    }

    /// The job of this name; else an answer with those that exist.
    fn job(&self, name: &str) -> Result<Arc<dyn ServedJob>, Box<Answer>> {
        let jobs = self.jobs.jobs();
        let names: Vec<String> = jobs.iter().map(|job| format!("'{}'", job.name())).collect();
        jobs.into_iter().find(|job| job.name() == name).ok_or_else(|| {
            let error = Error::user(format!("there is no job '{name}'"));
            let remedy = match names.is_empty() {
                true => "there are no jobs yet: submit one".to_owned(),
                false => format!("the jobs are: {}", names.join(", ")),
            };
            Box::new(refusal(StatusCode::NOT_FOUND, &error.remedy(remedy)))
        })
    }

    /// Whether a request may be answered.
    pub(super) fn knows<B>(&self, request: &Request<B>) -> bool {
        self.guard(request.method(), request.headers()).is_ok()
    }

    /// Refuses a request that may not be answered.
    fn guard(&self, method: &Method, headers: &HeaderMap) -> Result<(), Box<Answer>> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let host = text(HOST);
        // A browser sends a page's requests to other sites too, and names the page's site.
        if text(ORIGIN).is_some_and(|origin| host != origin.split_once("://").map(|(_, host)| host))
            && *method != Method::GET
        {
            let error = Error::user("a page of another site must not change anything here");
            return Err(Box::new(refusal(StatusCode::FORBIDDEN, &error.remedy("send the request without a browser"))));
        }
        match &self.token {
            // A name could be made to mean this machine by the owner of any site that a browser visits.
            None if host.is_some_and(|host| !is_of_this_machine(host)) => {
                let error = Error::user("without a token, the host must be an address or localhost");
                let remedy = "use http://127.0.0.1:PORT, or start with --token-file";
                Err(Box::new(refusal(StatusCode::FORBIDDEN, &error.remedy(remedy))))
            }
            Some(token) if !token.is_in(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)) => {
                let error = Error::user("the request needs the token of this process");
                let remedy = "send the header 'Authorization: Bearer TOKEN', with the content of --token-file";
                let mut answer = refusal(StatusCode::UNAUTHORIZED, &error.remedy(remedy));
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                Err(Box::new(answer))
            }
            _ => Ok(()),
        }
    }
}

fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// Answers a request.
pub(super) async fn respond(api: Arc<Api>, request: Request<Incoming>) -> Answer {
    let (head, body) = request.into_parts();
    let found = find(&head.method, head.uri.path());
    if found == Found::Target(Target::Health, String::new()) {
        return json(StatusCode::OK, &serde_json::json!({ "healthy": true }));
    }
    if let Err(answer) = api.guard(&head.method, &head.headers) {
        // A probe has no token. It learns whether this process is ready, and no names of jobs.
        let is_probe = found == Found::Target(Target::Readiness, String::new());
        return if is_probe { readiness(&api, Readiness::without_jobs) } else { *answer };
    }
    let (target, name) = match found {
        Found::Target(target, name) => (target, name),
        Found::OtherMethod(methods) => {
            let methods = methods.join(", ");
            let error = Error::user(format!("{} is not possible here", head.method)).at(head.uri.path());
            let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, &error.remedy(format!("use {methods}")));
            if let Ok(methods) = HeaderValue::from_str(&methods) {
                answer.headers_mut().insert(ALLOW, methods);
            }
            return answer;
        }
        Found::Nothing => {
            let error = Error::user("there is nothing at this path").at(head.uri.path());
            return refusal(StatusCode::NOT_FOUND, &error.remedy("GET /api/v1/openapi.json describes all paths"));
        }
    };
    let limit =
        if matches!(target, Target::Submit | Target::Reconfigure | Target::Functions) { ORDER_MAX } else { BODY_MAX };
    let body = match read(body, limit, api.body_wait).await {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let is_of_process = matches!(target, Target::Readiness | Target::Metrics | Target::Description);
    if let Some(url) = api.jobs.elsewhere().filter(|_| !is_of_process) {
        let error = Error::outside("this coordinator stands by: another one has the jobs");
        return refusal(StatusCode::SERVICE_UNAVAILABLE, &error.remedy(format!("send the request to {url}")));
    }
    match target {
        Target::Submit => submit(api, &body).await,
        Target::Drain => drain(api, name).await,
        Target::Undrain => undrain(api, name).await,
        Target::Remove => remove(api, name, &body).await,
        Target::Functions => functions(api, body).await,
        Target::Stop | Target::Cancel | Target::Savepoint | Target::Reconfigure | Target::AbortChange => {
            match api.job(&name) {
                Ok(job) => change(api, target, job, body).await,
                Err(answer) => *answer,
            }
        }
        _ => show(&api, target, &name).unwrap_or_else(|answer| *answer),
    }
}

fn readiness(api: &Api, shown: impl FnOnce(Readiness) -> Readiness) -> Answer {
    let readiness = Readiness::of(&api.readings(), api.jobs.takes_jobs());
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &shown(readiness))
}

/// Answers a request that changes nothing.
fn show(api: &Api, target: Target, name: &str) -> Result<Answer, Box<Answer>> {
    let of_all = match target {
        Target::Readiness => Some(readiness(api, |readiness| readiness)),
        Target::Metrics => {
            Some(answer(StatusCode::OK, exposition::CONTENT_TYPE, exposition::text(&api.readings()).into()))
        }
        Target::Description => {
            Some(answer(StatusCode::OK, "application/json", Bytes::from_static(DESCRIPTION.as_bytes())))
        }
        Target::Jobs => Some(json(StatusCode::OK, &JobList::of(&api.readings()))),
        Target::Workers => Some(json(StatusCode::OK, &WorkerList::of(api.jobs.workers(), &api.readings()))),
        _ => None,
    };
    if let Some(answer) = of_all {
        return Ok(answer);
    }
    let job = api.job(name)?;
    let reading = job.reading();
    Ok(match target {
        Target::Plan => json(StatusCode::OK, &PlanDocument::from(job.plan().as_ref())),
        Target::Tasks => json(StatusCode::OK, &TaskList::of(&reading, &api.rates(name, &reading))),
        Target::Checkpoints => json(StatusCode::OK, &CheckpointsDocument::from(&reading)),
        Target::Counters => json(StatusCode::OK, &CounterList::from(&reading)),
        Target::Changes => changes(api, name, reading.status.changing),
        Target::Autoscale | Target::Observations => {
            let none = ScalingRecords::default();
            let records = api.jobs.scaling().unwrap_or(&none);
            match target {
                Target::Autoscale => autoscale(records, name, &job.plan()),
                _ => observations(records, name, &job.plan()),
            }
        }
        Target::Notices => json(StatusCode::OK, &NoticeList::of(job.notices(), &reading)),
        _ => json(StatusCode::OK, &JobDocument::of(job.as_ref(), &reading, &api.rates(name, &reading))),
    })
}

/// Why a job that is over cannot be changed.
fn is_over(job: &dyn ServedJob, target: Target) -> Error {
    let name = job.name();
    let (state, resumes) = match job.reading().state() {
        "stopped" => ("is stopped", true),
        "cancelled" => ("is cancelled", true),
        "failed" => ("has failed", true),
        _ => ("has ended", false),
    };
    let error = Error::user(format!("the job '{name}' {state}"));
    match (target, resumes) {
        (Target::Stop | Target::Cancel, _) => error,
        (_, true) => error.remedy("submit it again: it resumes"),
        (_, false) => error.remedy(format!(
            "to run it anew, empty the tables that it writes, remove it (anabranch remove {name}), and submit it again"
        )),
    }
}

/// Answers a request that changes something.
async fn change(api: Arc<Api>, target: Target, job: Arc<dyn ServedJob>, body: Bytes) -> Answer {
    if job.reading().status.ended {
        return refusal(StatusCode::CONFLICT, &is_over(job.as_ref(), target));
    }
    let requested = match target {
        Target::Stop => {
            job.stop();
            "stop"
        }
        Target::Cancel => {
            job.cancel();
            "cancel"
        }
        Target::AbortChange => match job.abort_change() {
            Ok(()) => "abort",
            Err(error) => return refusal(StatusCode::CONFLICT, &error),
        },
        Target::Reconfigure => return reconfigure(api, job.name().to_owned(), body).await,
        _ => return savepoint(api, job, &body).await,
    };
    json(StatusCode::ACCEPTED, &Requested { name: job.name().to_owned(), requested })
}

/// Takes a new job on a separate thread: planning takes a while, and its list is written.
async fn submit(api: Arc<Api>, body: &Bytes) -> Answer {
    let order: JobOrder = match serde_json::from_slice(body) {
        Ok(order) => order,
        Err(error) => {
            let error = Error::user(format!("the body is not a job: {error}"));
            let remedy = "send {\"name\": \"NAME\", \"sql\": \"STATEMENTS\", \"settings\": {\"OPTION\": \"VALUE\"}}";
            return json(StatusCode::BAD_REQUEST, &OrderErrorDocument::of(&error.remedy(remedy), ""));
        }
    };
    let (name, sql) = (order.name.clone(), order.sql.clone());
    let (answer, answered) = oneshot::channel();
    // The client may have left.
    let run = move || drop(answer.send(api.jobs.submit(order)));
    if let Err(error) = std::thread::Builder::new().name("submit".into()).spawn(run) {
        return no_thread(&error);
    }
    match answered.await {
        Ok(Ok(())) => json(StatusCode::CREATED, &Submitted { name }),
        Ok(Err(Refusal::Wrong(error))) if error.kind() == ErrorKind::User => {
            json(StatusCode::BAD_REQUEST, &OrderErrorDocument::of(&error, &sql))
        }
        Ok(Err(why)) => refusal(status_of(why.error()), why.error()),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &Error::internal("planning ended by a panic")),
    }
}

pub(super) fn no_thread(error: &std::io::Error) -> Answer {
    let error = Error::outside(format!("cannot start a thread: {error}"));
    refusal(StatusCode::SERVICE_UNAVAILABLE, &error.remedy("raise the limit of threads (ulimit -u)"))
}

/// Takes a savepoint on a separate thread, one at a time.
async fn savepoint(api: Arc<Api>, job: Arc<dyn ServedJob>, body: &Bytes) -> Answer {
    let order: SavepointOrder = match serde_json::from_slice(body) {
        Ok(SavepointOrder { place }) if !place.trim().is_empty() => SavepointOrder { place },
        wrong => {
            let why = wrong.err().map_or_else(|| "the place is empty".to_owned(), |error| error.to_string());
            let error = Error::user(format!("the body is not a request for a savepoint: {why}"));
            let remedy =
                "send {\"place\": \"DIRECTORY\"}, an empty or new directory, or such a place in an object store";
            return refusal(StatusCode::BAD_REQUEST, &error.remedy(remedy));
        }
    };
    if let Some(error) = job.refuses_savepoint() {
        return refusal(StatusCode::CONFLICT, &error);
    }
    let ((answer, answered), (ends, ended)) = (oneshot::channel(), channel());
    {
        let mut last = api.savepoint.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_some_and(|last| last.try_recv() == Err(TryRecvError::Empty)) {
            let error = Error::user("another savepoint is being taken").remedy("wait until it is done");
            return refusal(StatusCode::CONFLICT, &error);
        }
        *last = Some(ended);
    }
    let (closing, place) = (Arc::clone(&api), order.place.clone());
    let run = move || {
        let taken = job.savepoint(&order.place, &|| closing.is_closing.is_set());
        // The next one may begin when the client has this answer.
        drop::<std::sync::mpsc::Sender<()>>(ends);
        // The client may have left.
        let _ = answer.send(taken);
    };
    if let Err(error) = std::thread::Builder::new().name("savepoint".into()).spawn(run) {
        return no_thread(&error);
    }
    match answered.await {
        Ok(Ok(savepoint)) => json(StatusCode::CREATED, &SavepointDocument::of(&savepoint, &place)),
        Ok(Err(error)) => refusal(status_of(&error), &error),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &Error::internal("the savepoint ended by a panic")),
    }
}

pub(super) fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::User | ErrorKind::Fenced => StatusCode::CONFLICT,
        ErrorKind::Outside | ErrorKind::Damaged => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Cancelled | ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The body of a request, within its limits.
async fn read(body: Incoming, limit: usize, wait: Duration) -> Result<Bytes, Box<Answer>> {
    let too_slow = || {
        let error = Error::user(format!("the body did not arrive within {} s", wait.as_secs()));
        refusal(StatusCode::REQUEST_TIMEOUT, &error.remedy("send it again"))
    };
    match timeout(wait, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let error = Error::user(format!("the body has more than {limit} bytes"));
            Err(Box::new(refusal(StatusCode::PAYLOAD_TOO_LARGE, &error.remedy("send a shorter one"))))
        }
        Ok(Err(error)) => {
            Err(Box::new(refusal(StatusCode::BAD_REQUEST, &Error::user(format!("the body cannot be read: {error}")))))
        }
        Err(_) => Err(Box::new(too_slow())),
    }
}

pub(super) fn refusal(status: StatusCode, error: &Error) -> Answer {
    json(status, &ErrorDocument::from(error))
}

pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    match serde_json::to_vec(document) {
        Ok(mut text) => {
            text.push(b'\n');
            answer(status, "application/json", text.into())
        }
        Err(_) => answer(StatusCode::INTERNAL_SERVER_ERROR, "application/json", Bytes::from_static(b"{}")),
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
