//! The job on a terminal: what it does, where its stages' time goes, and its latest results.

use std::time::Duration;

use anabranch_model::LatencySummary;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::model::{JobView, Shares, StageView};
use super::text::{bytes, count, grouped, micros, millis, percent};

/// Everything that is on the screen.
#[derive(Debug)]
pub(crate) struct Screen<'a> {
    /// Name of the job or its file.
    pub(crate) title: &'a str,
    /// Time since the start.
    pub(crate) elapsed: Duration,
    /// The job.
    pub(crate) view: &'a JobView,
    /// The latest results, oldest first.
    pub(crate) results: &'a [String],
    /// Whether the job was asked to stop.
    pub(crate) stopping: bool,
}

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    // Stages need a border, a heading and a line each; results take the rest, and at least a glimpse.
    let stages = u16::try_from(screen.view.stages.len()).unwrap_or(u16::MAX).saturating_add(3);
    let areas =
        Layout::vertical([Constraint::Length(4), Constraint::Max(stages), Constraint::Min(3), Constraint::Length(1)])
            .split(frame.area());
    draw_summary(frame, areas[0], screen);
    draw_stages(frame, areas[1], &screen.view.stages);
    draw_results(frame, areas[2], screen);
    let keys =
        if screen.stopping { "stopping at the end of the epoch; again to leave at once" } else { "q or Ctrl-C: stop" };
    frame.render_widget(Paragraph::new(keys).style(dim()), areas[3]);
}

fn draw_summary(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let view = screen.view;
    let lag = view.lag_ms.map_or_else(|| "-".to_owned(), millis);
    let latency = |of: &LatencySummary| match of.rows {
        0 => "-".to_owned(),
        _ => format!("p50 {} p99 {}", micros(of.p50_us), micros(of.p99_us)),
    };
    let loss = |n: u64| if n == 0 { Style::new() } else { Style::new().fg(Color::Yellow) };
    let lines = vec![
        Line::from(vec![
            strong(format!("{} events/s", count(view.events_per_s))),
            Span::raw(format!("  {}/s   ", bytes(view.bytes_per_s as u64))),
            Span::raw(format!(
                "{} events   {} results   epoch {}",
                grouped(view.events),
                grouped(view.results),
                view.epoch
            )),
        ]),
        Line::from(vec![
            Span::raw("rows after "),
            strong(latency(&view.row_latency)),
            Span::raw("   results after "),
            strong(latency(&view.result_latency)),
            Span::raw("   event time "),
            strong(lag),
            Span::raw(" behind   "),
            Span::styled(format!("{} late", grouped(view.late)), loss(view.late)),
            Span::raw("   "),
            Span::styled(format!("{} malformed", grouped(view.malformed)), loss(view.malformed)),
        ]),
    ];
    let block = Block::new()
        .borders(Borders::ALL)
        .title(format!(" {} ", screen.title))
        .title_top(Line::from(format!(" {} ", clock(screen.elapsed))).alignment(Alignment::Right));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_stages(frame: &mut Frame<'_>, area: Rect, stages: &[StageView]) {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let header = ["tasks", "rows in/s", "rows out/s", "busy", "blocked", "idle", "queued"].map(|h| right(h.to_owned()));
    let header = Row::new(std::iter::once(Cell::from("stage")).chain(header)).style(dim());
    let rows = stages.iter().map(|stage| {
        let share = |of: fn(&Shares) -> f64| stage.shares.as_ref().map_or_else(|| "-".to_owned(), |s| percent(of(s)));
        Row::new([
            Cell::from(format!("{} {}", stage.id.0, stage.name)),
            right(stage.tasks.to_string()),
            right(count(stage.rows_in_per_s)),
            right(count(stage.rows_out_per_s)),
            right(share(|s| s.busy)).style(heat(stage.shares.map_or(0.0, |s| s.busy))),
            right(share(|s| s.backpressured)).style(heat(stage.shares.map_or(0.0, |s| s.backpressured))),
            right(share(|s| s.idle)),
            right(bytes(stage.queue_bytes)),
        ])
    });
    let widths = [
        Constraint::Min(16),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(9),
    ];
    let block = Block::new().borders(Borders::ALL).title(" stages ");
    frame.render_widget(Table::new(rows, widths).header(header).block(block), area);
}

/// The end of the results, as much as there is room for.
fn draw_results(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let block = Block::new().borders(Borders::ALL).title(" latest results ");
    let room = usize::from(block.inner(area).height);
    let first = screen.results.len().saturating_sub(room);
    let lines: Vec<Line<'_>> = if screen.results.is_empty() {
        vec![Line::styled("none yet: a window's results come when event time has passed its end", dim())]
    } else {
        screen.results[first..].iter().map(|line| Line::raw(line.as_str())).collect()
    };
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// `1:02:03`, or `02:03` under an hour.
fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes:02}:{seconds:02}") }
}

