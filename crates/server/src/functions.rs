//! Replaces functions in all running jobs that use them.
//!
//! All jobs are checked before the first one changes: each is planned with the new declarations, so every use
//! of a function meets its new types, and compared with what runs. One job that does not fit refuses the
//! request for all.

use anabranch_model::{Error, Result, Secrets};
use anabranch_plan::{FunctionChanges, Planned};
use anabranch_runtime::Reconfigured;

use crate::http::{ChangeHistories, FunctionJob, FunctionOrder, ReconfigureOrder, Refusal};

/// A running job that is locked against other changes.
pub(crate) trait Changeable {
    /// Its name.
    fn name(&self) -> &str;
    /// Its statements.
    fn sql(&self) -> String;
    /// Plans statements as if they were its own.
    fn plan(&self, sql: &str) -> Result<Planned>;
    /// Why it cannot be changed now, if it cannot.
    fn check(&self) -> Result<(), Refusal>;
    /// Changes it. Waits until that is settled.
    fn change(&self, order: &ReconfigureOrder) -> Result<Reconfigured, Refusal>;
}

/// Why no job was changed.
#[derive(Debug)]
pub struct FunctionRefusal {
    /// The reason.
    pub why: Refusal,
    /// The statements in which a place of the reason is.
    pub sql: String,
}

impl From<Refusal> for FunctionRefusal {
    fn from(why: Refusal) -> Self {
        FunctionRefusal { why, sql: String::new() }
    }
}

/// A job that uses the functions, with its changed statements.
struct Affected<'a, C> {
    job: &'a C,
    functions: Vec<String>,
    was_same: bool,
    order: ReconfigureOrder,
    checked: Reconfigured,
}

/// Changes the jobs, one after the other. The first failure ends that.
pub(crate) fn replace<C: Changeable>(
    order: &FunctionOrder,
    jobs: &[C],
    histories: &ChangeHistories,
) -> Result<Vec<FunctionJob>, FunctionRefusal> {
    let wrong = |error: Error| FunctionRefusal { why: Refusal::Wrong(error), sql: order.sql.clone() };
    let changes = FunctionChanges::parse(&order.sql).map_err(wrong)?;
    let affected = affected(order, &changes, jobs)?;
    let mut uses = Vec::new();
    let mut has_failed = false;
    for Affected { job, functions, was_same, order: of_job, checked } in affected {
        let of = FunctionJob::new(job.name(), functions, was_same);
        uses.push(if order.dry_run {
            of.checked(&checked)
        } else if has_failed {
            of
        } else {
            let request = format!("function {}", of.functions.join(", "));
            let secrets = Secrets::of_sql(of_job.sql.as_deref().unwrap_or_default());
            let (outcome, took_ms) = histories.record((job.name(), request), &secrets, || job.change(&of_job));
            has_failed = outcome.is_err();
            match outcome {
                Ok(done) => of.changed(&done, took_ms),
                Err(why) => of.failed(why.error()),
            }
        });
    }
    Ok(uses)
}

/// The jobs that use the functions. An error if one of them does not fit.
fn affected<'a, C: Changeable>(
    order: &FunctionOrder,
    changes: &FunctionChanges,
    jobs: &'a [C],
) -> Result<Vec<Affected<'a, C>>, FunctionRefusal> {
    let mut users: Vec<(&C, String, Vec<String>)> = Vec::new();
    for job in jobs {
        let sql = job.sql();
        let planned = job.plan(&sql).map_err(|error| of_job(job, &sql, Refusal::Wrong(error)))?;
        let functions: Vec<String> = changes.used_by(&planned).into_iter().map(str::to_owned).collect();
        if !functions.is_empty() {
            users.push((job, sql, functions));
        }
    }
    let names: Vec<&str> = users.iter().map(|(job, ..)| job.name()).collect();
    if order.jobs.as_ref().is_some_and(|expected| *expected != names) {
        let error = Error::user(format!("the jobs that use these functions are now: {}", listed(&names)));
        return Err(Refusal::Conflict(error.remedy("send the request again, with these jobs")).into());
    }
    for name in changes.dropped() {
        let is_used = |functions: &[String]| functions.iter().any(|function| function == name);
        let users = users.iter().filter(|(_, _, functions)| is_used(functions));
        let users: Vec<&str> = users.map(|(job, ..)| job.name()).collect();
        if !users.is_empty() {
            let error = Error::user(format!("function {name} is used by running jobs: {}", listed(&users)));
            let remedy = "alter these jobs by statements without it, or stop them";
            return Err(Refusal::Conflict(error.remedy(remedy)).into());
        }
    }
    let check = |(job, sql, functions): (&'a C, String, Vec<String>)| {
        let changed = changes.applied_to(&sql).map_err(|error| of_job(job, &sql, Refusal::Wrong(error)))?;
        let order = ReconfigureOrder {
            sql: Some(changed.clone()),
            allow_lost_state: order.allow_lost_state,
            ..ReconfigureOrder::default()
        };
        let rehearsal = ReconfigureOrder { dry_run: true, ..order.clone() };
        let checked = job.check().and_then(|()| job.change(&rehearsal)).map_err(|why| of_job(job, &changed, why))?;
        Ok(Affected { job, functions, was_same: changed == sql, order, checked })
    };
    users.into_iter().map(check).collect()
}

/// A reason that concerns a job with these statements.
fn of_job(job: &impl Changeable, sql: &str, why: Refusal) -> FunctionRefusal {
    FunctionRefusal { why: why.map(|error| error.at(format!("job '{}'", job.name()))), sql: sql.to_owned() }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "),
    }
}
