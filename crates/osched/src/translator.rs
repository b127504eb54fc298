//! From a schedule to what is written: each translator brings priorities into the range of one mechanism of
//! the kernel (section 5.3 of the paper), and plans only what differs from the present state. Plans are
//! values; [`Journal`](crate::journal::Journal) carries them out.
//!
//! A mechanism that needs a program of its own, as sched_ext does, would be a further translator whose plan
//! is the message to it.

mod class;
mod groups;
mod nice;
mod quota;
mod real_time;
mod slice;
mod spread;
mod weights;

#[cfg(test)]
mod tests;

use std::fmt;

use anabranch_model::{Error, Result, nearest};
use anabranch_schedule::{Scale, Schedule, ThreadId};

use self::nice::Nice;
use self::weights::Weights;
use crate::kernel::{Change, Hierarchy, Machine, Needs, State, ThreadValue};

/// Brings priorities into the range of a mechanism.
pub trait Translator: Send {
    /// What of the machine its plans depend on, besides threads.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What to write so that the threads compete as the schedule says, in this order. Empty if they do
    /// already. Threads that the state does not have are left out, and so are those of real-time classes and
    /// of classes that are not known. `scale` is the policy's.
    fn plan(&mut self, schedule: &Schedule, scale: Scale, state: &State) -> Vec<Write>;
}

/// The names of all translators.
pub const NAMES: [&str; 10] =
    ["nice", "groups", "both", "shares", "weight", "quota", "idle-groups", "class", "slice", "real-time"];

/// A planned change, with what is needed to explain it.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What is written.
    pub change: Change,
    /// What it is now, as users read it; empty for what does not exist yet.
    pub before: String,
    /// The thread as its engine calls it; empty for groups.
    pub subject: String,
    /// Why, in a few words.
    pub reason: String,
}

/// One line, as `--dry-run` prints it.
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::Thread { thread, value } => {
                write!(f, "{} {} -> {value}: thread {} ", value.kind(), self.before, thread.tid)?;
                write!(f, "'{}' of process {}", anabranch_model::visible(&self.subject), thread.pid)?;
            }
            Change::Group { group, value } if self.before.is_empty() => write!(f, "{} {value}: {group}", value.kind())?,
            Change::Group { group, value } => write!(f, "{} {} -> {value}: {group}", value.kind(), self.before)?,
            change @ (Change::Create { .. } | Change::Remove { .. }) => write!(f, "{change}")?,
        }
        write!(f, " ({})", self.reason)
    }
}

/// Settings of all translators; each takes its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The nice values of the lowest and the highest priority, 19 to -20. A narrow range is moderate: a
    /// thread that is starved may hold a lock that others need.
    pub nice: (i32, i32),
    /// The weight of the group with the lowest and with the highest priority, as a factor of the default
    /// weight.
    pub weight: (f64, f64),
    /// The slice of the lowest and of the highest priority, 0.1 to 100 ms.
    pub slice_ms: (f64, f64),
    /// The share of all cores that the group with the lowest and with the highest priority may use, above 0
    /// to 1 (no bound).
    pub quota: (f64, f64),
    /// Whether the lowest priorities get the idle class; otherwise the batch class is the lowest.
    pub idle: bool,
    /// Whether the user has asked for real-time threads.
    pub real_time: bool,
    /// The most threads that are real-time at once. One core less than there are is the bound in any case.
    pub real_time_threads_max: usize,
    /// The share of a core above which a real-time thread is put back into the usual class.
    pub real_time_share_max: f64,
    /// Distinguishes the groups of several policies of one osched. Letters, digits, `-` and `_`.
    pub mark: String,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            nice: (10, 0),
            // The range of nice values 10 to -10.
            weight: (spread::share_of_nice(10), spread::share_of_nice(-10)),
            slice_ms: (10.0, 0.5),
            quota: (0.1, 1.0),
            idle: false,
            real_time: false,
            real_time_threads_max: usize::MAX,
            real_time_share_max: 0.5,
            mark: "g".to_owned(),
        }
    }
}

