//! The rows of a changing result, each at its place.

use std::collections::{BTreeMap, HashMap, VecDeque};

use arrow::datatypes::Schema;

use crate::table::columns::Kind;

/// Largest number of rows to keep: as many as Flink's shell.
const KEPT_MAX: usize = 1_000_000;

type Row = Vec<String>;

/// Rows in the order of their places. A row that replaces another one keeps its position.
pub(super) struct Rows {
    /// Columns that probably identify rows: all columns that are not numbers, else the first one.
    labels: Vec<usize>,
    at: BTreeMap<u64, Row>,
    places: HashMap<Row, Vec<u64>>,
    /// Rows that were retracted before they were inserted, with their counts.
    missing: HashMap<Row, u64>,
    next: u64,
    /// Whether the oldest rows were dropped because there were too many.
    forgets: bool,
}

impl Rows {
    pub(super) fn new(schema: &Schema) -> Self {
        let kinds = schema.fields().iter().map(|field| Kind::from_type(field.data_type()));
        let labels: Vec<usize> =
            kinds.enumerate().filter(|(_, kind)| *kind != Kind::Number).map(|(column, _)| column).collect();
        let labels = if labels.is_empty() { vec![0] } else { labels };
        Rows { labels, at: BTreeMap::new(), places: HashMap::new(), missing: HashMap::new(), next: 0, forgets: false }
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Rows from this index on, at most `count`.
    pub(super) fn page(&self, first: usize, count: usize) -> Vec<&Row> {
        self.at.values().skip(first).take(count).collect()
    }

    /// Applies the changes of a batch. An inserted row replaces a retracted one: one with its label, else
    /// any.
    pub(super) fn apply(&mut self, rows: Vec<Row>, weights: &[i64]) {
        let mut free: BTreeMap<u64, Row> = BTreeMap::new();
        let mut coming: Vec<Row> = Vec::new();
        for (row, weight) in rows.into_iter().zip(weights) {
            for _ in 0..weight.unsigned_abs() {
                match *weight > 0 {
                    true => coming.push(row.clone()),
                    false => match self.remove(&row) {
                        Some(place) => drop(free.insert(place, self.label(&row))),
                        None if self.forgets => {}
                        None => *self.missing.entry(row.clone()).or_default() += 1,
                    },
                }
            }
        }
        let mut of_label: HashMap<&Row, VecDeque<u64>> = HashMap::new();
        free.iter().for_each(|(place, label)| of_label.entry(label).or_default().push_back(*place));
        let mut others = Vec::new();
        let mut taken = Vec::new();
        for row in coming {
            if self.cancels(&row) {
                continue;
            }
            match of_label.get_mut(&self.label(&row)).and_then(VecDeque::pop_front) {
                Some(place) => taken.push((place, row)),
                None => others.push(row),
            }
        }
        taken.iter().for_each(|(place, _)| drop(free.remove(place)));
        taken.into_iter().for_each(|(place, row)| self.put(place, row));
        let mut free = free.into_keys();
        for row in others {
            let place = free.next().unwrap_or_else(|| {
                self.next += 1;
                self.next
            });
            self.put(place, row);
        }
        while self.at.len() > KEPT_MAX {
            self.forgets = true;
            let Some((place, row)) = self.at.pop_first() else { break };
            self.forget(&row, place);
        }
    }

    /// Whether the row was retracted already, so that it is not inserted.
    fn cancels(&mut self, row: &Row) -> bool {
        let Some(times) = self.missing.get_mut(row) else { return false };
        *times -= 1;
        if *times == 0 {
            self.missing.remove(row);
        }
        true
    }

    fn label(&self, row: &Row) -> Row {
        self.labels.iter().filter_map(|column| row.get(*column).cloned()).collect()
    }

    fn put(&mut self, place: u64, row: Row) {
        self.places.entry(row.clone()).or_default().push(place);
        self.at.insert(place, row);
    }

    fn remove(&mut self, row: &Row) -> Option<u64> {
        let places = self.places.get_mut(row)?;
        let place = places.pop();
        if places.is_empty() {
            self.places.remove(row);
        }
        place.inspect(|place| drop(self.at.remove(place)))
    }

    fn forget(&mut self, row: &Row, place: u64) {
        if let Some(places) = self.places.get_mut(row) {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.places.remove(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn rows(first: DataType) -> Rows {
        Rows::new(&Schema::new(vec![Field::new("k", first, true), Field::new("n", DataType::Int64, true)]))
    }

    fn apply(rows: &mut Rows, changes: &[(&str, &str, i64)]) -> Vec<String> {
        let cells = changes.iter().map(|(k, n, _)| vec![(*k).to_owned(), (*n).to_owned()]).collect();
        rows.apply(cells, &changes.iter().map(|(.., weight)| *weight).collect::<Vec<_>>());
        rows.page(0, 99).into_iter().map(|row| row.join(" ")).collect()
    }

    #[test]
    fn a_row_stays_where_it_was() {
        let mut table = rows(DataType::Utf8);
        assert_eq!(apply(&mut table, &[("a", "1", 1), ("b", "1", 1), ("c", "1", 1)]), ["a 1", "b 1", "c 1"]);
        // All retractions may come before all insertions, in another order.
        let changes = [("a", "1", -1), ("b", "1", -1), ("b", "2", 1), ("a", "3", 1)];
        assert_eq!(apply(&mut table, &changes), ["a 3", "b 2", "c 1"]);
        assert_eq!(apply(&mut table, &[("b", "2", -1)]), ["a 3", "c 1"]);
        assert_eq!(
            apply(&mut table, &[("d", "9", 1), ("c", "1", -1)]),
            ["a 3", "d 9"],
            "it takes the place of another"
        );
        // Without texts the first column identifies rows.
        let mut numbers = rows(DataType::Int64);
        apply(&mut numbers, &[("1", "5", 1), ("2", "5", 1)]);
        assert_eq!(
            apply(&mut numbers, &[("2", "5", -1), ("1", "5", -1), ("1", "6", 1), ("2", "7", 1)]),
            ["1 6", "2 7"]
        );
    }

    #[test]
    fn rows_may_be_alike_and_changes_may_come_in_any_order() {
        let mut table = rows(DataType::Utf8);
        assert_eq!(apply(&mut table, &[("a", "1", 2)]), ["a 1", "a 1"]);
        assert_eq!(apply(&mut table, &[("a", "1", -1)]), ["a 1"]);
        assert_eq!(apply(&mut table, &[("b", "1", -1)]), ["a 1"]);
        assert_eq!(apply(&mut table, &[("b", "1", 2)]), ["a 1", "b 1"], "one of them was taken back before it came");
        // Within a batch too.
        assert_eq!(apply(&mut table, &[("c", "1", 1), ("c", "1", -1)]), ["a 1", "b 1"]);
        assert_eq!(apply(&mut table, &[]), ["a 1", "b 1"]);
    }
}
