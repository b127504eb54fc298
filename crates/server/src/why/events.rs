//! Reasons in the state of the whole job, in its checkpoints, in its input and in its output.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_dataflow::{Exchange, OperatorSpec, Port, SourceSpec, Stage, Visibility};
use anabranch_model::{EventTime, Incarnation, Notice, StageId, TaskMetrics};

use super::{Finding, Look, Next, Verdict, has_word};
use crate::http::JobState;

/// The next checkpoint is overdue if the last one is older than the sum of this many intervals, this many
/// durations of the last checkpoint, and [`GRACE`].
const OVERDUE_FACTOR: u32 = 3;
/// Tolerates delays that are long only in comparison with a short interval.
const GRACE: Duration = Duration::from_secs(10);

// What is wrong with the records or rows that are left out, and what to check.
const MALFORMED: &str = "cannot be decoded: check the table's format and its columns";
const UNTIMED: &str = "have NULL as event time and belong to no window: check the column of WATERMARK FOR";
const LATE: &str = "are late and count in no result: allow for more disorder in WATERMARK FOR, or check event times";

/// The job does not run, or has tasks that are not ready for rows.
pub(super) fn of_job(look: &Look<'_>) -> Option<Finding> {
    let status = &look.reading.status;
    let over = |text: &str| Some(Finding::new(Verdict::Over, text));
    match look.reading.state() {
        JobState::Running => unprepared(look),
        JobState::Failed => {
            let text = match status.failure.as_deref() {
                Some(failure) => format!("the job has failed: {failure}"),
                None => "the job has failed for an unknown reason".to_owned(),
            };
            let found = Finding::new(Verdict::Failed, text);
            Some(found.advice("fix the cause, and submit the job again: it resumes from its newest checkpoint"))
        }
        JobState::Ended => over("the job has read all of its input and has ended"),
        JobState::Stopped => over("the job is stopped; the next start resumes it"),
        JobState::Cancelled => over("the job was cancelled; the next start resumes it from its newest checkpoint"),
        JobState::Stopping => over("the job is stopping"),
        JobState::Waiting => {
            let what = status.waits_for.as_deref().unwrap_or("slots");
            let found = Finding::new(Verdict::Waiting, format!("the job waits for workers: {what}"));
            Some(found.advice("start workers (anabranch worker); or stop the job, and start it with fewer tasks"))
        }
        JobState::Changing => Some(Finding::new(Verdict::Starting, "the job switches to its new version")),
        state => Some(begins(look, state)),
    }
}

fn begins(look: &Look<'_>, state: JobState) -> Finding {
    // The first tasks of a job have no state: in this phase they open their tables.
    let restores = state == JobState::Restoring && look.reading.status.incarnation > Incarnation(1);
    let mut found = match unprepared(look) {
        None => Finding::new(Verdict::Starting, "the job begins"),
        Some(found) => found,
    };
    if restores {
        found.text = "the job restores its state".to_owned();
    }
    if let Some(why) = look.reading.failures.last() {
        found.text += &format!(", after a failure: {}", why.failure);
    }
    found
}

/// A task is not ready for rows. It may already read the static tables of its joins.
fn unprepared(look: &Look<'_>) -> Option<Finding> {
    let task = look.tasks().find(|task| !task.is_prepared)?;
    let is_side = |exchange: &&Exchange| exchange.to == task.task.stage && matches!(exchange.port, Port::Side(_));
    let side = look.plan.exchanges.iter().find(is_side).map(|exchange| exchange.from);
    let waits = match side.map(|side| (source_of(look, side), look.name(side))) {
        Some((Some(source), _)) => format!("waits until the static table '{}' is fully read", source.table),
        Some((None, stage)) => format!("waits until all rows of '{stage}' are read"),
        None => "is not ready yet".to_owned(),
    };
    let text = format!("the job begins: '{}' {waits}", task.stage_name);
    Some(Finding::new(Verdict::Starting, text).at(task.task.stage))
}