/// The translator of this name. Fails if there is none, if the machine does not have its mechanism, or if an
/// option is out of range.
pub fn by_name(name: &str, options: &Options, machine: &Machine) -> Result<Box<dyn Translator>> {
    check(options).map_err(|error| error.at(format!("translator '{name}'")))?;
    let groups_missing = |wanted: &str| {
        let found = machine.groups.map_or_else(|| "neither version".to_owned(), |found| found.to_string());
        Error::outside(format!("it needs cgroups {wanted} with the cpu controller; this machine has it in {found}"))
            .at(format!("translator '{name}'"))
            .remedy(if machine.groups.is_some() {
                "use 'groups', which takes the version that is there"
            } else {
                "use 'nice'"
            })
    };
    let hierarchy = |wanted: Option<Hierarchy>| match (machine.groups, wanted) {
        (Some(found), None) => Ok(found),
        (Some(found), Some(wanted)) if found == wanted => Ok(found),
        (_, wanted) => Err(groups_missing(&wanted.map_or_else(|| "v1 or v2".to_owned(), |wanted| wanted.to_string()))),
    };
    Ok(match name {
        "nice" => Box::new(Nice::new(options)),
        "groups" => Box::new(Weights::new(hierarchy(None)?, options, None)),
        "both" => Box::new(Weights::new(hierarchy(None)?, options, Some(Nice::new(options)))),
        "shares" => Box::new(Weights::new(hierarchy(Some(Hierarchy::V1))?, options, None)),
        "weight" => Box::new(Weights::new(hierarchy(Some(Hierarchy::V2))?, options, None)),
        "quota" => hierarchy(None).map(|_| Box::new(quota::QuotaOfGroups::new(options)))?,
        "idle-groups" => hierarchy(None).map(|_| Box::new(class::IdleGroups::new(options)))?,
        "class" => Box::new(class::ClassOfThreads::new(options)),
        "slice" => Box::new(slice::Slice::new(options, machine)?),
        "real-time" => Box::new(real_time::RealTime::new(options, machine)?),
        _ => {
            let remedy = match nearest(name, NAMES) {
                Some(meant) => format!("did you mean '{meant}'? Translators: {}", NAMES.join(", ")),
                None => format!("use one of: {}", NAMES.join(", ")),
            };
            return Err(Error::user(format!("unknown translator '{name}'")).remedy(remedy));
        }
    })
}

fn check(options: &Options) -> Result<()> {
    let out_of_range = |what: &str, allowed: &str| Err(Error::user(format!("{what} is out of range")).remedy(allowed));
    let (worst, best) = options.nice;
    if ![worst, best].iter().all(|nice| (-20..=19).contains(nice)) || worst < best {
        return out_of_range(
            "the range of nice",
            "give the value of the lowest priority first: [10, -10], within 19 to -20",
        );
    }
    let rises = |(worst, best): (f64, f64), least: f64, most: f64| worst >= least && worst <= best && best <= most;
    if !rises(options.weight, 0.002, 100.0) {
        return out_of_range(
            "the range of weight",
            "give factors of the default weight that rise: [0.1, 10], within 0.002 to 100",
        );
    }
    let (slowest, fastest) = options.slice_ms;
    if !rises((fastest, slowest), 0.1, 100.0) {
        return out_of_range(
            "the range of slice",
            "give the slice of the lowest priority first: [10, 0.5], within 100 to 0.1 ms",
        );
    }
    if !rises(options.quota, 0.01, 1.0) {
        return out_of_range("the range of quota", "give shares of all cores that rise: [0.1, 1], within 0.01 to 1");
    }
    if !(options.real_time_share_max > 0.0 && options.real_time_share_max <= 0.9) {
        return out_of_range("the bound of real-time threads", "give a share of a core above 0, at most 0.9");
    }
    if options.mark.is_empty() || groups::plain(&options.mark) != options.mark {
        return out_of_range("the mark of groups", "use letters, digits, '-' and '_'");
    }
    Ok(())
}

/// A thread with its place in the plan of a translator.
struct Ranked<'a> {
    id: ThreadId,
    priority: f64,
    state: &'a crate::kernel::ThreadState,
}

/// The threads of the schedule that are there and may be changed, in the order of their numbers. A thread
/// without a priority of its own has that of its group.
fn ranked<'a>(schedule: &Schedule, state: &'a State) -> Vec<Ranked<'a>> {
    let mut priorities = schedule.threads.clone();
    for group in schedule.groups.values() {
        for thread in &group.threads {
            priorities.entry(*thread).or_insert(group.priority);
        }
    }
    let found = priorities.into_iter().filter_map(|(id, priority)| {
        let state = state.threads.get(&id).filter(|state| !state.scheduling.class.policy.is_foreign())?;
        Some(Ranked { id, priority, state })
    });
    found.collect()
}

fn priorities(ranked: &[Ranked<'_>]) -> Vec<f64> {
    ranked.iter().map(|thread| thread.priority).collect()
}

/// The write of a value of a thread with its reason.
fn write(thread: &Ranked<'_>, before: &ThreadValue, value: ThreadValue) -> Write {
    Write {
        change: Change::Thread { thread: thread.id, value },
        before: before.to_string(),
        subject: thread.state.name.clone(),
        reason: reason(thread.priority),
    }
}

fn reason(priority: f64) -> String {
    if priority.is_nan() { "priority unknown".to_owned() } else { format!("priority {}", short(priority)) }
}

/// At most about four digits.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 || (size > 0.0 && size < 1e-3) => format!("{value:.3e}"),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}
