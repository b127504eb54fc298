//! The job on a terminal: its state, the time of its stages, and its latest results.
//!
//! Nothing is cut off on a narrow terminal: the figures at the top wrap, and columns of the table of stages
//! are omitted, the least important first.

use std::time::Duration;

use anabranch_model::LatencySummary;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::model::{JobView, Shares, StageView};
use super::results;
use super::text::{bytes, count, grouped, micros, millis, percent};
use crate::results::PrintedTable;

/// Notices that are shown at a time, and the lines that they may take.
const NOTICES: usize = 3;

/// After this time without results the screen explains why there are none.
pub(crate) const EXPLAINED_AFTER: Duration = Duration::from_secs(3);

/// Everything that is on the screen.
#[derive(Debug)]
pub(crate) struct Screen<'a> {
    /// Name of the job or its file.
    pub(crate) title: &'a str,
    pub(crate) elapsed: Duration,
    pub(crate) view: &'a JobView,
    /// The job's notices, oldest first.
    pub(crate) notices: &'a [String],
    /// The print tables with their latest rows.
    pub(crate) results: &'a [PrintedTable],
    pub(crate) keys: &'a str,
}

pub(crate) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let width = usize::from(frame.area().width);
    let figures = wrapped(figures(screen.view), width.saturating_sub(2));
    let newest = screen.notices.len().saturating_sub(NOTICES);
    let notices: Vec<Line<'_>> = screen.notices[newest..].iter().flat_map(|text| notice(text, width)).collect();
    // Stages need a border, a heading and a line each; results take the rest, but at least a few lines.
    let heights = [lines(figures.len() + 2), lines(notices.len()), lines(screen.view.stages.len() + 3)];
    let areas = Layout::vertical([
        Constraint::Length(heights[0]),
        Constraint::Length(heights[1]),
        Constraint::Max(heights[2]),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .split(frame.area());
    let block = Block::new()
        .borders(Borders::ALL)
        .title(format!(" {} ", screen.title))
        .title_top(Line::from(format!(" {} ", clock(screen.elapsed))).alignment(Alignment::Right));
    frame.render_widget(Paragraph::new(figures).block(block), areas[0]);
    frame.render_widget(Paragraph::new(notices).style(Style::new().fg(Color::Yellow)), areas[1]);
    draw_stages(frame, areas[2], &screen.view.stages);
    results::draw(frame, areas[3], screen);
    frame.render_widget(Paragraph::new(screen.keys).style(dim()), areas[4]);
}

fn lines(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// The figures at the top, each a piece that is not broken.
fn figures(view: &JobView) -> Vec<Vec<Span<'static>>> {
    let lag = view.lag_ms.map_or_else(|| "-".to_owned(), millis);
    let latency = |latency: &LatencySummary| match latency.rows {
        0 => "-".to_owned(),
        _ => format!("p50 {} p99 {}", micros(latency.p50_us), micros(latency.p99_us)),
    };
    let loss = |n: u64| if n == 0 { Style::new() } else { Style::new().fg(Color::Yellow) };
    let mut figures = vec![
        vec![strong(format!("{} events/s", count(view.events_per_s)))],
        vec![Span::raw(format!("{}/s", bytes(view.bytes_per_s as u64)))],
        vec![Span::raw(format!("{} events", grouped(view.events)))],
        vec![Span::raw(format!("{} results", grouped(view.results)))],
        vec![Span::raw(format!("epoch {}", view.epoch))],
        vec![Span::raw("rows after "), strong(latency(&view.row_latency))],
        vec![Span::raw("results after "), strong(latency(&view.result_latency))],
        vec![Span::raw("event time "), strong(lag), Span::raw(" behind")],
        vec![Span::styled(format!("{} late", grouped(view.late)), loss(view.late))],
        vec![Span::styled(format!("{} malformed", grouped(view.malformed)), loss(view.malformed))],
    ];
    let others = [(view.without_event_time, "without event time"), (view.with_null, "with NULL")];
    let others = others.into_iter().filter(|(rows, _)| *rows > 0);
    figures.extend(others.map(|(rows, what)| vec![Span::styled(format!("{} {what}", grouped(rows)), loss(rows))]));
    figures
}

/// Pieces side by side, as many in a line as fit.
fn wrapped(pieces: Vec<Vec<Span<'static>>>, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for piece in pieces {
        let needed: usize = piece.iter().map(Span::width).sum();
        match lines.last_mut().filter(|line| line.width() + GAP.len() + needed <= width) {
            Some(line) => {
                line.push_span(GAP);
                line.extend(piece);
            }
            None => lines.push(Line::from(piece)),
        }
    }
    lines
}

