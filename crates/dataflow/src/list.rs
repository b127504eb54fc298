//! Lists as texts.

use std::fmt;

use arrow_schema::Schema;

/// Items with commas between them.
pub(crate) struct List<I>(pub(crate) I);

impl<I: IntoIterator<Item: fmt::Display> + Clone> fmt::Display for List<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = |(i, item)| write!(f, "{}{item}", if i == 0 { "" } else { ", " });
        self.0.clone().into_iter().enumerate().try_for_each(item)
    }
}

/// Columns by their places: `#0, #2`.
pub(crate) fn places(
    places: impl IntoIterator<Item = usize, IntoIter: Clone>,
) -> List<impl Iterator<Item = String> + Clone> {
    List(places.into_iter().map(|place| format!("#{place}")))
}

/// Columns by their places, with their names: `#0 user, #2 price`.
pub(crate) fn columns<'a>(places: &'a [usize], schema: &'a Schema) -> List<impl Iterator<Item = String> + Clone + 'a> {
    List(places.iter().map(|place| format!("#{place} {}", schema.field(*place).name())))
}
