//! The table of routes.

use std::sync::LazyLock;

use hyper::Method;

use super::super::autoscale::{Autoscale, ObservationList};
use super::super::description::{FOREIGN, OpenObject};
use super::super::documents::{
    CheckpointsDocument, CounterList, Health, JobDocument, JobList, NoticeList, PlanDocument, Readiness, Requested,
    SavepointDocument, ScriptDocument, ServerDocument, TaskList, WorkerList,
};
use super::super::drain::Drained;
use super::super::functions::{FunctionOrder, FunctionsReplaced};
use super::super::orders::{JobOrder, OrderErrorDocument, SavepointOrder, Submitted};
use super::super::past::Past;
use super::super::reconfigure::{ChangeList, ReconfigureOrder, ReconfiguredDocument};
use super::super::removal::{RemovalOrder, Removed};
use super::super::sql::preview::PreviewOrder;
use super::super::sql::{CheckOrder, Checked, CompleteOrder, Completions};
use super::super::state::StateDocument;
use super::{Route, Target, Token, View};
use crate::why::Why;

/// All routes.
pub(in crate::http) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let groups = [of_process(), of_page(), of_sql(), of_lists(), of_job(), over_time(), changes(), large_changes()];
    groups.into_iter().flatten().collect()
});

const FULL: &str = "There are too many streams, previews or threads already.";
const FROM: &str = "Number of the sample that the client has, after a break.";
const NO_ENGINE: &str = "This process plans no statements.";
const NO_WORKER: &str = "There is no worker of this name.";
const OTHER_BODY: &str = "The body is not what this path takes.";
const OUTSIDE: &str = "Something outside failed.";
const STATE: &str = "The state of the job does not allow it.";

fn get(path: &'static str, target: Target, id: &'static str, summary: &'static str) -> Route {
    Route::new(Method::GET, path, target, id, summary)
}

fn post(path: &'static str, target: Target, id: &'static str, summary: &'static str) -> Route {
    Route::new(Method::POST, path, target, id, summary)
}

fn of_process() -> Vec<Route> {
    let readiness = "Whether all tasks of all jobs run; the jobs are named only with the token.";
    let server = "The process that answers, and what the token of the request allows.";
    vec![
        get("/healthz", Target::Health, "health", "Whether the process lives; needs no token.")
            .token(Token::Unused)
            .gives::<Health>(200, "It lives."),
        get("/readyz", Target::Readiness, "readiness", readiness)
            .token(Token::Optional)
            .gives::<Readiness>(200, "All run.")
            .gives::<Readiness>(503, "Some do not."),
        get("/metrics", Target::Metrics, "metrics", "Metrics in the text format of Prometheus.")
            .gives_text("text/plain", "The metrics."),
        get("/api/v1/openapi.json", Target::Description, "description", "This description.")
            .gives::<OpenObject>(200, "The description."),
        get("/api/v1/server", Target::Server, "server", server).gives::<ServerDocument>(200, "The process."),
    ]
}

fn of_page() -> Vec<Route> {
    let live = "All jobs and workers, first as a whole, then once a second what has changed.";
    let job_live = "A job with its stages, first as a whole, then once a second what has changed.";
    let stream = "Server-sent events: 'whole' with a document, 'difference' with a JSON merge patch (RFC 7396), each \
                  with the number of its sample as the id.";
    let stream_of_job = "Server-sent events: 'whole' with a document, 'difference' with a JSON merge patch (RFC 7396), \
                         each with the number of its sample as the id; 'end' when the job was removed.";
    vec![
        get("/", Target::Page, "page", "The page for browsers; needs no token, since it has no data.")
            .token(Token::Unused)
            .gives_text("text/html", "The document.")
            .refuses(403, FOREIGN),
        get("/page/{name}", Target::PageFile, "pageFile", "A file of the page, compressed by gzip; needs no token.")
            .token(Token::Unused)
            .gives_text("*/*", "The file.")
            .refuses(403, FOREIGN)
            .refuses(404, "The page has no such file."),
        get("/api/v1/live", Target::Live, "live", live)
            .number("from", FROM)
            .gives_text("text/event-stream", stream)
            .refuses(503, FULL),
        get("/api/v1/jobs/{name}/live", Target::View(View::Live), "jobLive", job_live)
            .number("stage", "The stage whose tasks are sent too.")
            .number("from", FROM)
            .gives_text("text/event-stream", stream_of_job)
            .refuses(503, FULL),
        post("/api/v1/demo", Target::Demo, "demo", "Starts the job of the demonstration.")
            .gives::<Submitted>(201, "It was taken.")
            .refuses(409, "The process has no demonstration, or it runs already.")
            .refuses(503, FULL),
    ]
}

