//! A changing result as a table on the whole terminal: each row keeps its place, with its newest values.

mod rows;

use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use anabranch_model::{Error, Result};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, Schema};
use crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout as Areas};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};

use self::rows::Rows;
use super::query::{End, Running};
use crate::console::Console;
use crate::signals::INTERRUPTED;
use crate::table::columns::Columns;
use crate::table::{Cells, Layout, Table};
use crate::terminal::{self, Screen};
use crate::view::live::{EXPLAINED_AFTER, clock};
use crate::view::text::grouped;
use crate::watch::{Keys, Notices, Pressed, asks_to_stop};

const REDRAW: Duration = Duration::from_millis(100);
/// Largest number of rows that stay on the terminal after the end.
const LEFT_ROWS: usize = 1000;

/// Shows the rows until the query ends or the user stops it, and then writes the final rows.
pub(super) fn watch(
    running: &Running<'_>,
    schema: &Schema,
    cells: Cells,
    layout: Layout,
    output: &mut Console,
) -> (Result<()>, End) {
    let columns = schema.fields().len().saturating_sub(1);
    let schema = Schema::new(schema.fields().iter().take(columns).cloned().collect::<Vec<_>>());
    let mut table = Changing { rows: Rows::new(&schema), schema, cells, top: None, changes: 0 };
    let mut end = End::default();
    let shown = table.show(running, &mut end);
    if shown.is_err() {
        running.job.stop();
        // Rows that are not read do not block the job.
        running.rows.iter().for_each(drop);
    }
    let written = shown.and_then(|()| table.write(layout, output, &mut end));
    let noticed = Notices::default().write(running.job, &mut Console::error());
    (written.and(noticed), end)
}

struct Changing {
    schema: Schema,
    cells: Cells,
    rows: Rows,
    /// The first row on the screen; `None`: the last rows are shown.
    top: Option<usize>,
    /// Rows that were inserted or retracted.
    changes: u64,
}

impl Changing {
    /// Takes rows and keys until the job has ended.
    fn show(&mut self, running: &Running<'_>, end: &mut End) -> Result<()> {
        let failed = |e: std::io::Error| {
            Error::outside(format!("the terminal failed: {e}")).remedy("\\log shows changes one after the other")
        };
        let mut screen = Screen::enter()?;
        let (mut keys, mut stopped, mut why, mut due) = (Keys::default(), false, None, Duration::ZERO);
        loop {
            let mut asked = running.signals.stop_asked();
            // Waiting for a key is also waiting for rows.
            if event::poll(Duration::from_millis(10)).map_err(failed)? {
                let event = event::read().map_err(failed)?;
                if asks_to_stop(&event) {
                    if keys.press(running.signals.stop_asked()) == Pressed::Again {
                        terminal::leave();
                        std::process::exit(i32::from(INTERRUPTED));
                    }
                    asked = true;
                }
                self.scroll(&event, usize::from(screen.terminal.size().map_err(failed)?.height));
                due = Duration::ZERO;
            }
            if asked && !stopped {
                end.why = running.why();
                running.job.stop();
                stopped = true;
            }
            let ended = self.receive(running)?;
            let elapsed = running.elapsed();
            if elapsed >= due {
                why = if self.rows.is_empty() && elapsed >= EXPLAINED_AFTER { running.why() } else { why };
                let why = why.as_deref().filter(|_| self.rows.is_empty());
                screen.terminal.draw(|frame| self.draw(frame, elapsed, stopped, why)).map_err(failed)?;
                due = elapsed + REDRAW;
            }
            if ended {
                break;
            }
        }
        if !stopped {
            end.why = running.why();
        }
        Ok(())
    }

