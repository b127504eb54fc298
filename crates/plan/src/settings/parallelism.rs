//! Numbers of tasks, and of the key groups that bound them.

use std::collections::BTreeMap;

use anabranch_model::{Error, KeyGroups, Result};

use super::option::{Opt, parse_whole_or, put, text_or};

/// Shows a number that the engine chooses.
const DEFAULT: &str = "default";

pub(super) const OPTIONS: &[Opt] = &[
    Opt {
        name: "parallelism",
        flink: &["parallelism.default", "table.exec.resource.default-parallelism"],
        help: "tasks per stage, at most `max-parallelism`. `--parallelism` overrides it",
        default: "number of processors",
        get: |s| text_or(DEFAULT, s.parallelism),
        set: |s, text, key_groups| {
            let key_groups = s.key_groups(key_groups);
            let is_default = text.trim().eq_ignore_ascii_case(DEFAULT);
            let tasks = if is_default { Ok(None) } else { parse_parallelism(text, key_groups).map(Some) };
            put(&mut s.parallelism, tasks)
        },
    },
    Opt {
        name: "max-parallelism",
        flink: &["pipeline.max-parallelism"],
        help: "number of key groups of the job, 1 to 32768: an upper bound of the tasks per stage. It is fixed at \
               the job's first start: state belongs to key groups",
        default: "`128`",
        get: |s| text_or(DEFAULT, s.max_parallelism),
        set: |s, text, _| put(&mut s.max_parallelism, parse_max_parallelism(text)),
    },
    Opt {
        name: "stage-parallelism",
        help: "tasks of single stages: `aggregate=8, source events=2`; see \
               [changing.md](../changing.md#stages-with-a-number-of-their-own)",
        default: "none",
        get: |s| stage_setting(&s.job.stage_parallelism),
        set: |s, text, key_groups| {
            let tasks = parse_stages(text, s.key_groups(key_groups));
            put(&mut s.job.stage_parallelism, tasks)
        },
        ..Opt::PLAIN
    },
    Opt {
        name: "stage-key-groups",
        help: "how many of the key groups each task of an aggregate has: `aggregate=40+88`; see \
               [changing.md](../changing.md#keys-that-are-not-evenly-divided)",
        default: "even",
        get: |s| share_setting(&s.job.stage_key_groups),
        set: |s, text, key_groups| {
            let shares = parse_shares(text, s.key_groups(key_groups));
            put(&mut s.job.stage_key_groups, shares)
        },
        ..Opt::PLAIN
    },
];

/// Parses the number of tasks of one stage. A task without a key group would have no work.
pub(crate) fn parse_parallelism(text: &str, key_groups: u16) -> Result<u32> {
    let raise = match key_groups {
        KEY_GROUPS_MAX => String::new(),
        _ => format!(", or set 'max-parallelism' first, which is {key_groups}"),
    };
    let remedy = format!("use a whole number from 1 to {key_groups}{raise}");
    match text.trim().parse::<u32>() {
        Ok(tasks) if tasks > u32::from(key_groups) => {
            Err(Error::user(format!("{tasks} tasks are more than the {key_groups} key groups of the job"))
                .remedy(remedy))
        }
        Ok(tasks) if tasks > 0 => Ok(tasks),
        _ => Err(Error::user(format!("'{text}' is not a number of tasks")).remedy(remedy)),
    }
}

/// Most key groups that a job can have, as in Flink.
const KEY_GROUPS_MAX: u16 = 32_768;

/// Parses a number of key groups. As in Flink, -1 leaves the choice to the engine.
fn parse_max_parallelism(text: &str) -> Result<Option<u16>> {
    if text.trim() == "-1" {
        return Ok(None);
    }
    parse_whole_or(DEFAULT, text, 1..=KEY_GROUPS_MAX)
}

/// Parses `aggregate=4, source events=2`.
fn parse_stages(text: &str, key_groups: u16) -> Result<BTreeMap<String, u32>> {
    let entry = |entry: &str| {
        let (label, tasks) = entry.rsplit_once('=').ok_or_else(|| {
            let error = Error::user(format!("'{entry}' is not the number of tasks of a stage"));
            error.remedy("write STAGE=TASKS, ..., such as 'aggregate=4, source events=2'")
        })?;
        Ok((label.trim().to_owned(), parse_parallelism(tasks, key_groups)?))
    };
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(entry).collect()
}