/// The next checkpoint is overdue.
pub(super) fn checkpoint_waits(look: &Look<'_>) -> Option<Finding> {
    let options = look.plan.options.checkpoints.as_ref()?;
    let status = &look.reading.status;
    let last = status.last_checkpoint?;
    let bound = options.interval * OVERDUE_FACTOR + last.took * OVERDUE_FACTOR + GRACE;
    let silent = Some(look.reading.at.after(last.at)).filter(|since| *since > bound)?;
    let open = |task: &&TaskMetrics| !task.is_source || is_open_source(task);
    let behind = look.tasks().filter(open).min_by_key(|task| task.epoch)?;
    let foremost = look.tasks().map(|task| task.epoch).max()?;
    let text = format!(
        "no checkpoint has completed for {} s, though one is due every {} s",
        silent.as_secs(),
        options.interval.as_secs_f64()
    );
    let found = |more: String| Finding::new(Verdict::CheckpointWaits, text + &more);
    let place = look.reading.checkpoints.as_deref().unwrap_or_default();
    let check_storage = match place {
        "" => "check the checkpoint storage".to_owned(),
        place => format!("check the checkpoint storage: {place}"),
    };
    let is_about_storage =
        |text: &str| has_word(text, place) || text.contains("the job's log") || text.contains("job's checkpoints");
    if let Some(notice) = look.notice(is_about_storage) {
        return Some(found(format!(": {}", notice.text)).advice(check_storage));
    }
    if behind.epoch < foremost {
        let more = format!(": '{}' has ended epoch {}, and others {foremost}", behind.stage_name, behind.epoch);
        return Some(found(more).at(behind.task.stage).advice("look at what this stage waits for"));
    }
    Some(found(String::new()).advice(check_storage))
}

/// A sink writes no rows, and a notice about its table says why.
pub(super) fn not_taken(look: &Look<'_>) -> Option<Finding> {
    let writes = |stage: StageId| look.tasks_of(stage).any(|task| look.rate(task).rows_out > 0.0);
    let of_stage = |stage: &Stage| {
        let sink = stage.sink.as_ref().filter(|_| !writes(stage.id))?;
        let notice = look.notice_of(&sink.table, &sink.connector, &["topic", "path", "table-name"])?;
        // Other notices, such as the one about an option without effect, are no reason.
        if !["answer", " fail"].iter().any(|word| notice.text.contains(word)) {
            return None;
        }
        let text = format!("'{}' writes no rows: {}", stage.name, notice.text);
        let found = Finding::new(Verdict::NoOutput, text).at(stage.id);
        Some(found.behind(format!("table {}", sink.table), "takes no rows"))
    };
    look.plan.stages.iter().find_map(of_stage)
}

/// For each stage: its first task, and the rows in and the rows out of all its tasks.
fn stages<'a>(look: &Look<'a>) -> BTreeMap<StageId, (&'a TaskMetrics, u64, u64)> {
    let mut stages = BTreeMap::new();
    for task in look.tasks() {
        let (_, rows_in, rows_out) = stages.entry(task.task.stage).or_insert((task, 0, 0));
        *rows_in += task.rows_in;
        *rows_out += task.rows_out;
    }
    stages
}

/// A source that has not read all of its input.
fn is_open_source(task: &TaskMetrics) -> bool {
    task.is_source && task.watermark != EventTime::MAX
}

/// An open source has read no row since it began. `all`: only if no open source has.
pub(super) fn nothing_read(look: &Look<'_>, all: bool) -> Option<Finding> {
    let stages = stages(look);
    let open = stages.into_values().filter(|(task, ..)| is_open_source(task));
    let (empty, others): (Vec<_>, Vec<_>) = open.partition(|(_, rows_in, _)| *rows_in == 0);
    if all && !others.is_empty() {
        return None;
    }
    let (source, ..) = empty.first()?;
    if look.is_young() {
        return None;
    }
    let stage = source.task.stage;
    let (name, table) = (&source.stage_name, table_of(look, stage));
    let lag = look.tasks_of(stage).map(|task| task.lag_rows).sum::<Option<u64>>();
    let text = match (lag, notice_of(look, stage)) {
        (_, Some(notice)) => format!("no row has been read by '{name}': {}", notice.text),
        (Some(0), None) => format!(
            "no row has been read by '{name}': its table has no rows after the place where reading began; check where that is"
        ),
        (_, None) => {
            format!("no row has been read by '{name}': check that its table has records, and where reading begins")
        }
    };
    let found = Finding::new(Verdict::NoInput, text).at(stage);
    Some(found.behind(format!("table {table}"), "gives no rows").advice(format!(
        "check the options of table {table}: its topic or path, and where reading begins (such as 'scan.startup.mode')"
    )))
}

