//! The latest results on the screen: lines of print tables in columns, or the numbers of rows of other
//! tables.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Wrap};

use super::live::{EXPLAINED_AFTER, Screen};
use super::text::{count, grouped};
use crate::results::PrintedTable;
use crate::table::columns::{Columns, Kind};

/// The last results, as many as fit.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let block = Block::new().borders(Borders::ALL).title(title(screen));
    let inner = block.inner(area);
    let (width, room) = (usize::from(inner.width), usize::from(inner.height));
    let dim = Style::new().add_modifier(Modifier::DIM);
    if !screen.results.is_empty() {
        frame.render_widget(Paragraph::new(printed(screen.results, width, room)).block(block), area);
    } else if screen.view.results > 0 {
        frame.render_widget(Paragraph::new(written(screen, width)).block(block), area);
    } else {
        // At the beginning there are never results.
        let why = screen.view.stall.as_deref().filter(|_| screen.elapsed >= EXPLAINED_AFTER);
        let why = why.unwrap_or("a window's results come when event time has passed its end");
        let text = Paragraph::new(format!("none yet: {why}")).style(dim).wrap(Wrap { trim: true });
        frame.render_widget(text.block(block), area);
    }
}

fn title(screen: &Screen<'_>) -> String {
    match screen.results {
        [] if screen.view.results > 0 => " results by table ".to_owned(),
        [one] if !one.identifier.is_empty() => format!(" latest results of {} ", one.identifier),
        _ => " latest results ".to_owned(),
    }
}

/// The tables below each other, each with its latest rows.
fn printed(tables: &[PrintedTable], width: usize, room: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut left = room;
    for (index, table) in tables.iter().enumerate() {
        let share = left / (tables.len() - index);
        let of_table = of_table(table, width, share, tables.len() > 1);
        left -= of_table.len().min(left);
        lines.extend(of_table);
    }
    lines
}

/// A table in a number of lines: its name if there are others, the names of its columns, and its latest rows.
fn of_table(table: &PrintedTable, width: usize, room: usize, is_named: bool) -> Vec<Line<'static>> {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = Vec::new();
    if is_named {
        lines.push(Line::styled(format!("{}:", table.identifier), strong));
    }
    let rows = room.saturating_sub(lines.len() + 1).max(usize::from(room > lines.len()));
    let latest = &table.rows[table.rows.len().saturating_sub(rows)..];
    let columns = table.names.len() + usize::from(table.updating);
    let cells: Option<Vec<Vec<String>>> = latest.iter().map(|row| cells(row, table.updating, columns)).collect();
    let Some(cells) = cells.filter(|_| room > lines.len() + 1) else {
        lines.extend(latest.iter().map(|row| Line::raw(row.clone())));
        return lines;
    };
    let op = || table.updating.then_some(("op".to_owned(), Kind::Time));
    let (names, kinds) = op().into_iter().chain(table.names.iter().cloned().zip(table.kinds.iter().copied())).unzip();
    lines.extend(aligned(Columns::new(names, kinds, Some(width)), &cells));
    lines
}

/// The names of columns, and rows under them.
fn aligned(mut columns: Columns, rows: &[Vec<String>]) -> Vec<Line<'static>> {
    rows.iter().for_each(|row| columns.widen(row));
    let widths = columns.widths();
    let dim = Style::new().add_modifier(Modifier::DIM);
    let head = Line::styled(columns.line(columns.names(), &widths).0, dim);
    std::iter::once(head).chain(rows.iter().map(|row| Line::raw(columns.line(row, &widths).0))).collect()
}

/// The values of a line: CSV, after the sign of a row that changes.
fn cells(row: &str, updating: bool, columns: usize) -> Option<Vec<String>> {
    let mut cells = Vec::new();
    let mut rest = row;
    if updating {
        let (sign, values) = row.split_once(' ')?;
        cells.push(sign.to_owned());
        rest = values;
    }
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_cell(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    (cells.len() == columns).then_some(cells)
}

/// A value up to its closing quote, and what follows.
fn quoted_cell(quoted: &str) -> Option<(String, &str)> {
    let mut cell = String::new();
    let mut rest = quoted;
    loop {
        let end = rest.find('"')?;
        cell.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                cell.push('"');
                rest = after;
            }
            None => return Some((cell, rest)),
        }
    }
}

/// The number of rows of each table that does not print them.
fn written(screen: &Screen<'_>, width: usize) -> Vec<Line<'static>> {
    let names = ["table", "rows", "rows/s"].map(str::to_owned).to_vec();
    let columns = Columns::new(names, vec![Kind::Text, Kind::Number, Kind::Number], Some(width));
    let sinks = screen.view.stages.iter().filter(|stage| stage.is_sink);
    let rows = sinks.map(|stage| {
        let name = stage.name.strip_prefix("sink ").unwrap_or(&stage.name).to_owned();
        vec![name, grouped(stage.rows_out), count(stage.rows_out_per_s)]
    });
    aligned(columns, &rows.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&str]) -> PrintedTable {
        PrintedTable {
            identifier: "results".into(),
            names: ["campaign_id", "window_start", "window_end", "views"].map(str::to_owned).to_vec(),
            kinds: vec![Kind::Text, Kind::Time, Kind::Time, Kind::Number],
            updating: false,
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
        }
    }

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_value_is_visible_on_a_terminal_of_80_columns() {
        let id = "0b6f8a52-34ab-4ff5-9f43-9b3a2f1c7d3e";
        let row = format!("{id},2026-11-29T06:00:00Z,2026-11-29T06:00:10Z,12345");
        let lines = text(&printed(&[table(&[&row, &row])], 78, 5));
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].ends_with("  views") && lines[0].contains("window_start"), "{lines:#?}");
        assert!(lines[1].ends_with("  12345") && lines[1].contains("2026-11-29T06:00:10Z"), "{lines:#?}");
        assert!(lines[1].starts_with(" 0b6f8a52-34ab-4ff5-9f"), "{lines:#?}");
    }

    #[test]
    fn tables_share_the_room() {
        let (one, two) = (table(&["a,b,c,1", "a,b,c,2", "a,b,c,3"]), table(&["x,y,z,9"]));
        let two = PrintedTable { identifier: "others".into(), ..two };
        let lines = text(&printed(&[one, two], 60, 6));
        assert_eq!(lines.len(), 6, "{lines:#?}");
        assert_eq!((lines[0].as_str(), lines[3].as_str()), ("results:", "others:"));
        assert!(lines[2].ends_with('3') && lines[5].ends_with('9'), "{lines:#?}");
    }

    #[test]
    fn values_are_those_of_the_line() {
        assert_eq!(cells("1,\"a,\"\"b\"\"\",", false, 3).expect("cells"), ["1", "a,\"b\"", ""]);
        assert_eq!(cells("- 1,x", true, 3).expect("cells"), ["-", "1", "x"]);
        assert_eq!((cells("1,2", false, 3), cells("\"open", false, 1)), (None, None));
        // A line that is no row is shown unchanged.
        assert_eq!(text(&printed(&[table(&["odd"])], 40, 4)), ["odd"]);
        assert_eq!(text(&printed(&[table(&["a,b,c,1"])], 40, 1)), ["a,b,c,1"]);
    }
}