    /// Receives rows, for a moment at most. Returns whether the job has ended.
    fn receive(&mut self, running: &Running<'_>) -> Result<bool> {
        let until = running.elapsed() + REDRAW;
        while running.elapsed() < until {
            match running.rows.try_recv() {
                Ok(batch) => self.apply(&batch)?,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        Ok(false)
    }

    fn apply(&mut self, batch: &RecordBatch) -> Result<()> {
        let weight = batch.num_columns() - 1;
        let weights = batch.column(weight).as_primitive::<Int64Type>().values();
        let rows = self.cells.rows(&batch.project(&(0..weight).collect::<Vec<_>>())?)?;
        self.changes += weights.iter().map(|weight| weight.unsigned_abs()).sum::<u64>();
        self.rows.apply(rows, weights);
        Ok(())
    }

    fn scroll(&mut self, event: &Event, height: usize) {
        let Event::Key(key) = event else { return };
        let (room, rows) = (room(height), self.rows.len());
        let last = rows.saturating_sub(room);
        let top = self.top.unwrap_or(last).min(last);
        let to = match key.code {
            _ if key.kind != KeyEventKind::Press => return,
            KeyCode::Up => top.saturating_sub(1),
            KeyCode::Down => top + 1,
            KeyCode::PageUp => top.saturating_sub(room),
            KeyCode::PageDown => top + room,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        self.top = Some(to).filter(|to| *to < last);
    }

    fn draw(&self, frame: &mut Frame<'_>, elapsed: Duration, stopping: bool, why: Option<&str>) {
        let area = frame.area();
        let room = room(usize::from(area.height));
        let last = self.rows.len().saturating_sub(room);
        let top = self.top.unwrap_or(last).min(last);
        let page = self.rows.page(top, room);
        let mut columns = Columns::of_schema(&self.schema, Some(usize::from(area.width)));
        page.iter().for_each(|row| columns.widen(row));
        let widths = columns.widths();
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let line = |cells: &[String]| columns.line(cells, &widths).0;
        let strong = Style::new().add_modifier(Modifier::BOLD);
        let mut lines = vec![Line::styled(line(columns.names()), strong), Line::raw(line(&rule))];
        lines.extend(page.iter().map(|row| Line::raw(line(row.as_slice()))));
        let areas = Areas::vertical([Constraint::Min(1), Constraint::Length(1), Constraint::Length(1)]).split(area);
        match why {
            Some(why) => {
                let text = Paragraph::new(format!("no results yet: {why}")).wrap(Wrap { trim: true });
                frame.render_widget(text, areas[0]);
            }
            None => frame.render_widget(Paragraph::new(lines), areas[0]),
        }
        let dim = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(self.status(elapsed, top, page.len())).style(dim), areas[1]);
        let keys = match (stopping, self.rows.len() > room) {
            (true, _) => "stopping at the end of the epoch; again to leave now",
            (false, true) => "q or Ctrl-C: stop   Up, Down, PageUp, PageDown, Home, End: other rows",
            (false, false) => "q or Ctrl-C: stop",
        };
        frame.render_widget(Paragraph::new(keys).style(dim), areas[2]);
    }

    fn status(&self, elapsed: Duration, top: usize, shown: usize) -> String {
        let rows = self.rows.len();
        let part = match shown < rows {
            true => format!("rows {} to {} of ", grouped(top as u64 + 1), grouped((top + shown) as u64)),
            false => String::new(),
        };
        let rows = if rows == 1 && part.is_empty() { "1 row".to_owned() } else { grouped(rows as u64) };
        let rows = if part.is_empty() && rows != "1 row" { format!("{rows} rows") } else { rows };
        format!("{}   {part}{rows}   {} changes", clock(elapsed), grouped(self.changes))
    }

    fn write(&self, layout: Layout, output: &mut Console, end: &mut End) -> Result<()> {
        let rows = self.rows.len();
        let first = rows.saturating_sub(LEFT_ROWS);
        if first > 0 {
            output.line(&format!("the last {} rows:", grouped(LEFT_ROWS as u64)))?;
        }
        let mut table = Table::new(&self.schema, layout, terminal::width());
        let page = self.rows.page(first, LEFT_ROWS);
        if !page.is_empty() {
            table.write_rows(&page.into_iter().cloned().collect::<Vec<_>>(), output)?;
        }
        end.rows = rows as u64;
        end.was_cut = table.was_cut();
        Ok(())
    }
}

/// Number of rows that fit a terminal of this height, beside a heading and two lines below.
fn room(height: usize) -> usize {
    height.saturating_sub(4).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use crossterm::event::KeyEvent;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn batch(names: &[&str], counts: &[i64], weights: &[i64]) -> RecordBatch {
        let columns: [(&str, ArrayRef); 3] = [
            ("name", Arc::new(StringArray::from(names.to_vec()))),
            ("n", Arc::new(Int64Array::from(counts.to_vec()))),
            ("$weight", Arc::new(Int64Array::from(weights.to_vec()))),
        ];
        RecordBatch::try_from_iter(columns).expect("batch")
    }

    fn table(first: &RecordBatch) -> Changing {
        let schema = first.project(&[0, 1]).expect("columns").schema().as_ref().clone();
        let rows = Rows::new(&schema);
        Changing { schema, cells: Cells::default(), rows, top: None, changes: 0 }
    }

    fn screen(table: &Changing, width: u16, height: u16, why: Option<&str>) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("terminal");
        let draw = |frame: &mut Frame<'_>| table.draw(frame, Duration::from_secs(7), false, why);
        terminal.draw(draw).expect("draw");
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_newest_values_are_where_the_old_ones_were() {
        let first = batch(&["a", "b"], &[1, 1], &[1, 1]);
        let mut table = table(&first);
        table.apply(&first).expect("rows");
        table.apply(&batch(&["a", "a"], &[1, 2], &[-1, 1])).expect("rows");
        let expected =
            [" name  n", " ────  ─", " a     2", " b     1", "", "00:07   2 rows   4 changes", "q or Ctrl-C: stop"];
        assert_eq!(screen(&table, 40, 7, None), expected);
        assert!(screen(&table, 60, 7, Some("event time stands"))[0].contains("no results yet: event time stands"));
    }

    #[test]
    fn keys_show_other_rows_of_a_long_table() {
        let names: Vec<String> = (0..20).map(|i| format!("row{i}")).collect();
        let all = batch(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[0; 20], &[1; 20]);
        let mut table = table(&all);
        table.apply(&all).expect("rows");
        let text = |table: &Changing| screen(table, 80, 8, None).join("\n");
        assert!(text(&table).contains("row19") && text(&table).contains("rows 17 to 20 of 20"), "{}", text(&table));
        let press = |table: &mut Changing, code| table.scroll(&Event::Key(KeyEvent::from(code)), 8);
        press(&mut table, KeyCode::Home);
        assert!(text(&table).contains("row0 ") && text(&table).contains("rows 1 to 4 of 20"), "{}", text(&table));
        press(&mut table, KeyCode::PageDown);
        assert!(text(&table).contains("rows 5 to 8 of 20"), "{}", text(&table));
        press(&mut table, KeyCode::End);
        assert_eq!(table.top, None, "the last rows are followed again");
    }
}