/// No open source reads rows any more.
pub(super) fn no_longer_read(look: &Look<'_>) -> Option<Finding> {
    let sources = || look.tasks().filter(|task| is_open_source(task));
    let is_idle = |task: &TaskMetrics| {
        let rate = look.rate(task);
        rate.rows_in == 0.0 && rate.shares.is_some()
    };
    let first = sources().next()?;
    if look.is_young() || !sources().all(is_idle) {
        return None;
    }
    let waits = sources().find(|task| task.lag_rows.is_some_and(|rows| rows > 0));
    let told = sources().find_map(|task| Some((task, notice_of(look, task.task.stage)?)));
    let (source, verdict, text) = match (told, waits) {
        (Some((task, notice)), _) => {
            (task, Verdict::NoInput, format!("'{}' reads no rows: {}", task.stage_name, notice.text))
        }
        (None, Some(task)) => {
            let rows = task.lag_rows.unwrap_or_default();
            let text = format!("'{}' reads no rows, though {rows} rows wait to be read", task.stage_name);
            (task, Verdict::NoInput, text)
        }
        (None, None) => (first, Verdict::Idle, format!("no new rows come from '{}'", first.stage_name)),
    };
    let stage = source.task.stage;
    let table = table_of(look, stage);
    Some(Finding::new(verdict, text).at(stage).behind(format!("table {table}"), "gives no rows"))
}

fn source_of<'a>(look: &Look<'a>, stage: StageId) -> Option<&'a SourceSpec> {
    look.stage(stage)?.source.as_ref()
}

fn table_of<'a>(look: &Look<'a>, stage: StageId) -> &'a str {
    source_of(look, stage).map_or("", |source| source.table.as_str())
}

/// The newest notice about the table that a stage reads.
fn notice_of<'a>(look: &Look<'a>, stage: StageId) -> Option<&'a Notice> {
    let source = source_of(look, stage)?;
    look.notice_of(&source.table, &source.connector, &["topic", "path", "properties.bootstrap.servers"])
}

fn undecodable(look: &Look<'_>, stage: StageId, malformed: u64, read: u64) -> Finding {
    let text = format!("{malformed} of {read} records of '{}' {MALFORMED}", look.name(stage));
    let table = table_of(look, stage);
    Finding::new(Verdict::Malformed, text)
        .at(stage)
        .behind(format!("table {table}"), "has records of another form")
        .advice(format!("'on-malformed' = 'dead-letter' for table {table} keeps such records in a table of their own"))
}

/// Of all rows that the job has read, at least half are left out for one reason.
pub(super) fn dropped(look: &Look<'_>) -> Option<Finding> {
    let sum = |count: fn(&TaskMetrics) -> u64| look.tasks().map(count).sum::<u64>();
    let read = sum(|task| if task.is_source { task.rows_in } else { 0 });
    let most = |count: fn(&TaskMetrics) -> u64| look.tasks().max_by_key(|task| count(task)).map(|task| task.task.stage);
    let (late, untimed) = (sum(|task| task.late_rows), sum(|task| task.rows_without_event_time));
    let malformed = sum(|task| task.malformed_rows);
    if malformed > 0
        && malformed * 2 >= read
        && let Some(stage) = most(|task| task.malformed_rows)
    {
        return Some(undecodable(look, stage, malformed, read.max(malformed)));
    }
    if read == 0 {
        return None;
    }
    if untimed * 2 >= read {
        let found = Finding::new(Verdict::WithoutEventTime, format!("{untimed} of {read} rows {UNTIMED}"));
        return most(|task| task.rows_without_event_time).map(|stage| found.at(stage));
    }
    if late * 2 < read {
        return None;
    }
    let found = Finding::new(Verdict::Late, format!("{late} of {read} rows {LATE}"));
    let advice = "give WATERMARK FOR a larger bound: change the text of the job, with --allow-late";
    most(|task| task.late_rows).map(|stage| found.at(stage).advice(advice))
}

/// Of the rows that a stage takes now, at least half are left out for one reason.
pub(super) fn dropped_now(look: &Look<'_>) -> Option<Finding> {
    let sums = |stage: StageId| {
        look.tasks_of(stage).map(|task| look.rate(task)).fold([0.0; 4], |[read, late, malformed, untimed], rate| {
            [read + rate.rows_in, late + rate.late, malformed + rate.malformed, untimed + rate.untimed]
        })
    };
    let of_stage = |stage: &Stage| {
        let [read, late, malformed, untimed] = sums(stage.id);
        let name = &stage.name;
        let losses = [
            (Verdict::Malformed, malformed, "records", MALFORMED),
            (Verdict::WithoutEventTime, untimed, "rows", UNTIMED),
            (Verdict::Late, late, "rows", LATE),
        ];
        let most = losses.into_iter().find(|(_, lost, ..)| *lost > 0.0 && *lost * 2.0 >= read);
        most.map(|(verdict, lost, unit, problem)| {
            let percent = (lost / read.max(lost) * 100.0).round();
            Finding::new(verdict, format!("{percent} % of the {unit} of '{name}' {problem}")).at(stage.id)
        })
    };
    look.plan.stages.iter().find_map(of_stage)
}