const GAP: &str = "   ";

/// A notice in at most two lines.
fn notice(text: &str, width: usize) -> Vec<Line<'static>> {
    let chars: Vec<char> = text.chars().collect();
    let mut pieces: Vec<String> = chars.chunks(width.max(1)).map(|piece| piece.iter().collect()).collect();
    if pieces.len() > 2 {
        pieces.truncate(2);
        pieces[1].pop();
        pieces[1].push('…');
    }
    pieces.into_iter().map(Line::from).collect()
}

/// A column of the table of stages: its heading, its width, and its rank for being omitted on a narrow
/// terminal.
struct StageColumn {
    heading: &'static str,
    width: u16,
    /// The column with the largest number is omitted first.
    expendable: u8,
    cell: fn(&StageView) -> (String, Style),
}

const NAME_WIDTH_MIN: u16 = 14;

const COLUMNS: [StageColumn; 7] = [
    StageColumn { heading: "tasks", width: 5, expendable: 6, cell: |s| (s.tasks.to_string(), Style::new()) },
    StageColumn { heading: "rows in/s", width: 9, expendable: 1, cell: |s| (count(s.rows_in_per_s), Style::new()) },
    StageColumn { heading: "rows out/s", width: 10, expendable: 4, cell: |s| (count(s.rows_out_per_s), Style::new()) },
    StageColumn { heading: "busy", width: 5, expendable: 0, cell: |s| share(s, |of| of.busy, true) },
    StageColumn { heading: "blocked", width: 7, expendable: 2, cell: |s| share(s, |of| of.backpressured, true) },
    StageColumn { heading: "idle", width: 5, expendable: 5, cell: |s| share(s, |of| of.idle, false) },
    StageColumn { heading: "queued", width: 7, expendable: 3, cell: |s| (bytes(s.queue_bytes), Style::new()) },
];

fn share(stage: &StageView, part: fn(&Shares) -> f64, heated: bool) -> (String, Style) {
    let share = stage.shares.as_ref().map(part);
    let style = share.filter(|_| heated).map_or(Style::new(), heat);
    (share.map_or_else(|| "-".to_owned(), percent), style)
}

/// The columns for which there is room beside the stage's name.
fn columns(width: u16) -> Vec<&'static StageColumn> {
    let mut shown: Vec<&StageColumn> = COLUMNS.iter().collect();
    let needed = |shown: &[&StageColumn]| NAME_WIDTH_MIN + shown.iter().map(|column| column.width + 1).sum::<u16>();
    while needed(&shown) > width {
        let Some(first) = (0..shown.len()).max_by_key(|index| shown[*index].expendable) else { break };
        shown.remove(first);
    }
    shown
}

fn draw_stages(frame: &mut Frame<'_>, area: Rect, stages: &[StageView]) {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let block = Block::new().borders(Borders::ALL).title(" stages ");
    let shown = columns(block.inner(area).width);
    let header = shown.iter().map(|column| right(column.heading.to_owned()));
    let header = Row::new(std::iter::once(Cell::from("stage")).chain(header)).style(dim());
    let rows = stages.iter().map(|stage| {
        let name = Cell::from(format!("{} {}", stage.id.0, stage.name));
        let cells = shown.iter().map(|column| {
            let (text, style) = (column.cell)(stage);
            right(text).style(style)
        });
        Row::new(std::iter::once(name).chain(cells))
    });
    let lengths = shown.iter().map(|column| Constraint::Length(column.width));
    let widths: Vec<Constraint> = std::iter::once(Constraint::Min(NAME_WIDTH_MIN)).chain(lengths).collect();
    frame.render_widget(Table::new(rows, widths).header(header).block(block), area);
}

