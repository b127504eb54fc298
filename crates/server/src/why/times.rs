//! What holds event time back, and when windows end.

use anabranch_dataflow::Stage;
use anabranch_model::{
    EventTime, HELD_BACK_AFTER, HeldBack, Moment, Span, StageId, TaskMetrics, held_back as slowest_partition,
};

use super::{Finding, Look, Next, Verdict};

/// The partition that holds event time back.
pub(super) fn held_back(look: &Look<'_>) -> Option<Finding> {
    slowest(look).map(|held| finding(look, &held))
}

/// The same, for a job with results: only a partition that stands still explains anything.
pub(super) fn standing(look: &Look<'_>) -> Option<Finding> {
    slowest(look).filter(|held| held.stalled >= HELD_BACK_AFTER).map(|held| finding(look, &held))
}

/// Partitions are compared with those whose rows meet theirs in a stage that waits for event time.
fn slowest(look: &Look<'_>) -> Option<HeldBack> {
    let waits = |stage: &&Stage| look.tasks_of(stage.id).any(|task| task.keeps_windows);
    look.plan.stages.iter().filter(waits).find_map(|stage| {
        let before = look.before(stage.id);
        let tasks = look.tasks().filter(|task| before.contains(&task.task.stage) && task.progress.is_some());
        slowest_partition(&tasks.cloned().collect::<Vec<TaskMetrics>>())
    })
}

fn finding(look: &Look<'_>, held: &HeldBack) -> Finding {
    let stage = source_of(look, &held.table);
    let silent = held.silent.is_none_or(|silent| silent >= HELD_BACK_AFTER);
    let text = match held.silent {
        None => "has had no row".to_owned(),
        Some(silent) if silent >= HELD_BACK_AFTER => format!("has had no row for {} s", silent.as_secs()),
        Some(_) => "is behind the others".to_owned(),
    };
    let mut found = Finding::new(Verdict::SilentPartition, held.to_string());
    found.stage = stage;
    found.next = next_window(look).map(|(_, next)| next);
    let found = found.behind(format!("partition {}", held.partition), text);
    let is_set = stage.and_then(|stage| look.stage(stage)?.source.as_ref()?.watermark.as_ref()?.idle_timeout_ms);
    match (silent, is_set) {
        (true, None) => found.change(
            format!("let partitions of table {} that are silent for 10 s hold nothing back", held.table),
            look.table_option(&held.table, "scan.idle-timeout", "10 s"),
        ),
        _ => found.advice("check why this partition is behind: its writers, and the event times of its rows"),
    }
}

fn source_of(look: &Look<'_>, table: &str) -> Option<StageId> {
    let reads = |stage: &&Stage| stage.source.as_ref().is_some_and(|source| source.table == table);
    look.plan.stages.iter().find(reads).map(|stage| stage.id)
}

/// A source that is far ahead of the others of its group waits for them.
pub(super) fn aligned(look: &Look<'_>) -> Option<Finding> {
    let alignment = |stage: StageId| look.stage(stage)?.source.as_ref()?.watermark.as_ref()?.alignment.as_ref();
    let reached = |task: &TaskMetrics| task.progress.as_ref()?.partitions.iter().map(|of| of.watermark).max();
    for ahead in look.tasks().filter(|task| task.is_source) {
        let (Some(of), Some(own)) = (alignment(ahead.task.stage), reached(ahead)) else { continue };
        let of_group = |task: &&TaskMetrics| alignment(task.task.stage).is_some_and(|other| other.group == of.group);
        let open = |task: &&TaskMetrics| task.watermark != EventTime::MAX;
        let Some(last) = look.tasks().filter(of_group).filter(open).min_by_key(|task| task.watermark) else { continue };
        let rate = look.rate(ahead);
        let waits = rate.rows_in == 0.0 && rate.shares.is_some() && ahead.lag_rows != Some(0);
        let drift = own.0.saturating_sub(last.watermark.0);
        if waits && last.watermark != EventTime::MIN && drift >= of.max_drift_ms {
            let text = format!(
                "'{}' waits: it is {drift} ms of event time ahead of '{}', and alignment group '{}' allows {} ms",
                ahead.stage_name, last.stage_name, of.group, of.max_drift_ms
            );
            let found = Finding::new(Verdict::HeldBackByAlignment, text).at(ahead.task.stage);
            let found = found.behind(last.stage_name.clone(), "is behind in event time");
            return Some(
                found.advice("check why the other source is behind, or raise 'scan.watermark.alignment.max-drift'"),
            );
        }
    }
    None
}

/// The windows that end first, and when.
pub(super) fn next_window(look: &Look<'_>) -> Option<(StageId, Next)> {
    let next = |stage: &Stage| {
        let ends = stage.window_ends()?;
        let reached = look.tasks_of(stage.id).map(|task| task.watermark).min()?;
        if matches!(reached, EventTime::MIN | EventTime::MAX) {
            return None;
        }
        let at = EventTime(reached.0.saturating_add(ends.until_next_ms(reached)));
        let text = format!("'{}' gives results when event time passes {}", stage.name, Moment(at));
        Some((stage.id, Next { at_ms: at.0, text }))
    };
    look.plan.stages.iter().filter_map(next).min_by_key(|(_, next)| next.at_ms)
}

/// Event time has not reached the end of the first window.
pub(super) fn waiting(look: &Look<'_>) -> Option<Finding> {
    if !look.tasks().any(|task| task.keeps_windows) {
        return None;
    }
    let running = || look.tasks().filter(|task| task.watermark != EventTime::MAX && task.progress.is_some());
    let partitions = || running().filter_map(|task| task.progress.as_ref()).flat_map(|of| &of.partitions);
    let first = running().next()?;
    let stage = next_window(look).map_or(first.task.stage, |(stage, _)| stage);
    let open = |text: String| Some(Finding::new(Verdict::WindowOpen, text).at(stage));
    let Some(last) = partitions().map(|partition| partition.watermark).max() else {
        return open("the tables have no open partition".into());
    };
    if last == EventTime::MIN {
        return open(
            "no event time has come: final results come when all tables have been read, and results of windows when rows with \
             an event time have come"
                .into(),
        );
    }
    let silent = partitions().filter_map(|partition| partition.rows_at).max().map(|rows| first.at.after(rows));
    let silent = silent.filter(|silent| *silent >= HELD_BACK_AFTER);
    let silent = silent.map_or_else(String::new, |silent| format!("; no row has come for {}", Span(silent)));
    let mut found = open(format!(
        "event time has reached {}{silent}: a window's results come when rows have come that are beyond its end by more than \
         the bound of WATERMARK FOR",
        Moment(last)
    ))?;
    found.next = next_window(look).map(|(_, next)| next);
    Some(found)
}