fn of_sql() -> Vec<Route> {
    let preview = "The first rows of the query that is the last statement. It runs in the process that answers, and \
                   stops by itself.";
    let rows =
        "Server-sent events: 'columns' with names and types, 'rows' with texts and weights, 'end' with the reason.";
    let refuses = |route: Route| route.refuses(400, OTHER_BODY).refuses(409, NO_ENGINE).refuses(503, FULL);
    [
        post("/api/v1/sql/check", Target::Check, "checkSql", "Whether statements can run, and how. Nothing is run.")
            .takes::<CheckOrder>()
            .gives::<Checked>(200, "The answer, also if the statements are wrong."),
        post("/api/v1/sql/complete", Target::Complete, "completeSql", "What may be written at a place of a text.")
            .takes::<CompleteOrder>()
            .gives::<Completions>(200, "The completions."),
        post("/api/v1/sql/preview", Target::Preview, "previewSql", preview)
            .takes::<PreviewOrder>()
            .gives_text("text/event-stream", rows),
    ]
    .map(refuses)
    .into()
}

fn of_lists() -> Vec<Route> {
    let submit = "Takes a new job and starts it. A coordinator takes any number, a process of `run` none.";
    vec![
        get("/api/v1/jobs", Target::Jobs, "listJobs", "All jobs.").gives::<JobList>(200, "The jobs."),
        get("/api/v1/workers", Target::Workers, "listWorkers", "All workers.").gives::<WorkerList>(200, "The workers."),
        post("/api/v1/jobs", Target::Submit, "submitJob", submit)
            .takes::<JobOrder>()
            .gives::<Submitted>(201, "It was taken; it starts when workers have room for it.")
            .gives::<OrderErrorDocument>(400, "The order or its SQL is wrong.")
            .refuses(409, "There is a job of this name that runs or has ended, or the process takes no jobs.")
            .refuses(503, "Something outside failed, such as the place of the list of jobs."),
    ]
}

fn of_job() -> Vec<Route> {
    let counters = "The counters of its tasks, as the processes have them. For the command `top` of the same release: \
                    the fields of a task may change.";
    let why = "Why the job gives no results, or where it waits, and what to do.";
    let script = "The text that the job runs, with a mark in the place of each secret. A change that sends the marks \
                  back keeps the secrets.";
    let state = "The state of the job's newest checkpoint: sizes, and rows of one operator. The job is not disturbed.";
    vec![
        get("/api/v1/jobs/{name}", Target::View(View::Job), "showJob", "A job.").gives::<JobDocument>(200, "The job."),
        get("/api/v1/jobs/{name}/tasks", Target::View(View::Tasks), "listTasks", "Its tasks.")
            .gives::<TaskList>(200, "The tasks."),
        get(
            "/api/v1/jobs/{name}/checkpoints",
            Target::View(View::Checkpoints),
            "showCheckpoints",
            "Its checkpoints and restarts.",
        )
        .gives::<CheckpointsDocument>(200, "The checkpoints."),
        get("/api/v1/jobs/{name}/notices", Target::View(View::Notices), "listNotices", "Its notices.")
            .gives::<NoticeList>(200, "The notices."),
        get("/api/v1/jobs/{name}/counters", Target::View(View::Counters), "listCounters", counters)
            .gives::<CounterList>(200, "The counters."),
        get("/api/v1/jobs/{name}/why", Target::View(View::Why), "why", why).gives::<Why>(200, "The answer."),
        get("/api/v1/jobs/{name}/sql", Target::Script, "script", script)
            .gives::<ScriptDocument>(200, "The text.")
            .refuses(409, "The process has no text of the job."),
        get("/api/v1/jobs/{name}/state", Target::State, "state", state)
            .number("operator", "The operator whose rows are given too.")
            .parameter("column", "string", "With 'key': only rows with that value in this column.")
            .parameter("key", "string", "A value as it is shown.")
            .gives::<StateDocument>(200, "The state.")
            .refuses(409, "The job keeps no checkpoints, or the state has no such operator or column.")
            .refuses(503, "The checkpoint cannot be read."),
    ]
}

fn over_time() -> Vec<Route> {
    let plan = "Its stages, operators and exchanges, now or in an earlier version.";
    let version = "A version of the plan that samples of the history are of. Without it, the version that runs.";
    let no_plan = "There is no job of this name, or its plan of this version is not kept; the answer lists the jobs \
                   that exist, or the versions that are kept.";
    let history = "The job over time: by seconds for five minutes, by ten seconds for an hour, by minutes for a day; \
                   with 'at', the document of the job's stream as it was then.";
    let stage = "With 'at': the stage whose tasks are given too; else the stage whose numbers each sample has as \
                 'stage'.";
    let changes = "The newest 100 changes of the job that this process remembers, oldest first, and whether one is \
                   under way.";
    let autoscale = "The decisions on the number of tasks of the job.";
    let observations = "The observations of the tasks of the job, for rehearsals of decisions.";
    vec![
        get("/api/v1/jobs/{name}/plan", Target::View(View::Plan), "showPlan", plan)
            .number("version", version)
            .gives::<PlanDocument>(200, "The plan.")
            .refuses(404, no_plan),
        get("/api/v1/jobs/{name}/history", Target::View(View::History), "history", history)
            .number("from", "Begin of the span, in milliseconds since 1970.")
            .number("to", "End of the span, in milliseconds since 1970.")
            .number("at", "A moment, in milliseconds since 1970.")
            .number("stage", stage)
            .gives::<Past>(200, "The samples, or the document."),
        get("/api/v1/jobs/{name}/changes", Target::View(View::Changes), "listChanges", changes)
            .gives::<ChangeList>(200, "The changes."),
        get("/api/v1/jobs/{name}/autoscale", Target::View(View::Autoscale), "getAutoscale", autoscale)
            .gives::<Autoscale>(200, "The newest decisions."),
        get("/api/v1/jobs/{name}/observations", Target::View(View::Observations), "getObservations", observations)
            .gives::<ObservationList>(200, "The newest intervals."),
    ]
}

