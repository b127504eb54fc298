//! The parts of the SQL text that a plan's operators come from.

use std::sync::Arc;

use anabranch_dataflow::{Place, Plan, Stage};
use anabranch_model::{MarkedText, Secrets};
use anabranch_plan::{TextPart, TextParts};
use schemars::JsonSchema;
use serde::Serialize;

/// The parts of the SQL text that a stage comes from: those of its source, of each operator, of its sink. The
/// text is that of `/api/v1/jobs/{name}/sql` with the plan's version, or the one that was checked. Each list
/// may be empty: nothing in the text says that there is such an operator, or the process has no text of the
/// job.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StageSql {
    /// Where the table is named; several places if several parts of the query take its rows.
    source: Vec<TextRange>,
    /// In the order of `operators` of the stage.
    operators: Vec<Vec<TextRange>>,
    sink: Vec<TextRange>,
}

/// A part of a text.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct TextRange {
    from: TextPlace,
    to: TextPlace,
}

/// A place in a text. The end of a part is behind its last character.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct TextPlace {
    /// From 1.
    line: u32,
    /// From 1, in characters: one for each code point.
    column: u32,
}

/// The text of a plan.
#[derive(Default)]
pub(super) struct PlanSql {
    parts: TextParts,
    /// The text with marks for its secrets, if it is shown so.
    moved: Option<Moved>,
}

/// A text that is shown with marks.
struct Moved {
    text: Arc<str>,
    lines: Lines,
    marked: MarkedText,
    marked_lines: Lines,
}

impl PlanSql {
    /// The text of a plan; `has_marks`: as clients get it of a job.
    pub(super) fn of_plan(plan: &Plan, has_marks: bool) -> PlanSql {
        plan.text.0.as_ref().map(|text| PlanSql::of(text, has_marks)).unwrap_or_default()
    }

    fn of(text: &str, has_marks: bool) -> PlanSql {
        let marked = has_marks.then(|| Secrets::of_sql(text).marked(text)).filter(|marked| marked.text != text);
        let moved = marked.map(|marked| {
            let (lines, marked_lines) = (Lines::of(text), Lines::of(&marked.text));
            Moved { text: text.into(), lines, marked, marked_lines }
        });
        PlanSql { parts: TextParts::of(text), moved }
    }

    pub(super) fn of_stage(&self, stage: &Stage) -> StageSql {
        let of_operator = |place: usize| {
            let places = stage.origin.operators.get(place);
            places.map_or_else(Vec::new, |places| self.around(places))
        };
        StageSql {
            source: if stage.source.is_some() { self.around(&stage.origin.source) } else { Vec::new() },
            operators: (0..stage.operators.len()).map(of_operator).collect(),
            sink: self.around(&stage.origin.sink),
        }
    }

    fn around(&self, places: &[Place]) -> Vec<TextRange> {
        self.parts.around(places).into_iter().map(|part| self.range(part)).collect()
    }

    fn range(&self, TextPart { from, to }: TextPart) -> TextRange {
        let (from, to) = match &self.moved {
            None => (from, to),
            Some(Moved { text, lines, marked, marked_lines }) => {
                let part = marked.part(lines.byte(text, from)..lines.byte(text, to));
                (marked_lines.place(&marked.text, part.start), marked_lines.place(&marked.text, part.end))
            }
        };
        let place = |Place { line, column }: Place| TextPlace { line, column };
        TextRange { from: place(from), to: place(to) }
    }
}

/// The bytes at which the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Lines {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(end, _)| end + 1)).collect())
    }

    fn byte(&self, text: &str, Place { line, column }: Place) -> usize {
        let start = self.0.get(line as usize - 1).copied().unwrap_or(text.len());
        let mut characters = text[start..].char_indices();
        characters.nth(column as usize - 1).map_or(text.len(), |(at, _)| start + at)
    }

    fn place(&self, text: &str, byte: usize) -> Place {
        let line = self.0.partition_point(|start| *start <= byte);
        let start = self.0.get(line.saturating_sub(1)).copied().unwrap_or_default();
        Place { line: line as u32, column: text[start..byte].chars().count() as u32 + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_text_with_marks() {
        let text = "SET 'a.password' = 'hunter22'; SELECT 'ä𝄞', 'hunter22'\n FROM t WHERE 'hunter22' = x AND b;";
        let sql = PlanSql::of(text, true);
        let shown = &sql.moved.as_ref().expect("secrets").marked.text;
        for (place, part) in [("'ä𝄞'", "'ä𝄞'"), ("t WHERE", "t"), ("x AND", "'***secret 1***' = x"), ("b;", "b")]
        {
            let lines = Lines::of(text);
            let place = lines.place(text, text.find(place).expect("a place"));
            let [TextRange { from, to }] = sql.around(&[place]).try_into().expect("one part");
            let lines = Lines::of(shown);
            let byte = |TextPlace { line, column }: TextPlace| lines.byte(shown, Place { line, column });
            assert_eq!(&shown[byte(from)..byte(to)], part);
        }
    }

    #[test]
    fn a_place_is_that_of_its_byte() {
        let text = "aä𝄞b\n\nc";
        let lines = Lines::of(text);
        for (line, column, byte) in [(1, 1, 0), (1, 2, 1), (1, 3, 3), (1, 4, 7), (2, 1, 9), (3, 1, 10), (3, 2, 11)] {
            assert_eq!(lines.byte(text, Place { line, column }), byte, "{line}:{column}");
            assert_eq!(lines.place(text, byte), Place { line, column }, "{byte}");
        }
    }
}
