//! The command line of changes of running jobs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Client, Job, Settings, TableOptions, assignment, duration};

#[derive(Debug, Args)]
pub(crate) struct Alter {
    /// Name of the job
    #[arg(required_unless_present = "function", conflicts_with = "function")]
    pub(crate) job: Option<String>,
    /// File with all statements of the job from then on
    #[arg(required_unless_present = "function", conflicts_with = "function")]
    pub(crate) file: Option<PathBuf>,
    /// File of statements CREATE OR REPLACE FUNCTION: changes all running jobs that use these functions
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parallelism", "set", "options"])]
    pub(crate) function: Option<PathBuf>,
    /// Change the jobs without a question
    #[arg(long, conflicts_with = "job")]
    pub(crate) yes: bool,
    /// Drop state that the new statements do not use
    #[arg(long)]
    pub(crate) allow_lost_state: bool,
    /// Change the job even if rows of a new source, or by another event time, may be late: windows have fired
    #[arg(long, conflicts_with = "function")]
    pub(crate) allow_late: bool,
    /// Only show what becomes of each part
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(flatten)]
    pub(crate) tables: TableOptions,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Rescale {
    /// Name of the job
    pub(crate) job: String,
    /// Tasks per stage
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) tasks: u32,
    /// Only this stage, by its number in `anabranch show`; without it, all stages get the number
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Option<u32>,
    /// Only show what becomes of each part
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Balance {
    /// Only this stage, by its number in `anabranch show`
    #[arg(long, value_name = "STAGE")]
    pub(crate) stage: Option<u32>,
    /// Measure for this time: 30s, 5min; without a unit, seconds
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) over: Duration,
    /// Only show the measurement and the decision
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// A task by the number of its stage and its own, as `anabranch show` has them; may be repeated
    #[arg(long = "task", value_name = "STAGE.TASK", value_parser = task, required = true)]
    pub(crate) tasks: Vec<(u32, u32)>,
    /// Name of the worker
    #[arg(long, value_name = "WORKER")]
    pub(crate) to: String,
    /// Only show what becomes of each part
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Name of the worker
    pub(crate) worker: String,
    /// The worker gets tasks again
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Autoscale {
    /// Name of the job
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) job: Option<String>,
    /// Print the observations, one line of JSON for each interval
    #[arg(long, conflicts_with_all = ["rehearse", "file", "set"])]
    pub(crate) record: bool,
    /// Print the decisions that other options give for the observations
    #[arg(long, conflicts_with = "file")]
    pub(crate) rehearse: bool,
    /// The same for a file that --record has printed
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Option of the rehearsed decisions, such as autoscale-tasks-max=4; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) client: Client,
}

#[derive(Debug, Args)]
pub(crate) struct Changes {
    /// Do not carry out the change that is being prepared: the job continues unchanged
    #[arg(long)]
    pub(crate) abort: bool,
    #[command(flatten)]
    pub(crate) target: Job,
}

/// `STAGE.TASK`.
fn task(text: &str) -> Result<(u32, u32), String> {
    let numbers = text.split_once('.').and_then(|(stage, task)| Some((stage.parse().ok()?, task.parse().ok()?)));
    numbers.ok_or_else(|| "give STAGE.TASK, such as 1.0: task 0 of stage 1".into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::Arguments;
    use super::*;

    #[test]
    fn a_job_or_functions_are_altered() {
        let parsed = |line: &str| Arguments::try_parse_from(line.split_whitespace()).is_ok();
        for right in ["anabranch alter ads a.sql --set x=1", "anabranch alter --function f.sql --yes"] {
            assert!(parsed(right), "{right}");
        }
        for wrong in [
            "anabranch alter ads",
            "anabranch alter ads a.sql --yes",
            "anabranch alter ads a.sql --function f.sql",
            "anabranch alter ads --function f.sql",
            "anabranch alter --function f.sql --set x=1",
        ] {
            assert!(!parsed(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_task_has_two_numbers() {
        assert_eq!(task("1.0"), Ok((1, 0)));
        for wrong in ["1", "1.", "a.b", "1.0.2", ""] {
            assert!(task(wrong).expect_err(wrong).contains("STAGE.TASK"));
        }
    }
}
