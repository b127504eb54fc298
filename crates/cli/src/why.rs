//! `anabranch why`: why a job gives no results, or where it waits, and what to do.

use std::fmt::Write as _;

use anabranch_server::http::ReconfigureOrder;
use serde_json::Value;

use crate::arguments::Job;
use crate::client::{client, path};
use crate::console::Console;
use crate::failure::Failure;
use crate::jobs::{items, string};

pub(crate) fn why(arguments: &Job) -> Result<(), Failure> {
    let client = client(&arguments.client)?;
    let document = client.get(&format!("{}/why", path(&arguments.job)))?;
    Ok(Console::output().line(text(&arguments.job, &document).trim_end())?)
}

fn text(job: &str, document: &Value) -> String {
    let mut text = match document["text"].as_str().filter(|text| !text.is_empty()) {
        Some(why) => format!("{}: {why}\n", string(&document["verdict"])),
        None => format!("well: {job} gives results, and nothing holds them up\n"),
    };
    for (depth, link) in items(&document["chain"]).enumerate() {
        let cause = if link["cause"] == true { "  <- the cause" } else { "" };
        let said = if link["cause"] == true && link["text"] == document["text"] {
            String::new()
        } else {
            format!(": {}", string(&link["text"]))
        };
        let _ = writeln!(text, "{}{}{said}{cause}", "  ".repeat(depth + 1), string(&link["name"]));
    }
    if let Some(next) = document["next"]["text"].as_str() {
        let _ = writeln!(text, "next: {next}");
    }
    for remedy in items(&document["remedies"]) {
        let _ = writeln!(text, "help: {}", string(&remedy["text"]));
        if let Some(command) = command(job, &remedy["change"]) {
            let _ = writeln!(text, "      {command}");
        }
    }
    text
}

/// The command that makes a change.
fn command(job: &str, change: &Value) -> Option<String> {
    let order: ReconfigureOrder = serde_json::from_value(change.clone()).ok()?;
    if let Some(balance) = &order.balance {
        let stage = balance.stage.map_or_else(String::new, |stage| format!(" --stage {stage}"));
        return Some(format!("anabranch balance {job}{stage}"));
    }
    if let Some(tasks) = order.parallelism {
        let stage = order.stage.map_or_else(String::new, |stage| format!(" --stage {stage}"));
        return Some(format!("anabranch rescale {job} {tasks}{stage}"));
    }
    let options =
        order.options.iter().map(|option| format!(" --option '{}.{}={}'", option.table, option.name, option.value));
    let settings =
        order.settings.iter().filter_map(|(name, value)| Some(format!(" --set '{name}={}'", value.as_ref()?)));
    let given: String = options.chain(settings).collect();
    (!given.is_empty()).then(|| format!("anabranch alter {job} FILE{given}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_chain_ends_with_the_cause_and_what_to_do() {
        let document = json!({
            "verdict": "silent-partition", "text": "partition 'a/1' is silent", "next": { "text": "a window ends at 10:00" },
            "chain": [{ "name": "sink", "text": "waits for rows", "cause": false }, { "name": "partition a/1", "text": "has had no row", "cause": true }],
            "remedies": [{ "text": "let it hold nothing back", "change": { "options": [{ "table": "a", "name": "scan.idle-timeout", "value": "10 s" }] } }],
        });
        assert_eq!(
            text("j", &document),
            "silent-partition: partition 'a/1' is silent\n  sink: waits for rows\n    partition a/1: has had no row  <- the cause\n\
             next: a window ends at 10:00\nhelp: let it hold nothing back\n      anabranch alter j FILE --option 'a.scan.idle-timeout=10 s'\n"
        );
        assert!(text("j", &json!({ "verdict": "well", "text": "" })).starts_with("well: j gives results"));
    }
}
