//! The file `osched.toml`: what is scheduled, by which policies, and how. Unknown keys and values are refused
//! with the nearest name.

mod target;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anabranch_model::{Error, Result, nearest};
use anabranch_schedule::{Aggregate, Condition, Grouping, Level, Scale};
use serde::Deserialize;

pub use self::target::{Engine, Target};
use self::values::{condition, duration, group_priority, grouping, level, scale};

/// Shorter periods cost more than they gain.
const PERIOD_MIN: Duration = Duration::from_millis(20);
/// Longer ones do not follow queues.
const PERIOD_MAX: Duration = Duration::from_secs(600);
/// Reacts before a person notices, at under one percent of a core.
const PERIOD: Duration = Duration::from_millis(250);
/// To read an engine of a hundred tasks costs it a hundredth of a core then.
const PERIOD_OF_ADDRESS: &str = "1 s";
/// Without a backlog, the system's fairness gave better latencies than each policy.
const BACKLOG: &str = "age_ms_max > 1000";
/// The best and the worst nice value. The best raises nothing above threads that are not scheduled: a garbage
/// collector must go on, and a task that spins while it waits for rows would take all it gets. The worst is
/// moderate: a thread that is starved may hold a lock that others need.
const NICE: (i32, i32) = (0, 10);

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Running engines.
    #[serde(default, rename = "target")]
    pub targets: Vec<Target>,
    /// What decides about their threads.
    #[serde(default, rename = "policy")]
    pub policies: Vec<PolicyConfig>,
    /// Where the state of `osched` itself is served over HTTP. Default: nowhere.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// File with the token that each request needs there.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// File with a token with which requests may read and change nothing.
    #[serde(default)]
    pub read_token_file: Option<PathBuf>,
    /// File with the certificate in PEM, with those that sign it.
    #[serde(default)]
    pub tls_cert: Option<PathBuf>,
    /// File with the private key of the certificate in PEM.
    #[serde(default)]
    pub tls_key: Option<PathBuf>,
    /// Folder of the journal. Default: `/run/anabranch-osched` for root, else a folder of the user.
    #[serde(default)]
    pub state_directory: Option<PathBuf>,
    /// Whether to schedule processes whose cpuset differs from that of `osched`. Default: no.
    #[serde(default)]
    pub other_cpusets: bool,
}

/// A policy and where it applies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PolicyConfig {
    /// As `switch` and views name it. Default: `policy-1`, `policy-2`, and so on.
    #[serde(default)]
    pub name: String,
    /// Names of targets. Default: all.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The policy: a name such as `highest-rate`, or a SQL expression over metrics of operators.
    #[serde(default)]
    pub priority: Option<String>,
    /// A program that reads metrics and writes priorities as JSON lines, with its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// Whether the policy looks at tasks or at operators. Default: as the policy says.
    #[serde(default, deserialize_with = "level")]
    pub level: Option<Level>,
    /// Threads are put into groups of the kernel, one for each of these. Default: no groups.
    #[serde(default = "no_groups", deserialize_with = "grouping")]
    pub group: Grouping,
    /// How the priority of a group follows from its members'. Default: the greatest.
    #[serde(default = "greatest", deserialize_with = "group_priority")]
    pub group_priority: Aggregate,
    /// The mechanism. Default: `nice`, or `groups` where threads are grouped.
    #[serde(default)]
    pub translator: Option<String>,
    /// How priorities compare with each other. Default: as the policy says.
    #[serde(default, deserialize_with = "scale")]
    pub scale: Option<Scale>,
    /// The nice value for the greatest priority. Default: 0.
    #[serde(default)]
    pub best: Option<i32>,
    /// That for the least one. Default: 10.
    #[serde(default)]
    pub worst: Option<i32>,
    /// Time between two decisions.
    #[serde(default = "period", deserialize_with = "duration")]
    pub period: Duration,
    /// Only while this is true: `pressure > 0.05`. While it is not, all is as it was before.
    #[serde(default, deserialize_with = "condition")]
    pub when: Option<Condition>,
    /// Seed of a policy that draws.
    #[serde(default)]
    pub seed: u64,
}

