//! The state of `anabranch osched` on a terminal: targets, policies with their goals, and tasks, the most
//! urgent first.

use anabranch_model::visible;
use anabranch_osched::status::{PolicyStatus, Status, TaskStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use crate::view::text::{count, grouped};

/// Notices that are shown at a time.
const NOTICES: usize = 3;

/// A column of the table of tasks: its heading, its width, its text.
type TaskColumn = (&'static str, u16, fn(&TaskStatus) -> String);

/// The first columns are kept where the terminal is narrow.
const COLUMNS: [TaskColumn; 9] = [
    ("priority", 9, |task| task.priority.map_or_else(dash, number)),
    ("written", 10, |task| task.written.clone().unwrap_or_else(dash)),
    ("queue", 8, |task| metric(task, "queue_rows", count)),
    ("rows/s", 8, |task| metric(task, "in_rate", count)),
    ("core", 6, |task| metric(task, "cpu_share", share)),
    ("waits", 6, |task| metric(task, "wait_share", share)),
    ("cost", 9, |task| metric(task, "cost_ns", time)),
    ("age", 9, |task| metric(task, "age_ms", |ms| time(ms * 1e6))),
    ("select", 7, |task| metric(task, "selectivity", |value| format!("{value:.2}"))),
];

pub(super) fn draw(frame: &mut Frame<'_>, title: &str, status: &Status) {
    let targets: Vec<Line<'_>> = status.targets.iter().map(|target| Line::from(target_line(target))).collect();
    let policies: Vec<Line<'_>> = status.policies.iter().map(|policy| Line::from(policy_line(policy))).collect();
    let newest = status.notices.len().saturating_sub(NOTICES);
    let notices: Vec<Line<'_>> =
        status.notices[newest..].iter().map(|notice| Line::from(visible(notice).into_owned())).collect();
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let areas = Layout::vertical([
        Constraint::Length(lines(targets.len() + policies.len() + 3)),
        Constraint::Length(lines(notices.len())),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .split(frame.area());
    let mut top = vec![Line::from(summary(status))];
    top.extend(targets.into_iter().chain(policies));
    let block = Block::new().borders(Borders::ALL).title(format!(" {} ", visible(title)));
    frame.render_widget(Paragraph::new(top).block(block), areas[0]);
    frame.render_widget(Paragraph::new(notices).style(Style::new().fg(Color::Yellow)), areas[1]);
    draw_tasks(frame, areas[2], &status.tasks);
    let keys = Style::new().add_modifier(Modifier::DIM);
    frame.render_widget(Paragraph::new(" q: end, and restore everything   p: pause or resume").style(keys), areas[3]);
}

fn draw_tasks(frame: &mut Frame<'_>, area: Rect, tasks: &[TaskStatus]) {
    let inner = area.width.saturating_sub(2);
    // Names get a quarter of the width, and what the columns leave free.
    let mut left = inner - inner / 4;
    let shown: Vec<TaskColumn> = COLUMNS
        .into_iter()
        .take_while(|(_, width, _)| {
            let fits = *width < left;
            left = left.saturating_sub(width + 1);
            fits
        })
        .collect();
    let rows = ordered(tasks).into_iter().map(|task| {
        let name = visible(&format!("{} {} {}", task.target, task.query, task.task)).into_owned();
        let cells = shown.iter().map(|(.., text)| Cell::from(Line::from(text(task)).right_aligned()));
        Row::new(std::iter::once(Cell::from(name)).chain(cells))
    });
    let headings = shown.iter().map(|(heading, ..)| Cell::from(Line::from(*heading).right_aligned()));
    let header = Row::new(std::iter::once(Cell::from("task")).chain(headings));
    let widths = shown.iter().map(|(_, width, _)| Constraint::Length(*width));
    let widths = std::iter::once(Constraint::Min(10)).chain(widths);
    let table = Table::new(rows, widths).header(header.style(Style::new().add_modifier(Modifier::BOLD)));
    frame.render_widget(table.block(Block::new().borders(Borders::ALL)), area);
}

/// The same as lines of text.
pub(super) fn lines(status: &Status) -> String {
    let mut lines = vec![summary(status)];
    lines.extend(status.targets.iter().map(target_line));
    lines.extend(status.policies.iter().map(policy_line));
    lines.extend(ordered(&status.tasks).into_iter().map(|task| {
        let columns: Vec<String> = COLUMNS.iter().map(|(name, _, text)| format!("{name} {}", text(task))).collect();
        format!("  {} {} {}: {}", task.target, task.query, task.task, columns.join(", "))
    }));
    lines.iter().map(|line| visible(line).into_owned() + "\n").collect()
}

/// The most urgent first.
fn ordered(tasks: &[TaskStatus]) -> Vec<&TaskStatus> {
    let mut tasks: Vec<&TaskStatus> = tasks.iter().collect();
    let urgency = |task: &TaskStatus| task.priority.unwrap_or(f64::NEG_INFINITY);
    tasks.sort_by(|a, b| urgency(b).total_cmp(&urgency(a)));
    tasks
}

fn summary(status: &Status) -> String {
    let state = match (status.paused, status.dry_run) {
        (true, _) => "paused",
        (false, true) => "writes nothing",
        (false, false) => "decides",
    };
    let pressure = status.pressure.map_or_else(dash, share);
    let (writes, failed) = (grouped(status.writes), grouped(status.failed_writes));
    let own = number(status.cpu_ms / 1e3);
    format!(
        "{state}   threads wait for cores {pressure} of the time   {writes} writes, {failed} failed   own time {own} s"
    )
}

fn target_line(target: &anabranch_osched::status::TargetStatus) -> String {
    let (name, engine) = (&target.name, &target.engine);
    match &target.failure {
        Some(failure) => format!("target {name} ({engine}): {failure}"),
        None => format!(
            "target {name} ({engine}): {} queries, {} operators, {} tasks, {} threads; read in {}",
            target.queries,
            target.operators,
            target.tasks,
            target.threads,
            time(target.read_ms * 1e6)
        ),
    }
}

fn policy_line(policy: &PolicyStatus) -> String {
    let state = match (&policy.failure, policy.active) {
        (Some(failure), _) => failure.clone(),
        (None, true) => format!("{} decisions, {} writes", grouped(policy.decisions), grouped(policy.writes)),
        (None, false) => "waits for its condition".to_owned(),
    };
    let goal = policy.goal.as_ref().zip(policy.goal_now).map_or_else(String::new, |(goal, now)| {
        let before = policy.goal_before.map_or_else(String::new, |before| format!(", {} without", number(before)));
        format!("; {goal} {}{before}", number(now))
    });
    format!("policy {}: {} by {}; {state}{goal}", policy.name, policy.priority, policy.translator)
}

fn metric(task: &TaskStatus, name: &str, text: impl Fn(f64) -> String) -> String {
    task.metrics.get(name).copied().filter(|value| value.is_finite()).map_or_else(dash, text)
}

fn dash() -> String {
    "-".to_owned()
}

fn number(value: f64) -> String {
    // Zero without a sign.
    let value = value + 0.0;
    match value.abs() {
        0.0..100.0 => format!("{value:.2}"),
        _ => count(value),
    }
}

fn share(value: f64) -> String {
    format!("{:.0} %", value * 100.0)
}

/// Of nanoseconds.
fn time(ns: f64) -> String {
    match ns {
        0.0..1e6 => format!("{:.0} µs", ns / 1e3),
        0.0..1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_osched::status::TargetStatus;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn status() -> Status {
        let task = |name: &str, priority: f64| TaskStatus {
            target: "ads".to_owned(),
            query: "q".to_owned(),
            task: name.to_owned(),
            metrics: [("queue_rows", 1_500.0), ("cost_ns", 42_000.0)].into(),
            priority: Some(priority),
            written: Some("nice -5".to_owned()),
        };
        let policy = PolicyStatus {
            name: "p".to_owned(),
            priority: "drain".to_owned(),
            translator: "nice".to_owned(),
            active: true,
            goal: Some("largest age, ms".to_owned()),
            goal_now: Some(12.0),
            goal_before: Some(340.0),
            ..PolicyStatus::default()
        };
        let target = TargetStatus { name: "ads".to_owned(), engine: "flink".to_owned(), ..TargetStatus::default() };
        let tasks = vec![task("low", 1.0), task("high", 2.0)];
        Status { targets: vec![target], policies: vec![policy], tasks, ..Status::default() }
    }

    fn screen(width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| draw(frame, "osched.toml", &status())).expect("drawn");
        terminal.backend().to_string()
    }

    #[test]
    fn the_most_urgent_task_is_first_and_narrow_screens_keep_what_was_written() {
        for (width, height) in [(80, 24), (120, 40)] {
            let screen = screen(width, height);
            let place = |text: &str| screen.find(text).unwrap_or_else(|| panic!("{text} in\n{screen}"));
            assert!(place("high") < place("low"));
            assert!(place("nice -5") > 0 && place("1.50 k") > 0);
            assert_eq!(screen.contains("select"), width == 120, "{screen}");
        }
    }

    #[test]
    fn lines_have_all_columns_and_the_goal() {
        let text = lines(&status());
        assert!(text.contains("largest age, ms 12.00, 340 without"), "{text}");
        assert!(text.contains("cost 42 µs") && text.contains("age -"), "{text}");
    }
}