/// `1:02:03`, or `02:03` under an hour.
pub(crate) fn clock(elapsed: Duration) -> String {
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

    fn printed(rows: usize) -> Vec<PrintedTable> {
        let rows = (0..rows).map(|i| format!("result {i}")).collect();
        let (names, kinds) = (vec!["text".to_owned()], vec![crate::table::columns::Kind::Text]);
        vec![PrintedTable { identifier: "out".into(), names, kinds, updating: false, rows }]
    }

    fn view() -> JobView {
        JobView {
            events: 1_234_567,
            events_per_s: 100_000.0,
            bytes_per_s: 24_100_000.0,
            results: 300,
            lag_ms: Some(1010),
            row_latency: LatencySummary {
                rows: 300,
                p50_us: 1200,
                p99_us: 8400,
                p999_us: 9000,
                max_us: 9000,
                sum_us: 0,
            },
            result_latency: LatencySummary {
                rows: 300,
                p50_us: 1300,
                p99_us: 9400,
                p999_us: 9500,
                max_us: 9500,
                sum_us: 0,
            },
            without_event_time: 0,
            with_null: 0,
            stall: None,
            late: 2,
            malformed: 0,
            lookups: Default::default(),
            epoch: 42,
            stages: vec![StageView {
                id: StageId(1),
                name: "source events".into(),
                tasks: 2,
                is_sink: true,
                rows_out: 300,
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
        let results = printed(50);
        let view = view();
        let screen = Screen {
            title: "ads.sql",
            elapsed: Duration::from_secs(3723),
            view: &view,
            notices: &[],
            results: &results,
            keys: "q or Ctrl-C: stop",
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
        assert!(text.contains("result 42"), "the pane is full:\n{text}");
    }

    /// Every figure is on the screen, whole, at the widths of real terminals.
    #[test]
    fn a_narrow_terminal_loses_no_figure() {
        let view = JobView { late: 1_234_567, malformed: 89, ..view() };
        let notices = ["00:12 the brokers of 'kafka:9092' are away since 00:10; the job waits until 00:40".to_owned()];
        let results = printed(50);
        let elapsed = Duration::from_secs(12);
        let screen = Screen {
            title: "ads.sql",
            elapsed,
            view: &view,
            notices: &notices,
            results: &results,
            keys: "q or Ctrl-C: stop",
        };
        let figures = [
            "100 k events/s",
            "23.0 MB/s",
            "1,234,567 events",
            "300 results",
            "epoch 42",
            "rows after p50 1.20 ms p99 8.40 ms",
            "results after p50 1.30 ms p99 9.40 ms",
            "event time 1.01 s behind",
            "1,234,567 late",
            "89 malformed",
            "1 source even",
            " 95 %",
            "100 k",
            "00:12 the brokers of 'kafka:9092' are away",
            "result 49",
            "q or Ctrl-C: stop",
        ];
        for (width, height) in [(130, 40), (100, 24), (80, 24), (50, 24)] {
            let text = text_of(width, height, &screen);
            for figure in figures {
                assert!(text.contains(figure), "{figure:?} is missing at {width} x {height}:\n{text}");
            }
        }
        let wide = text_of(80, 24, &screen);
        for column in COLUMNS.iter().map(|column| column.heading) {
            assert!(wide.contains(column), "{column:?} is missing at 80 columns:\n{wide}");
        }
    }

    #[test]
    fn says_so_when_there_is_nothing_yet_or_the_job_is_stopping() {
        let view = JobView::default();
        let screen = Screen {
            title: "q",
            elapsed: Duration::ZERO,
            view: &view,
            notices: &[],
            results: &[],
            keys: "stopping at the end of the epoch",
        };
        let text = text_of(80, 12, &screen);
        assert!(text.contains("none yet") && text.contains("rows after -") && text.contains("stopping"), "{text}");
    }

    #[test]
    fn explains_why_there_are_no_results() {
        let view = JobView { stall: Some("partition 'ads/3' holds event time back".into()), ..JobView::default() };
        let elapsed = EXPLAINED_AFTER;
        let screen = Screen { title: "q", elapsed, view: &view, notices: &[], results: &[], keys: "q or Ctrl-C: stop" };
        let text = text_of(50, 16, &screen);
        assert!(text.contains("none yet: partition 'ads/3' holds event time"), "{text}");
    }

    #[test]
    fn tables_that_print_nothing_have_results_too() {
        let view = view();
        let (elapsed, keys) = (EXPLAINED_AFTER, "q or Ctrl-C: stop");
        let screen = Screen { title: "q", elapsed, view: &view, notices: &[], results: &[], keys };
        let text = text_of(80, 24, &screen);
        assert!(text.contains("results by table") && !text.contains("none yet"), "{text}");
        assert!(text.contains("source events   300      10"), "{text}");
    }

    #[test]
    fn a_tiny_terminal_is_no_reason_to_fail() {
        let view = view();
        let screen = Screen {
            title: "q",
            elapsed: Duration::ZERO,
            view: &view,
            notices: &[],
            results: &printed(1),
            keys: "q or Ctrl-C: stop",
        };
        for (width, height) in [(1, 1), (10, 4), (40, 7)] {
            text_of(width, height, &screen);
        }
    }
}
