//! `STR_TO_MAP`: a map of the parts of a text. Its entries have the order that they have in Java's hash
//! table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, StringViewBuilder};
use datafusion_common::Result;

use super::build::finish;
use crate::arguments::Arguments;
use crate::array::build::Ends;
use crate::regex::Separator;

/// The entries of a text. Regular expressions separate them from each other, and the keys from the values. Of
/// equal keys, the last value counts. The value of an entry without a separator is NULL.
pub(super) fn str_to_map(arguments: &Arguments) -> Result<ArrayRef> {
    let (mut keys, mut values, mut ends) = (StringViewBuilder::new(), StringViewBuilder::new(), Ends::default());
    let text = arguments.text(0);
    let given = (arguments.len() > 1).then(|| (arguments.text(1), arguments.text(2)));
    let (mut between, mut within) = (Separator::default(), Separator::default());
    let (mut parts, mut table) = (Vec::new(), Table::default());
    for row in 0..arguments.rows {
        let patterns = match &given {
            Some((between, within)) => between.get(row).zip(within.get(row)),
            None => Some((",", "=")),
        };
        let found = text.get(row).zip(patterns);
        if let Some((text, (entries, pairs))) = found.filter(|(text, _)| !text.is_empty()) {
            between.split(entries, text, &mut parts)?;
            table.clear(parts.len());
            for part in &parts {
                match within.split_once(pairs, part)? {
                    Some((key, value)) => table.put(key, Some(value)),
                    None => table.put(part, None),
                }
            }
            for entry in table.in_order() {
                keys.append_value(entry.key);
                values.append_option(entry.value);
            }
        }
        ends.push(keys.len(), found.is_some())?;
    }
    finish(arguments, ends, Arc::new(keys.finish()), Arc::new(values.finish()))
}

/// Entries beyond this number are found in a tree.
const FEW: usize = 16;

/// The entries of one map.
#[derive(Default)]
struct Table<'a> {
    entries: Vec<Entry<'a>>,
    /// The place of each key, if there are many.
    places: BTreeMap<&'a str, usize>,
    /// The number of buckets of Java's table: at most three quarters of them are used.
    buckets: usize,
}

struct Entry<'a> {
    hash: u32,
    key: &'a str,
    value: Option<&'a str>,
}

impl<'a> Table<'a> {
    fn clear(&mut self, capacity: usize) {
        self.entries.clear();
        self.places.clear();
        let capacity = if capacity > 2 { (capacity * 4).div_ceil(3) } else { capacity + 1 };
        self.buckets = capacity.next_power_of_two();
    }

    fn put(&mut self, key: &'a str, value: Option<&'a str>) {
        let hash = spread_hash(key);
        let same = |entry: &Entry| entry.hash == hash && entry.key == key;
        let known = match self.places.is_empty() {
            true => self.entries.iter().position(same),
            false => self.places.get(key).copied(),
        };
        if let Some(place) = known {
            self.entries[place].value = value;
            return;
        }
        self.entries.push(Entry { hash, key, value });
        if self.entries.len() > FEW {
            let known = self.places.len();
            self.places.extend(self.entries.iter().enumerate().skip(known).map(|(place, entry)| (entry.key, place)));
        }
    }

    /// The entries by their buckets.
    fn in_order(&mut self) -> &[Entry<'a>] {
        let last = u32::try_from(self.buckets - 1).unwrap_or(u32::MAX);
        self.entries.sort_by_key(|entry| entry.hash & last);
        &self.entries
    }
}

/// The hash of a text in Java's hash tables.
fn spread_hash(text: &str) -> u32 {
    let hash = text.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of more keys than are searched one by one.
    #[test]
    fn many_keys_have_the_order_of_java() {
        let names: Vec<String> = (1..=20).map(|number| format!("k{}", number % 18)).collect();
        let mut table = Table::default();
        table.clear(names.len());
        for (place, name) in names.iter().enumerate() {
            table.put(name, (place >= 18).then_some("last"));
        }
        let order: Vec<&str> = table.in_order().iter().map(|entry| entry.key).collect();
        assert_eq!(order.len(), 18);
        assert_eq!(table.entries.iter().filter(|entry| entry.value == Some("last")).count(), 2);
        assert_eq!(order[..4], ["k0", "k1", "k2", "k3"], "{order:?}");
    }
}
