//! `anabranch explain`: the plan of a file.

use anabranch_model::{Error, Result};

use crate::arguments::Explain;
use crate::console::Console;
use crate::engine::{engine, read, settings};
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn explain(arguments: &Explain) -> Result<(), Failure> {
    let mut output = Console::output();
    let sql = read(&arguments.file).map_err(|e| Failure::planning(&e, ""))?;
    let planned = engine(output.clone()).plan(&sql, &settings(&arguments.settings, &arguments.tables));
    let planned = planned.map_err(|e| Failure::planning(&e, &sql))?;
    for report in &planned.reports {
        output.line(report)?;
    }
    planned.notes.iter().try_for_each(|note| Console::error().line(&format!("notice: {note}")))?;
    match planned.plan {
        Some(plan) => {
            let plan = plan.with_equal_stages_once();
            output.line(&format!("{}\n{}", planned.logical, plan.to_string().trim_end()))?;
            let state = plan.state_report();
            if !state.is_empty() {
                output.line(&format!("\nstate\n{}", state.trim_end()))?;
            }
        }
        None if planned.reports.is_empty() => {
            let error = Error::user("there is nothing to explain: the file has no INSERT INTO statement");
            return Err(Failure::planning(&error.at(arguments.file.display().to_string()), ""));
        }
        None => {}
    }
    Ok(())
}