fn strong(text: String) -> Span<'static> {
    Span::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn heat(share: f64) -> Style {
    match share {
        s if s >= 0.9 => Style::new().fg(Color::Red),
        s if s >= 0.6 => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_model::StageId;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn text_of(width: u16, height: u16, screen: &Screen<'_>) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("terminal");
        terminal.draw(|frame| draw(frame, screen)).expect("draw");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    fn view() -> JobView {
        JobView {
            events: 1_234_567,
            events_per_s: 100_000.0,
            bytes_per_s: 24_100_000.0,
            results: 300,
            lag_ms: Some(1010),
            row_latency: LatencySummary { rows: 300, p50_us: 1200, p99_us: 8400, p999_us: 9000, max_us: 9000 },
            result_latency: LatencySummary { rows: 300, p50_us: 1300, p99_us: 9400, p999_us: 9500, max_us: 9500 },
            late: 2,
            malformed: 0,
            epoch: 42,
            stages: vec![StageView {
                id: StageId(1),
                name: "source events".into(),
                tasks: 2,
                rows_in_per_s: 100_000.0,
                rows_out_per_s: 10.0,
                shares: Some(Shares { busy: 0.95, backpressured: 0.01, idle: 0.04 }),
                queue_bytes: 2048,
                oldest_queued_ns: 0,
            }],
        }
    }

    #[test]
    fn shows_the_numbers_the_stages_and_the_latest_results() {
        let results: Vec<String> = (0..50).map(|i| format!("result {i}")).collect();
        let view = view();
        let screen = Screen {
            title: "ads.sql",
            elapsed: Duration::from_secs(3723),
            view: &view,
            results: &results,
            stopping: false,
        };
        let text = text_of(130, 20, &screen);
        for part in [
            " ads.sql ",
            "1:02:03",
            "100 k events/s",
            "1,234,567 events",
            "epoch 42",
            "rows after p50 1.20 ms p99 8.40 ms",
            "results after p50 1.30 ms p99 9.40 ms",
            "event time 1.01 s behind",
            "2 late",
            "0 malformed",
            "1 source events",
            " 95 %",
            "2.00 KB",
            "result 49",
            "q or Ctrl-C: stop",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
        assert!(!text.contains("result 10"), "old results scroll out:\n{text}");
        assert!(text.contains("result 41"), "the pane is full:\n{text}");
    }

    #[test]
    fn says_so_when_there_is_nothing_yet_or_the_job_is_stopping() {
        let view = JobView::default();
        let screen = Screen { title: "q", elapsed: Duration::ZERO, view: &view, results: &[], stopping: true };
        let text = text_of(80, 12, &screen);
        assert!(text.contains("none yet") && text.contains("rows after -") && text.contains("stopping"), "{text}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_fail() {
        let view = view();
        let screen =
            Screen { title: "q", elapsed: Duration::ZERO, view: &view, results: &["x".into()], stopping: false };
        for (width, height) in [(1, 1), (10, 4), (40, 7)] {
            text_of(width, height, &screen);
        }
    }
}