fn changes() -> Vec<Route> {
    let stop = "Stops the job at the end of an epoch: what was read is processed, open windows stay open.";
    let cancel = "Ends the job at once, as a crash would. Its state is then `cancelled`.";
    let abort = "The change that is being prepared is not carried out, and the job goes on as it is.";
    let remove = "Removes a job that is over from the list, and its checkpoints unless it has a place of its own for \
                  them. Its name is free then.";
    let savepoint = "Copies the state of the job to a separate place, and waits for that.";
    vec![
        post("/api/v1/jobs/{name}/stop", Target::Stop, "stopJob", stop)
            .gives::<Requested>(202, "The stop is requested.")
            .refuses(409, STATE),
        post("/api/v1/jobs/{name}/cancel", Target::Cancel, "cancelJob", cancel)
            .gives::<Requested>(202, "The cancellation is requested.")
            .refuses(409, STATE),
        post("/api/v1/jobs/{name}/changes/abort", Target::AbortChange, "abortChange", abort)
            .gives::<Requested>(202, "The change was abandoned.")
            .refuses(409, "No change is being carried out, or its tasks are switching already."),
        post("/api/v1/jobs/{name}/remove", Target::Remove, "removeJob", remove)
            .may_take::<RemovalOrder>()
            .gives::<Removed>(200, "The job was removed.")
            .refuses(400, OTHER_BODY)
            .refuses(404, "There is no job of this name.")
            .refuses(409, "The job runs, or could resume and its state is not to be discarded.")
            .refuses(503, OUTSIDE),
        post("/api/v1/jobs/{name}/savepoint", Target::Savepoint, "takeSavepoint", savepoint)
            .takes::<SavepointOrder>()
            .gives::<SavepointDocument>(201, "The savepoint is complete.")
            .refuses(400, OTHER_BODY)
            .refuses(409, STATE)
            .refuses(503, OUTSIDE),
    ]
}

fn large_changes() -> Vec<Route> {
    let reconfigure = "Changes the text, the settings or the workers of the running job. Waits until the change is \
                       settled.";
    let functions = "Replaces functions in all running jobs that use them. All jobs are checked before the first one \
                     changes. Waits until the changes are settled.";
    let wrong_functions = "The body or its SQL is wrong, or the SQL of a job with the new functions. No job was \
                           changed.";
    let refused_functions = "A job cannot be changed so, a function to be dropped is in use, or other jobs use the \
                             functions. No job was changed.";
    let drain = "Moves all tasks of running jobs away from the worker, one job after the other. It gets no further \
                 tasks until that is undone or its process ends. If a job cannot do without the worker, nothing is \
                 changed.";
    let undrain = "The worker gets tasks again: those of jobs that start or change.";
    let of_worker = |route: Route| {
        route.refuses(404, NO_WORKER).refuses(409, "The only worker is this process.").refuses(503, OUTSIDE)
    };
    vec![
        post("/api/v1/jobs/{name}/reconfigure", Target::Reconfigure, "reconfigureJob", reconfigure)
            .takes::<ReconfigureOrder>()
            .gives::<ReconfiguredDocument>(200, "The change is settled; or what it would be.")
            .gives::<OrderErrorDocument>(400, "The body, its SQL or the name of a worker is wrong.")
            .refuses(409, "The job cannot be changed so, or the change has failed and was undone.")
            .refuses(503, "Something outside failed before the change began."),
        post("/api/v1/functions", Target::Functions, "replaceFunctions", functions)
            .takes::<FunctionOrder>()
            .gives::<FunctionsReplaced>(200, "The outcome for each job that uses the functions.")
            .gives::<OrderErrorDocument>(400, wrong_functions)
            .refuses(409, refused_functions)
            .refuses(503, "Something outside failed before a change began."),
        of_worker(
            post("/api/v1/workers/{name}/drain", Target::Drain, "drainWorker", drain)
                .gives::<Drained>(200, "The outcome for each running job."),
        ),
        of_worker(
            post("/api/v1/workers/{name}/undrain", Target::Undrain, "undrainWorker", undrain)
                .gives::<Drained>(200, "The worker is not drained."),
        ),
    ]
}
