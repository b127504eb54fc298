//! Columns side by side on a terminal: their widths are chosen so that a value of every column can be seen.

use arrow::datatypes::{DataType, Schema};
use ratatui::text::Span;

/// Texts are not shortened below this width, so that their beginning can be seen.
const LEAST: usize = 8;

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Right-aligned, and never shortened.
    Number,
    /// Shortened only if shorter texts are not enough.
    Time,
    Text,
}

impl Kind {
    pub(crate) fn from_type(data_type: &DataType) -> Self {
        match data_type {
            _ if data_type.is_numeric() => Kind::Number,
            DataType::Boolean | DataType::Null => Kind::Time,
            _ if data_type.is_temporal() => Kind::Time,
            _ => Kind::Text,
        }
    }
}

/// The columns of a table, and the widths of their widest values.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    kinds: Vec<Kind>,
    /// Width of the widest value so far.
    values: Vec<usize>,
    /// Width of the terminal; `None`: lines are not limited.
    terminal: Option<usize>,
}

impl Columns {
    pub(crate) fn new(names: Vec<String>, kinds: Vec<Kind>, terminal: Option<usize>) -> Self {
        let values = vec![0; names.len()];
        Columns { names, kinds, values, terminal }
    }

    pub(crate) fn of_schema(schema: &Schema, terminal: Option<usize>) -> Self {
        let names = schema.fields().iter().map(|field| anabranch_model::visible(field.name()).into_owned()).collect();
        let kinds = schema.fields().iter().map(|field| Kind::from_type(field.data_type())).collect();
        Columns::new(names, kinds, terminal)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Makes room for the values of a row.
    pub(crate) fn widen(&mut self, row: &[String]) {
        for (known, cell) in self.values.iter_mut().zip(row) {
            *known = width(cell).max(*known);
        }
    }

    /// The width of each column. Texts are shortened first, the widest one most; then names of numbers; then
    /// times.
    pub(crate) fn widths(&self) -> Vec<usize> {
        let names = self.names.iter().map(|name| width(name));
        let mut widths: Vec<usize> = names.zip(&self.values).map(|(name, value)| name.max(*value)).collect();
        let Some(terminal) = self.terminal else { return widths };
        let used = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) + 1;
        widths.iter_mut().for_each(|width| *width = terminal.min(*width));
        for kind in [Kind::Text, Kind::Number, Kind::Time] {
            let least = |column: usize| match kind {
                Kind::Number => self.values[column].max(1),
                Kind::Text | Kind::Time => LEAST,
            };
            while used(&widths) > terminal {
                let shrinks = |column: &usize| self.kinds[*column] == kind && widths[*column] > least(*column);
                let Some(widest) = (0..widths.len()).filter(shrinks).max_by_key(|column| widths[*column]) else {
                    break;
                };
                widths[widest] -= 1;
            }
        }
        widths
    }

    /// A line of cells, and whether something was cut.
    pub(crate) fn line(&self, cells: &[String], widths: &[usize]) -> (String, bool) {
        let (mut line, mut is_cut) = (String::new(), false);
        for (index, cell) in cells.iter().enumerate() {
            let mut cell = cell.clone();
            is_cut |= cut(&mut cell, widths[index]);
            let padding = " ".repeat(widths[index].saturating_sub(width(&cell)));
            let is_right = self.kinds[index] == Kind::Number;
            let (before, after) = if is_right { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line.push_str(&format!("{}{before}{cell}{after}", if index == 0 { " " } else { "  " }));
        }
        line.truncate(line.trim_end().len());
        if let Some(terminal) = self.terminal {
            is_cut |= cut(&mut line, terminal);
        }
        (line, is_cut)
    }
}

/// Cells of a terminal that a text takes: two for a wide character.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Cuts a text to this number of terminal cells, and marks the cut in the last cell. Returns whether it did.
pub(crate) fn cut(text: &mut String, cells: usize) -> bool {
    if width(text) <= cells {
        return false;
    }
    let (mut end, mut used) = (0, 0);
    for (at, c) in text.char_indices() {
        let needed = width(c.encode_utf8(&mut [0; 4]));
        if used + needed + 1 > cells {
            break;
        }
        used += needed;
        end = at + c.len_utf8();
    }
    text.truncate(end);
    text.push('…');
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(shown: &[(&str, Kind, usize)], terminal: usize) -> Vec<usize> {
        let names = shown.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let mut columns = Columns::new(names, shown.iter().map(|(_, kind, _)| *kind).collect(), Some(terminal));
        columns.widen(&shown.iter().map(|(.., width)| "x".repeat(*width)).collect::<Vec<_>>());
        columns.widths()
    }

    #[test]
    fn a_long_text_makes_room_for_the_numbers_after_it() {
        let demo = [
            ("campaign_id", Kind::Text, 36),
            ("window_start", Kind::Time, 20),
            ("window_end", Kind::Time, 20),
            ("views", Kind::Number, 5),
        ];
        assert_eq!(columns(&demo, 120), [36, 20, 20, 5]);
        assert_eq!(columns(&demo, 80), [28, 20, 20, 5]);
        assert_eq!(columns(&demo, 50), [8, 15, 15, 5]);
        // Too narrow for anything sensible: the line is cut.
        assert_eq!(columns(&demo, 20), [8, 8, 8, 5]);
    }

    #[test]
    fn the_widest_text_is_shortened_most_and_names_of_numbers_are_shortened_too() {
        let texts = [("a", Kind::Text, 50), ("b", Kind::Text, 12), ("number_of_views", Kind::Number, 3)];
        assert_eq!(columns(&texts, 60), [28, 12, 15]);
        assert_eq!(columns(&texts, 26), [8, 8, 5]);
    }
}
