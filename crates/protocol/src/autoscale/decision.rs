//! What an autoscaler decides, with the reasons as data.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anabranch_model::{Nanos, StageId};
use serde::{Deserialize, Serialize};

/// The decision after an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When the interval ended.
    pub at: Nanos,
    /// What is to be done.
    pub action: Action,
    /// What the interval shows of each stage; empty if it shows nothing.
    pub findings: Vec<Finding>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Nothing.
    Stay(Stay),
    /// These stages get so many tasks; the others keep theirs.
    Change(BTreeMap<StageId, u32>),
}

/// Why nothing is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stay {
    /// No stage needs another number of tasks far and long enough: see the findings.
    NoNeed,
    /// Tasks restore state or read static tables.
    Warming,
    /// The last change is not long enough ago.
    Quiet {
        /// Time that is left.
        left: Duration,
    },
    /// The counters of a task of this stage are missing, or the job has no such stage.
    Incomplete {
        /// The stage.
        stage: StageId,
    },
    /// The source cannot keep up, and its table does not tell how much it has not read, or has not told it
    /// before this interval: nobody knows how fast rows arrive.
    UnknownArrival {
        /// The stage that reads it.
        stage: StageId,
    },
    /// The sample is not newer than the last one, or its interval is empty. It was ignored.
    OutOfOrder,
}

/// What an interval shows of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The stage.
    pub stage: StageId,
    /// Its tasks.
    pub parallelism: u32,
    /// Rows per second that it must process; `None` if a stage before it has had no rows.
    pub demand: Option<f64>,
    /// Rows per second of one task that never waits; `None` without rows.
    pub true_rate: Option<f64>,
    /// Rows that leave per row that enters; `None` without rows.
    pub selectivity: Option<f64>,
    /// The share of the interval for which its mean task was useful.
    pub busy: f64,
    /// Tasks that it needs, without bounds; `None` if it is not known.
    pub wanted: Option<u32>,
    /// What became of that.
    pub why: Why,
    /// The task that has far more rows than the others.
    pub hot: Option<Hot>,
}

/// What becomes of a stage's need. Stages of the same number of tasks have the same fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// It differs by no more than the threshold.
    Fits,
    /// It is not known in all of the last intervals: the stage, or one before it, has had no rows.
    Unknown,
    /// It differs, but not for long enough.
    NotYet {
        /// Successive intervals so far.
        intervals: u32,
    },
    /// The stage gets more tasks.
    Grows,
    /// The stage gets fewer tasks.
    Shrinks,
    /// The stage has more or fewer tasks than it may, and gets the next number that it may have.
    OutOfBounds,
    /// It needs more tasks, and has as many as it may.
    AtMax,
    /// It needs fewer tasks than another stage, and all stages of the job have one number.
    Follows,
    /// It needs fewer tasks, but was too slow with so few, and demand has not fallen since.
    TooFewBefore {
        /// So few.
        tasks: u32,
    },
}

/// A task with far more rows than the others of its stage: more tasks do not help it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hot {
    /// Its number.
    pub task: u32,
    /// Its share of the rows of the stage.
    pub share: f64,
    /// The share of the interval for which it was useful.
    pub busy: f64,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Stay(stay) => write!(f, "no change: {stay}")?,
            Action::Change(change) => {
                let list: Vec<String> =
                    change.iter().map(|(stage, tasks)| format!("stage {}: {tasks} tasks", stage.0)).collect();
                f.write_str(&list.join(", "))?;
            }
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))
    }
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stay::NoNeed => f.write_str("every stage has the tasks that it needs, or has not differed for long enough"),
            Stay::Warming => f.write_str("tasks are restoring state"),
            Stay::Quiet { left } => write!(f, "quiet for {} s more after the last change", left.as_secs_f64().ceil()),
            Stay::Incomplete { stage } => write!(f, "counters of stage {} are missing", stage.0),
            Stay::UnknownArrival { stage } => {
                let stage = stage.0;
                write!(
                    f,
                    "stage {stage} cannot keep up, and its table tells no lag, or told the first one in this interval"
                )
            }
            Stay::OutOfOrder => f.write_str("the sample is not newer than the last one"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |number: Option<f64>| number.map_or_else(|| "unknown".to_owned(), |number| format!("{number:.0}"));
        write!(
            f,
            "stage {}: {} tasks, {:.0} % busy; {} rows/s to process, {} rows/s per task; ",
            self.stage.0,
            self.parallelism,
            self.busy * 100.0,
            number(self.demand),
            number(self.true_rate)
        )?;
        match self.wanted {
            Some(wanted) => write!(f, "needs {wanted}: {}", self.why)?,
            None => write!(f, "{}", self.why)?,
        }
        match &self.hot {
            Some(hot) => write!(f, "; task {} has {:.0} % of the rows", hot.task, hot.share * 100.0),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Fits => f.write_str("within the threshold"),
            Why::Unknown => f.write_str("not known without rows"),
            Why::NotYet { intervals } => write!(f, "since {intervals} intervals only"),
            Why::Grows => f.write_str("grows"),
            Why::Shrinks => f.write_str("shrinks"),
            Why::OutOfBounds => f.write_str("outside its bounds"),
            Why::Follows => f.write_str("follows the stage that needs most"),
            Why::AtMax => f.write_str("has as many as it may"),
            Why::TooFewBefore { tasks } => write!(f, "{tasks} were too few at this demand"),
        }
    }
}