fn period() -> Duration {
    PERIOD
}

fn no_groups() -> Grouping {
    Grouping::None
}

fn greatest() -> Aggregate {
    Aggregate::Max
}

impl Config {
    /// Reads a file. Errors name the line.
    pub fn read(path: &Path) -> Result<Config> {
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::user(format!("cannot read the file: {error}"))
                .at(place.clone())
                .remedy("give the path of an osched.toml")
        })?;
        Config::parse(&text).map_err(|error| error.at(place))
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Config> {
        let config: Config = toml::from_str(text).map_err(|error| refused(&error, text))?;
        config.settled()
    }

    /// For one address: the engine that answers there, and a policy that waits for a backlog.
    pub fn of_address(engine: Engine, url: &str) -> Result<Config> {
        let engine = engine.name();
        let mut config = Config::parse(&format!(
            "target = [{{ name = 'target', engine = '{engine}', url = '' }}]
             policy = [{{ priority = 'highest-rate', period = '{PERIOD_OF_ADDRESS}', when = '{BACKLOG}' }}]"
        ))?;
        config.targets[0].url = Some(url.to_owned());
        Ok(config)
    }

    /// Fills what was left out, and refuses what cannot be carried out together.
    fn settled(mut self) -> Result<Config> {
        if self.targets.is_empty() {
            return Err(Error::user("there is no target").remedy("add [[target]] with name, engine and url"));
        }
        if self.policies.is_empty() {
            return Err(Error::user("there is no policy").remedy("add [[policy]] with priority = \"drain\""));
        }
        self.check_listen()?;
        let names: Vec<String> = self.targets.iter().map(|target| target.name.clone()).collect();
        check_distinct("target", &names)?;
        self.targets.iter().try_for_each(Target::check)?;
        for (index, policy) in self.policies.iter_mut().enumerate() {
            policy.settle(index, &names)?;
        }
        let policies: Vec<String> = self.policies.iter().map(|policy| policy.name.clone()).collect();
        check_distinct("policy", &policies)?;
        self.check_conflicts()?;
        Ok(self)
    }

    fn check_listen(&self) -> Result<()> {
        let keys = [
            ("token-file", &self.token_file),
            ("read-token-file", &self.read_token_file),
            ("tls-cert", &self.tls_cert),
            ("tls-key", &self.tls_key),
        ];
        match keys.iter().find(|(_, file)| file.is_some() && self.listen.is_none()) {
            None => Ok(()),
            Some((key, _)) => Err(Error::user(format!("'{key}' protects an address, and there is none"))
                .remedy("add listen = \"127.0.0.1:7070\"")),
        }
    }

    /// Of several policies for the same property of the same threads, the first whose condition is true
    /// decides. One without a condition leaves nothing to those after it.
    fn check_conflicts(&self) -> Result<()> {
        for (index, policy) in self.policies.iter().enumerate() {
            let earlier = self.policies[..index].iter().filter(|other| other.when.is_none());
            let meet = |other: &&PolicyConfig| other.properties().iter().any(|of| policy.properties().contains(of));
            for other in earlier.filter(meet) {
                let Some(target) = policy.targets.iter().find(|target| other.targets.contains(target)) else {
                    continue;
                };
                let (name, other) = (&policy.name, &other.name);
                return Err(Error::user(format!(
                    "the policies '{other}' and '{name}' both decide about the threads of target '{target}'"
                ))
                .remedy(format!("give them different targets, or give '{other}' a condition (when = ...)")));
            }
        }
        Ok(())
    }
}