/// The value of the option `stage-parallelism` for these numbers of tasks.
#[must_use]
pub fn stage_setting(tasks: &BTreeMap<String, u32>) -> String {
    let entries: Vec<String> = tasks.iter().map(|(label, tasks)| format!("{label}={tasks}")).collect();
    entries.join(", ")
}

/// Parses `aggregate=40+88, aggregate#2=64+64`.
fn parse_shares(text: &str, key_groups: u16) -> Result<BTreeMap<String, Vec<u16>>> {
    let entry = |entry: &str| {
        let wrong = || {
            let error = Error::user(format!("'{entry}' does not say how many key groups each task of a stage has"));
            error.remedy(format!("write STAGE=N+N+..., a number above 0 for each task, {key_groups} together"))
        };
        let (label, sizes) = entry.rsplit_once('=').ok_or_else(wrong)?;
        let sizes = sizes.split('+').map(|size| size.trim().parse().map_err(|_| wrong()));
        let sizes = sizes.collect::<Result<Vec<u16>>>()?;
        KeyGroups(key_groups).ranges(&sizes).ok_or_else(wrong)?;
        Ok((label.trim().to_owned(), sizes))
    };
    text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(entry).collect()
}

/// The value of the option `stage-key-groups` for these numbers of key groups per task.
#[must_use]
pub fn share_setting(shares: &BTreeMap<String, Vec<u16>>) -> String {
    let sizes = |sizes: &Vec<u16>| sizes.iter().map(u16::to_string).collect::<Vec<_>>().join("+");
    let entries: Vec<String> = shares.iter().map(|(label, of)| format!("{label}={}", sizes(of))).collect();
    entries.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn the_number_of_key_groups_bounds_the_parallelism() {
        let mut settings = Settings::default();
        let error = settings.set("parallelism", "300", 128).expect_err("128 key groups").to_string();
        assert!(error.contains("set 'max-parallelism' first, which is 128"), "{error}");
        settings.set("pipeline.max-parallelism", "32768", 128).expect("as in Flink");
        settings.set("parallelism", "300", 128).expect("below the bound");
        assert_eq!(settings.key_groups(128), 32_768);
        settings.set("stage-key-groups", "aggregate=30000+2768", 128).expect("all key groups");
        for wrong in ["0", "32769", "-2", "many"] {
            let error = settings.set("max-parallelism", wrong, 128).expect_err(wrong).to_string();
            assert!(error.contains("use 'default', or a whole number from 1 to 32768"), "{error}");
        }
        settings.set("max-parallelism", "-1", 128).expect("as in Flink");
        assert_eq!(settings.key_groups(128), 128);
    }

    #[test]
    fn key_groups_are_given_to_all_tasks_of_a_stage() {
        let mut settings = Settings::default();
        let mut set = |value: &str| settings.set("stage-key-groups", value, 128).map_err(|error| error.to_string());
        set("aggregate=40+88, aggregate#2 = 1 + 2 + 125").expect("two stages");
        for wrong in ["aggregate", "aggregate=", "aggregate=64+63", "aggregate=0+128", "aggregate=40+88+", "40+88"] {
            let error = set(wrong).expect_err(wrong);
            assert!(error.contains("stage-key-groups") && error.contains("128 together"), "{error}");
        }
        assert_eq!(share_setting(&settings.job.stage_key_groups), "aggregate=40+88, aggregate#2=1+2+125");
    }

    #[test]
    fn no_more_tasks_than_key_groups() {
        assert_eq!(parse_parallelism(" 128 ", 128).expect("all key groups"), 128);
        for text in ["129", "0", "-1", "two"] {
            let error = parse_parallelism(text, 128).expect_err(text).to_string();
            assert!(error.contains("help: use a whole number from 1 to 128"), "{error}");
        }
    }
}
