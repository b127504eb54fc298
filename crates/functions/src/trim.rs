//! Trimming: blanks (only the space), or the characters of a second text.

use arrow::array::ArrayRef;
use datafusion_common::Result;

use crate::arguments::{Arguments, slices};
use crate::definition::{Definition, Kind, Returns, function};

const FORMS: &[&[Kind]] = &[&[Kind::Text], &[Kind::Text, Kind::Text]];

pub(crate) const DEFINITIONS: &[Definition] = &[
    function("btrim", FORMS, Returns::Text, |a| trim(a, true, true)).never_fails().also(&["trim"]),
    function("ltrim", FORMS, Returns::Text, |a| trim(a, true, false)).never_fails(),
    function("rtrim", FORMS, Returns::Text, |a| trim(a, false, true)).never_fails(),
];

fn trim(arguments: &Arguments, start: bool, end: bool) -> Result<ArrayRef> {
    let text = arguments.text(0);
    let characters = (arguments.len() > 1).then(|| arguments.text(1));
    slices(arguments.rows, |row| {
        let mut text = text.get(row)?;
        let characters = characters.as_ref().map_or(Some(" "), |c| c.get(row))?;
        let listed = |c: char| characters.contains(c);
        if start {
            text = text.trim_start_matches(listed);
        }
        if end {
            text = text.trim_end_matches(listed);
        }
        Some(text)
    })
}