impl PolicyConfig {
    /// Which properties of threads it writes. One that groups threads and one that orders them inside the
    /// groups may both apply.
    #[must_use]
    pub fn properties(&self) -> &'static [Property] {
        match self.translator() {
            "groups" | "shares" | "weight" | "quota" | "idle-groups" => &[Property::Group],
            "both" => &[Property::Nice, Property::Group],
            "slice" => &[Property::Slice],
            "class" | "real-time" => &[Property::Class],
            _ => &[Property::Nice],
        }
    }

    /// The mechanism by its name.
    #[must_use]
    pub fn translator(&self) -> &str {
        let default = if self.group == Grouping::None { "nice" } else { "groups" };
        self.translator.as_deref().unwrap_or(default)
    }

    /// The range of the mechanism from the greatest to the least priority; `None`: its own.
    #[must_use]
    pub fn range(&self) -> Option<(i32, i32)> {
        match (self.best, self.worst) {
            (None, None) => None,
            (best, worst) => Some((best.unwrap_or(NICE.0), worst.unwrap_or(NICE.1))),
        }
    }

    fn settle(&mut self, index: usize, targets: &[String]) -> Result<()> {
        if self.name.is_empty() {
            self.name = format!("policy-{}", index + 1);
        }
        let named = |error: Error| error.at(format!("policy '{}'", self.name));
        if self.targets.is_empty() {
            self.targets = targets.to_vec();
        }
        if let Some(unknown) = self.targets.iter().find(|name| !targets.contains(name)) {
            let near = nearest(unknown, targets.iter().map(String::as_str));
            let error = Error::user(format!("there is no target '{unknown}'"));
            let near = near.map_or_else(|| "name a [[target]]".to_owned(), |near| format!("did you mean '{near}'?"));
            return Err(named(error.remedy(near)));
        }
        if !(PERIOD_MIN..=PERIOD_MAX).contains(&self.period) {
            let error = Error::user(format!("a period of {} ms is too short or too long", self.period.as_millis()));
            return Err(named(error.remedy("use 20 ms to 600 s")));
        }
        let uses_nice = self.properties().contains(&Property::Nice);
        if (self.best.is_some() || self.worst.is_some()) && !uses_nice {
            let error =
                Error::user(format!("'best' and 'worst' are nice values, and it writes by '{}'", self.translator()));
            return Err(named(error.remedy("leave them out, or use translator = \"nice\"")));
        }
        if self.scale.is_some() && self.translator() == "real-time" {
            let error = Error::user("'scale' has no effect on 'real-time', which takes only the order of priorities");
            return Err(named(error.remedy("leave it out")));
        }
        if !self.command.is_empty() && self.targets.len() > 1 {
            let error = Error::user("a program decides about one target");
            return Err(named(error.remedy("name it: targets = [\"...\"], and add a policy for each other target")));
        }
        match (&self.priority, self.command.is_empty(), self.group) {
            (Some(_), false, _) => {
                let error = Error::user("it has both 'priority' and 'command'");
                Err(named(error.remedy("keep one of them")))
            }
            (None, true, Grouping::None) => {
                let error = Error::user("it says neither 'priority' nor 'command' nor 'group'");
                Err(named(error.remedy("add priority = \"drain\"")))
            }
            _ => Ok(()),
        }
    }
}

/// A property of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// The nice value.
    Nice,
    /// The group, and its part of the machine.
    Group,
    /// How long it runs before another one may.
    Slice,
    /// The scheduling class.
    Class,
}

fn check_distinct(what: &str, names: &[String]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        None => Ok(()),
        Some(twice) => Err(Error::user(format!("two of [[{what}]] are named '{twice}'")).remedy("rename one of them")),
    }
}

/// An error of the library with its line, and the nearest name where a key or a value is unknown.
fn refused(error: &toml::de::Error, text: &str) -> Error {
    let message = error.message();
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let near = quoted.split_first().and_then(|(wrong, known)| nearest(wrong, known.iter().copied()));
    let remedy =
        near.map_or_else(|| "docs/osched.md has all keys".to_owned(), |near| format!("did you mean '{near}'?"));
    let error = Error::user(message.to_owned()).remedy(remedy);
    match line {
        Some(line) => error.at(format!("line {line}")),
        None => error,
    }
}
