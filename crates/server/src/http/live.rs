//! Streams of samples: first a whole document, then its changes once a second, as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::answers::{Answer, Answered, Api, refused};
use super::body::{Body, ClientLeft, Events, event};
use super::difference::difference;
use super::documents::WorkerList;
use super::query::Parameters;

/// A comment is sent after this time without an event, so that both sides notice a broken connection.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Streams at the same time; others get 503.
pub(super) const STREAMS_MAX: usize = 128;

/// What a stream shows.
enum Streamed {
    Jobs,
    Job { name: String, stage: Option<u32> },
}

/// Answers a request for the stream of all jobs.
pub(super) fn all(api: &Arc<Api>, parameters: &Parameters) -> Answered {
    let from = parameters.number("from")?;
    stream(api, Streamed::Jobs, from)
}

/// Answers a request for the stream of one job.
pub(super) fn of_job(api: &Arc<Api>, name: &str, parameters: &Parameters) -> Answered {
    let (from, stage) = (parameters.number("from")?, parameters.number("stage")?);
    stream(api, Streamed::Job { name: name.to_owned(), stage }, from)
}

fn stream(api: &Arc<Api>, shown: Streamed, from: Option<u64>) -> Answered {
    let Ok(place) = Arc::clone(&api.streams).try_acquire_owned() else {
        let error = anabranch_model::Error::outside(format!("there are {STREAMS_MAX} streams already"));
        return Err(refused(StatusCode::SERVICE_UNAVAILABLE, &error.remedy("close other pages")));
    };
    let (events, body) = Body::events();
    let api = Arc::clone(api);
    tokio::spawn(async move {
        // The client leaves some time: nothing else ends a stream but the end of the server or of the job.
        let _ = send(&api, &shown, from, &events).await;
        drop(place);
    });
    Ok(of_events(body))
}

/// An answer whose body are events.
pub(super) fn of_events(body: Body) -> Answer {
    let mut answer = Answer::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

async fn send(api: &Arc<Api>, shown: &Streamed, from: Option<u64>, events: &Events) -> Result<(), ClientLeft> {
    let mut ticks = api.ticks.subscribe();
    let mut last: Option<Arc<Value>> = None;
    // After a break the client has an earlier document. It is used if it is still known.
    if let (Some(from), Streamed::Job { name, stage: None }) = (from, shown) {
        last = api.samples().numbered(name, from).map(Arc::new);
    }
    while !api.is_closing.is_set() {
        ticks.mark_unchanged();
        let document = document(api, shown);
        if api.jobs.elsewhere().is_some() {
            // Another coordinator has the jobs: the client asks again, and is told where.
            return Ok(());
        }
        if document.is_none() && !exists(api, shown) {
            return events.send(event(None, "end", &json!({ "reason": "the job was removed" }).to_string())).await;
        }
        // A new job has its first sample within a second.
        let Some(now) = document else {
            next(&mut ticks, events).await?;
            continue;
        };
        let number = now["number"].as_u64().unwrap_or_default();
        let change = match &last {
            None => Some(("whole", now.as_ref().clone())),
            Some(last) if Arc::ptr_eq(last, &now) => None,
            Some(last) => difference(last, &now).map(|patch| ("difference", patch)),
        };
        if let Some((kind, data)) = change {
            events.send(event(Some(number), kind, &data.to_string())).await?;
            last = Some(now);
        }
        next(&mut ticks, events).await?;
    }
    Ok(())
}

/// Waits for the next sample.
async fn next(ticks: &mut watch::Receiver<u64>, events: &Events) -> Result<(), ClientLeft> {
    loop {
        tokio::select! {
            ticked = timeout(SILENCE_MAX, ticks.changed()) => match ticked {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(_)) => return Err(ClientLeft),
                Err(_) => events.send(":\n\n").await?,
            },
            () = events.left() => return Err(ClientLeft),
        }
    }
}

fn exists(api: &Api, shown: &Streamed) -> bool {
    match shown {
        Streamed::Jobs => true,
        Streamed::Job { name, .. } => api.job(name).is_ok(),
    }
}

fn document(api: &Arc<Api>, shown: &Streamed) -> Option<Arc<Value>> {
    let mut samples = api.samples();
    match shown {
        Streamed::Jobs => {
            let workers = || WorkerList::of(api.jobs.workers(), &api.readings()).by_name();
            Some(samples.all(workers))
        }
        Streamed::Job { name, stage: None } => samples.document(name),
        Streamed::Job { name, stage: Some(stage) } => {
            let whole = samples.document(name)?;
            let mut with_tasks = whole.as_ref().clone();
            with_tasks["tasks"] = samples.tasks(name, *stage)?;
            Some(Arc::new(with_tasks))
        }
    }
}
