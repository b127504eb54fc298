//! The first rows of one partition, in order.

/// Set in the number of a row of the batch, unset for a row of the store.
const OF_BATCH: u32 = 1 << 31;

/// One of the first rows, with the number of its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// A number with the order of the rows: rows with different prefixes are ordered by them.
    pub(super) prefix: u64,
    row: u32,
    /// How many equal rows are among the first ones.
    pub(super) copies: u32,
}

/// Where a row is, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// In the store.
    Kept(usize),
    Batch(usize),
}

impl Entry {
    pub(super) fn of_store(prefix: u64, row: u32, copies: u32) -> Entry {
        Entry { prefix, row, copies }
    }

    pub(super) fn of_batch(prefix: u64, row: u32, copies: u32) -> Entry {
        Entry { prefix, row: row | OF_BATCH, copies }
    }

    pub(super) fn place(&self) -> RowPlace {
        match self.row & OF_BATCH {
            0 => RowPlace::Kept(self.row as usize),
            _ => RowPlace::Batch((self.row & !OF_BATCH) as usize),
        }
    }

    /// The row is now in the store, or has another number there.
    pub(super) fn keep_as(&mut self, row: u32) {
        self.row = row;
    }

    /// The number of a row that is in the store.
    pub(super) fn kept(&self) -> usize {
        self.row as usize
    }
}

/// The greatest number of rows of a store, and of a batch.
pub(super) const ROWS_MAX: usize = OF_BATCH as usize - 1;

/// The first rows of a partition, in order.
#[derive(Clone, Debug, Default)]
pub(super) enum Partition {
    #[default]
    None,
    /// One entry takes no memory elsewhere: there may be millions of partitions with one row.
    One(Entry),
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
pub(super) struct Many {
    entries: Vec<Entry>,
    /// Number of rows, copies included.
    rows: u64,
}

impl Many {
    fn new(entries: Vec<Entry>) -> Many {
        Many { rows: entries.iter().map(|entry| u64::from(entry.copies)).sum(), entries }
    }

    fn cut(&mut self, limit: u64) {
        while self.rows > limit {
            let beyond = self.rows - limit;
            let Some(last) = self.entries.last_mut() else { return };
            let copies = u64::from(last.copies);
            if copies > beyond {
                last.copies -= u32::try_from(beyond).unwrap_or(0);
                self.rows = limit;
                return;
            }
            self.rows -= copies;
            self.entries.pop();
        }
    }
}

impl Partition {
    pub(super) fn entries(&self) -> &[Entry] {
        match self {
            Partition::None => &[],
            Partition::One(entry) => std::slice::from_ref(entry),
            Partition::Many(many) => &many.entries,
        }
    }

    /// Number of rows, copies included.
    pub(super) fn rows(&self) -> u64 {
        match self {
            Partition::None => 0,
            Partition::One(entry) => u64::from(entry.copies),
            Partition::Many(many) => many.rows,
        }
    }

    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        match self {
            Partition::None => &mut [],
            Partition::One(entry) => std::slice::from_mut(entry),
            Partition::Many(many) => &mut many.entries,
        }
    }

    fn set(&mut self, entries: Vec<Entry>) {
        match (&mut *self, entries.as_slice()) {
            (_, []) => *self = Partition::None,
            (_, [one]) => *self = Partition::One(*one),
            (Partition::Many(many), _) => **many = Many::new(entries),
            _ => *self = Partition::Many(Box::new(Many::new(entries))),
        }
    }

    pub(super) fn insert(&mut self, at: usize, entry: Entry) {
        match self {
            Partition::None => *self = Partition::One(entry),
            Partition::One(one) => {
                let mut entries = vec![*one, *one];
                entries[at] = entry;
                self.set(entries);
            }
            Partition::Many(many) => {
                many.rows += u64::from(entry.copies);
                many.entries.insert(at, entry);
            }
        }
    }

    /// Inserts entries, in order, each before the entry at its index.
    pub(super) fn merge(&mut self, new: &[(usize, Entry)]) {
        if new.is_empty() {
            return;
        }
        let (former, mut taken) = (self.entries(), 0);
        let mut entries = Vec::with_capacity(former.len() + new.len());
        for (at, entry) in new {
            entries.extend_from_slice(&former[taken..*at]);
            entries.push(*entry);
            taken = *at;
        }
        entries.extend_from_slice(&former[taken..]);
        self.set(entries);
    }

    /// Adds a copy of the row of an entry.
    pub(super) fn repeat(&mut self, at: usize) {
        self.entries_mut()[at].copies += 1;
        if let Partition::Many(many) = self {
            many.rows += 1;
        }
    }

    /// Keeps the first `limit` rows.
    pub(super) fn cut(&mut self, limit: u64) {
        match self {
            Partition::Many(many) => many.cut(limit),
            Partition::One(entry) if u64::from(entry.copies) > limit => match u32::try_from(limit) {
                Ok(copies @ 1..) => entry.copies = copies,
                _ => *self = Partition::None,
            },
            _ => {}
        }
    }

    /// Reads the numbers of copies again, drops entries without any, and keeps the first `limit` rows. Rows
    /// that are dropped get no copies.
    pub(super) fn recount(&mut self, copies: &mut [u32], limit: u64) {
        let entries = self.entries_mut();
        entries.iter_mut().for_each(|entry| entry.copies = std::mem::take(&mut copies[entry.kept()]));
        let left: Vec<Entry> = entries.iter().filter(|entry| entry.copies > 0).copied().collect();
        self.set(left);
        self.cut(limit);
        self.entries().iter().for_each(|entry| copies[entry.kept()] = entry.copies);
    }

    /// Memory beside the partition itself.
    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Partition::Many(many) => many.entries.capacity() * size_of::<Entry>() + size_of::<Many>() + 32,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_of_one_row_is_small() {
        assert!(size_of::<Partition>() <= 24, "{}", size_of::<Partition>());
    }
}