/// No row meets the conditions of a stage. Without windows, a stage emits all its results by the end of each
/// epoch. So a stage that has ended more than one epoch and emitted no row has no result.
pub(super) fn filtered(look: &Look<'_>) -> Option<Finding> {
    let drops = |(task, rows_in, rows_out): &(&TaskMetrics, u64, u64)| {
        *rows_in > 0 && *rows_out == 0 && task.epoch > 1 && !task.keeps_windows
    };
    let (task, rows_in, _) = stages(look).into_values().find(drops)?;
    let (name, stage) = (&task.stage_name, task.task.stage);
    let text = format!(
        "'{name}' has taken {rows_in} rows and passed none on: so far no row meets the query's conditions and joins"
    );
    let conditions = look.stage(stage).map(|stage| conditions(look, stage)).unwrap_or_default();
    let found = Finding::new(Verdict::AllDropped, text).at(stage);
    let found = match conditions.is_empty() {
        true => found,
        false => found.behind("condition", conditions.join("; ")),
    };
    Some(found.advice("check the conditions of this part of the query: SELECT from its table shows which rows come"))
}

/// The conditions of a stage. A column has its name, or its number if the name is not known.
fn conditions(look: &Look<'_>, stage: &Stage) -> Vec<String> {
    let mut names = columns_of(look, stage).unwrap_or_default();
    let mut found = Vec::new();
    for operator in &stage.operators {
        match operator {
            OperatorSpec::Filter { predicate, keep } => {
                found.push(named(&predicate.to_string(), &names));
                if let Some(keep) = keep {
                    names = keep.iter().filter_map(|column| names.get(*column).cloned()).collect();
                }
            }
            OperatorSpec::Project { columns } => names = columns.iter().map(|column| column.name.clone()).collect(),
            _ => names.clear(),
        }
    }
    found
}

/// The names of the input columns of a stage's first operator.
fn columns_of(look: &Look<'_>, stage: &Stage) -> Option<Vec<String>> {
    if let Some(source) = &stage.source {
        if !source.columns.is_empty() {
            return Some(source.columns.iter().map(|column| column.name.clone()).collect());
        }
        let decoded = source.decoded().ok()?;
        return Some(decoded.fields().iter().map(|field| field.name().clone()).collect());
    }
    let exchange =
        look.plan.exchanges.iter().find(|exchange| exchange.to == stage.id && exchange.port == Port::Main)?;
    let sender = look.stage(exchange.from)?;
    Some(sender.schema.fields().iter().map(|field| field.name().clone()).collect())
}

/// Replaces the number of each column in a condition by its name, if it is known.
fn named(condition: &str, names: &[String]) -> String {
    let mut parts = condition.split('#');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let is_text = text.matches('\'').count() % 2 == 1;
        let column = part[..digits].parse::<usize>().ok().filter(|_| !is_text);
        let name = column.and_then(|column| names.get(column));
        match name {
            Some(name) => text.push_str(name),
            None => text.push_str(&format!("#{}", &part[..digits])),
        }
        text.push_str(&part[digits..]);
    }
    text
}

/// Results are written, and readers of the table see them after the first checkpoint.
pub(super) fn invisible(look: &Look<'_>) -> Option<Finding> {
    let options = look.plan.options.checkpoints.as_ref()?;
    if look.reading.status.last_checkpoint.is_some() {
        return None;
    }
    let has_written = |stage: &Stage| look.tasks_of(stage.id).any(|task| task.rows_out > 0);
    let waits = |stage: &Stage| stage.sink.as_ref().is_some_and(|sink| sink.visibility == Visibility::ByCheckpoint);
    let stage = look.plan.stages.iter().find(|stage| waits(stage) && has_written(stage))?;
    let interval = options.interval.as_secs_f64();
    let text = format!(
        "'{}' has written results: they can be seen when the next checkpoint is complete; one is taken every {interval} s",
        stage.name
    );
    let due = look.reading.started_ms.saturating_add(i64::try_from(options.interval.as_millis()).unwrap_or(i64::MAX));
    let at_ms = due.max(look.reading.wall_ms);
    let mut found = Finding::new(Verdict::SinkWaitsForCheckpoint, text).at(stage.id);
    found.next = Some(Next { at_ms, text: "the next checkpoint".to_owned() });
    let settings = [("checkpoint-interval".to_owned(), Some("1 s".to_owned()))].into();
    let order = crate::http::ReconfigureOrder { settings, ..crate::http::ReconfigureOrder::default() };
    Some(found.change("take a checkpoint every second", order))
}
