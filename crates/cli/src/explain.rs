//! `anabranch explain`: the plan of a file.

use anabranch_model::Error;
use anabranch_server::{Step, Steps};

use crate::arguments::Explain;
use crate::console::Console;
use crate::engine::{engine, read, settings};
use crate::failure::Failure;

pub(crate) fn explain(arguments: &Explain) -> Result<(), Failure> {
    let mut output = Console::output();
    let sql = read(&arguments.file).map_err(Failure::request)?;
    let engine = engine(output.clone());
    let steps = engine.plan_steps(&sql, &settings(&arguments.settings, &arguments.tables));
    let Steps { steps, notes } = steps.map_err(|e| Failure::planning(&e, &sql))?;
    notes.iter().try_for_each(|note| Console::error().line(&format!("notice: {note}")))?;
    if steps.is_empty() {
        let error = Error::user("there is nothing to explain: the file has no SELECT and no INSERT INTO");
        return Err(Failure::request(error.at(arguments.file.display().to_string())));
    }
    let (mut shown, jobs) = (0, steps.iter().filter(|step| !matches!(step, Step::Report(_))).count());
    for step in steps {
        let (plan, logical) = match step {
            Step::Report(report) => {
                output.line(&report)?;
                continue;
            }
            Step::Job(job) => (job.plan, job.logical),
            Step::Query(query) => (query.query.plan, query.logical),
        };
        shown += 1;
        if jobs > 1 {
            output.line(&format!("{}job {shown} of {jobs}\n", if shown > 1 { "\n" } else { "" }))?;
        }
        let plan = plan.with_equal_stages_once();
        output.line(&format!("{logical}\n{}", plan.to_string().trim_end()))?;
        let state = plan.state_report();
        if !state.is_empty() {
            output.line(&format!("\nstate\n{}", state.trim_end()))?;
        }
    }
    Ok(())
}
