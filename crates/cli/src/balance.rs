//! `anabranch balance`: key groups follow the load. The measurement and the decisions, as text.

use anabranch_server::http::{BalanceOrder, ReconfigureOrder};
use serde_json::Value;

use crate::arguments::Balance;
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{items, string, table};
use crate::reconfigure::{DRY_RUN, Target};

/// `anabranch balance`: key groups of hot tasks go to others.
pub(crate) fn balance(arguments: &Balance) -> Result<(), Failure> {
    let order = BalanceOrder { seconds: arguments.over.as_secs_f64(), stage: arguments.stage };
    let job = Target::new(&arguments.target)?;
    carry_out(&job, order, arguments.dry_run)
}

/// Sends the order, and shows the outcome.
pub(crate) fn carry_out(job: &Target<'_>, order: BalanceOrder, dry_run: bool) -> Result<(), Failure> {
    let done = job.send(&ReconfigureOrder { balance: Some(order), dry_run, ..ReconfigureOrder::default() })?;
    let mut output = Console::output();
    found(&done["balance"]).iter().try_for_each(|line| output.line(line))?;
    match dry_run {
        true => Ok(output.line(DRY_RUN)?),
        false => job.report(&done),
    }
}

fn found(balance: &Value) -> Vec<String> {
    let seconds = balance["seconds"].as_f64().unwrap_or_default();
    items(&balance["stages"]).flat_map(|stage| of_stage(stage, seconds)).collect()
}

fn of_stage(stage: &Value, seconds: f64) -> Vec<String> {
    let tasks: Vec<&Value> = items(&stage["tasks"]).collect();
    let count = tasks.len().max(1) as f64;
    let total: f64 = tasks.iter().map(|task| task["before"]["rows_per_second"].as_f64().unwrap_or_default()).sum();
    let name = format!("stage {} ({})", stage["stage"], string(&stage["name"]));
    let mut lines = vec![format!("{name}: {} rows/s, measured for {seconds:.1} s", rows(total))];
    let verdict = string(&stage["verdict"]);
    let moves = verdict == "moves";
    let mut cells = vec![["TASK", "KEY GROUPS", "ROWS/S"].map(str::to_owned).to_vec()];
    if moves {
        cells[0].extend(["THEN", "ROWS/S"].map(str::to_owned));
    }
    for task in tasks {
        let mut row = vec![task["task"].to_string()];
        for share in [&task["before"], &task["after"]].into_iter().take(if moves { 2 } else { 1 }) {
            row.extend([groups(share), rows(share["rows_per_second"].as_f64().unwrap_or_default())]);
        }
        cells.push(row);
    }
    lines.extend(table(&cells));
    let moved = |change: &Value| {
        format!("key groups {} go from task {} to task {}", groups(change), change["from"], change["to"])
    };
    lines.extend(items(&stage["moved"]).map(moved));
    lines.extend(items(&stage["hot"]).map(|hot| {
        let own = rows(hot["rows_per_second"].as_f64().unwrap_or_default());
        format!(
            "key group {} alone has {own} rows/s, more than the {} of a fair share: a key group is not divided",
            hot["key_group"],
            rows(total / count)
        )
    }));
    let left = match verdict.as_str() {
        "one task" => "it has one task; anabranch rescale gives it more",
        "too few rows" => "too few rows came to tell; measure longer with --over",
        "even" => "its tasks are within 10 % of each other",
        "no better" => "no other division takes 5 % from its busiest task",
        _ => return lines,
    };
    lines.push(format!("{name} is left as it is: {left}"));
    lines
}

/// `first..end`, with both ends included.
fn groups(share: &Value) -> String {
    let (first, end) = (share["first"].as_u64().unwrap_or_default(), share["end"].as_u64().unwrap_or_default());
    match end.saturating_sub(1) {
        last if last == first => first.to_string(),
        last => format!("{first}-{last}"),
    }
}

fn rows(number: f64) -> String {
    format!("{number:.0}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(task: u32, before: (u16, u16, f64), after: (u16, u16, f64)) -> Value {
        let share = |(first, end, rows): (u16, u16, f64)| json!({"first": first, "end": end, "rows_per_second": rows});
        json!({"task": task, "before": share(before), "after": share(after)})
    }

    #[test]
    fn what_was_found_is_told_in_lines() {
        let tasks = [task(0, (0, 64, 90_000.0), (0, 1, 60_000.0)), task(1, (64, 128, 10_000.0), (1, 128, 40_000.0))];
        let moves = json!({"stage": 1, "name": "aggregate", "verdict": "moves", "tasks": tasks,
            "moved": [{"first": 1, "end": 64, "from": 0, "to": 1}], "hot": [{"key_group": 0, "rows_per_second": 60_000.0}]});
        let even = [task(0, (0, 64, 510.0), (0, 64, 510.0)), task(1, (64, 128, 490.0), (64, 128, 490.0))];
        let even = json!({"stage": 3, "name": "aggregate", "verdict": "even", "tasks": even, "moved": [], "hot": []});
        let lines = found(&json!({"seconds": 10.02, "stages": [moves, even]}));
        let expected = "\
stage 1 (aggregate): 100000 rows/s, measured for 10.0 s
TASK  KEY GROUPS  ROWS/S  THEN   ROWS/S
0     0-63        90000   0      60000
1     64-127      10000   1-127  40000
key groups 1-63 go from task 0 to task 1
key group 0 alone has 60000 rows/s, more than the 50000 of a fair share: a key group is not divided
stage 3 (aggregate): 1000 rows/s, measured for 10.0 s
TASK  KEY GROUPS  ROWS/S
0     0-63        510
1     64-127      490
stage 3 (aggregate) is left as it is: its tasks are within 10 % of each other";
        assert_eq!(lines.join("\n"), expected);
    }
}
