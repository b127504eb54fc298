//! Cached answers: the rows of each key. The least recently used keys are evicted first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{LookupJoinSpec, PartialCache};
use anabranch_model::{Error, Nanos, Result};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{OwnedRow, RowConverter, SortField};

use crate::format::batch;

/// Limit of the bytes of a cache, whatever its other limits are.
const BYTES_MAX: usize = 64 << 20;
/// Memory of an entry beside its bytes.
const ENTRY_BYTES: usize = 96;

/// The rows of the cached keys. Evicts the least recently used keys.
pub(super) struct Cache {
    bounds: PartialCache,
    /// The key columns of a table's rows, in the order of the keys of a call.
    key_columns: Vec<usize>,
    schema: SchemaRef,
    rows: RowConverter,
    /// Encodes keys, once their types are known.
    keys: Option<(Vec<DataType>, RowConverter)>,
    entries: BTreeMap<Arc<[u8]>, CacheEntry>,
    /// Keys by their last use.
    used: BTreeMap<u64, Arc<[u8]>>,
    uses: u64,
    rows_held: u64,
    bytes_held: usize,
}

struct CacheEntry {
    rows: Vec<OwnedRow>,
    bytes: usize,
    written: Nanos,
    accessed: Nanos,
    use_number: u64,
}

impl CacheEntry {
    /// Its share of the limit of rows. A key without rows counts as one row.
    fn counts(&self) -> u64 {
        (self.rows.len() as u64).max(1)
    }
}

/// The result of a lookup in the cache.
pub(super) struct CachedRows {
    pub(super) rows: RecordBatch,
    /// The keys that are not cached, if any.
    pub(super) missing: Option<RecordBatch>,
    pub(super) hits: u64,
}

impl Cache {
    pub(super) fn new(spec: &LookupJoinSpec, bounds: PartialCache) -> Result<Cache> {
        let schema: SchemaRef = Arc::new(spec.table.decoded()?);
        let fields: Vec<SortField> = schema.fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
        if !RowConverter::supports_fields(&fields) {
            return Err(Error::user("'lookup.cache' = 'PARTIAL' cannot keep columns of type MAP")
                .remedy("SET 'lookup.cache' = 'NONE', or leave these columns out of the query"));
        }
        Ok(Cache {
            bounds,
            key_columns: spec.keys.iter().map(|key| key.column).collect(),
            schema,
            rows: RowConverter::new(fields)?,
            keys: None,
            entries: BTreeMap::new(),
            used: BTreeMap::new(),
            uses: 0,
            rows_held: 0,
            bytes_held: 0,
        })
    }

    pub(super) fn get(&mut self, keys: &RecordBatch, now: Nanos) -> Result<CachedRows> {
        let encoded = self.key_bytes(keys.columns())?;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (row, key) in encoded.iter().enumerate() {
            match self.fresh(key, now) {
                Some(entry) => found.push(entry),
                None => missing.push(row as u32),
            }
        }
        let rows: Vec<&OwnedRow> = found.iter().filter_map(|key| self.entries.get(key)).flat_map(|e| &e.rows).collect();
        let columns = self.rows.convert_rows(rows.iter().map(|row| row.row()))?;
        let rows = batch(&self.schema, columns, rows.len())?;
        let missing = match missing.is_empty() {
            true => None,
            false => Some(taken(keys, &UInt32Array::from(missing))?),
        };
        Ok(CachedRows { rows, missing, hits: found.len() as u64 })
    }

    /// Caches the answer for keys.
    pub(super) fn put(&mut self, keys: &RecordBatch, rows: &RecordBatch, now: Nanos) -> Result<()> {
        let requested = self.key_bytes(keys.columns())?;
        let own = own_keys(rows, keys, &self.key_columns)?;
        let mut by_key: BTreeMap<Arc<[u8]>, Vec<usize>> = BTreeMap::new();
        for (row, key) in self.key_bytes(&own)?.into_iter().enumerate() {
            by_key.entry(key).or_default().push(row);
        }
        let encoded = self.rows.convert_columns(rows.columns())?;
        for key in requested {
            let rows: Vec<OwnedRow> =
                by_key.get(&key).into_iter().flatten().map(|row| encoded.row(*row).owned()).collect();
            if !rows.is_empty() || self.bounds.keeps_missing {
                self.insert(key, rows, now);
            }
        }
        self.make_room();
        Ok(())
    }

    /// Marks the entry of a key as used now, unless it is missing or expired.
    fn fresh(&mut self, key: &Arc<[u8]>, now: Nanos) -> Option<Arc<[u8]>> {
        let entry = self.entries.get_mut(key)?;
        let is_over = |since: Nanos, ms: Option<u64>| ms.is_some_and(|ms| now.since(since) / 1_000_000 >= ms);
        if is_over(entry.written, self.bounds.expire_after_write_ms)
            || is_over(entry.accessed, self.bounds.expire_after_access_ms)
        {
            self.remove(key);
            return None;
        }
        let key = self.used.remove(&entry.use_number)?;
        self.uses += 1;
        (entry.accessed, entry.use_number) = (now, self.uses);
        self.used.insert(self.uses, Arc::clone(&key));
        Some(key)
    }

    fn insert(&mut self, key: Arc<[u8]>, rows: Vec<OwnedRow>, now: Nanos) {
        self.remove(&key);
        self.uses += 1;
        let bytes = ENTRY_BYTES + key.len() + rows.iter().map(|row| row.as_ref().len() + 32).sum::<usize>();
        let entry = CacheEntry { rows, bytes, written: now, accessed: now, use_number: self.uses };
        self.rows_held += entry.counts();
        self.bytes_held += bytes;
        self.used.insert(self.uses, Arc::clone(&key));
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &Arc<[u8]>) {
        if let Some(entry) = self.entries.remove(key) {
            self.used.remove(&entry.use_number);
            self.rows_held -= entry.counts();
            self.bytes_held -= entry.bytes;
        }
    }

    fn make_room(&mut self) {
        let rows_max = self.bounds.rows_max.unwrap_or(u64::MAX);
        while self.rows_held > rows_max || self.bytes_held > BYTES_MAX {
            let Some((_, oldest)) = self.used.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    /// Each key as bytes. Equal keys have equal bytes.
    fn key_bytes(&mut self, columns: &[ArrayRef]) -> Result<Vec<Arc<[u8]>>> {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        if self.keys.as_ref().is_none_or(|(known, _)| *known != types) {
            self.keys = Some((types, key_converter(columns)?));
        }
        let Some((_, converter)) = &self.keys else { return Ok(Vec::new()) };
        let rows = converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| Arc::from(row.as_ref())).collect())
    }
}

/// The given rows of a batch.
fn taken(whole: &RecordBatch, rows: &UInt32Array) -> Result<RecordBatch> {
    let columns = whole.columns().iter().map(|column| take(column, rows, None)).collect::<Result<Vec<_>, _>>()?;
    batch(whole.schema_ref(), columns, rows.len())
}

/// Encodes keys with these columns. Equal keys have equal bytes.
fn key_converter(columns: &[ArrayRef]) -> Result<RowConverter> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?)
}

/// The distinct keys of several batches.
pub(super) fn different(keys: &RecordBatch) -> Result<RecordBatch> {
    let encoded = key_converter(keys.columns())?.convert_columns(keys.columns())?;
    let mut known: BTreeMap<&[u8], u32> = BTreeMap::new();
    let bytes: Vec<_> = encoded.iter().collect();
    for (row, key) in bytes.iter().enumerate() {
        known.entry(key.as_ref()).or_insert(row as u32);
    }
    let mut rows: Vec<u32> = known.into_values().collect();
    rows.sort_unstable();
    taken(keys, &UInt32Array::from(rows))
}

/// The keys in rows, in the types of the requested keys.
fn own_keys(rows: &RecordBatch, keys: &RecordBatch, key_columns: &[usize]) -> Result<Vec<ArrayRef>> {
    let columns = key_columns.iter().zip(keys.columns());
    columns.map(|(column, key)| Ok(cast(rows.column(*column), key.data_type())?)).collect()
}

/// The rows of an answer with one of these keys. Others may have been requested by the same call for another
/// batch.
pub(super) fn only(rows: &RecordBatch, keys: &RecordBatch, key_columns: &[usize]) -> Result<RecordBatch> {
    let converter = key_converter(keys.columns())?;
    let requested = converter.convert_columns(keys.columns())?;
    let requested: BTreeSet<_> = requested.iter().collect();
    let own = converter.convert_columns(&own_keys(rows, keys, key_columns)?)?;
    let kept = own.iter().enumerate().filter(|(_, key)| requested.contains(key)).map(|(row, _)| row as u32);
    taken(rows, &UInt32Array::from_iter_values(kept))
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::{ConnectorSpec, JoinKind, LookupCache, LookupKey, SourceSpec, StaticJoinSpec};
    use arrow::array::{AsArray, Int64Array, StringViewArray};
    use arrow::datatypes::{Field, Int64Type, Schema};

    use super::*;

    fn cache(bounds: PartialCache) -> Cache {
        let declared: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("name", DataType::Utf8View, true),
        ]));
        let table = SourceSpec::new("t", ConnectorSpec::new("x", &[]), Arc::clone(&declared));
        let join = StaticJoinSpec {
            kind: JoinKind::Inner,
            probe_keys: Vec::new(),
            build_keys: Vec::new(),
            filter: None,
            probe_schema: Arc::clone(&declared),
            build_schema: declared,
            output: Vec::new(),
        };
        let keys = vec![LookupKey { column: 0, key: 0 }];
        let spec =
            LookupJoinSpec { join, table, operators: Vec::new(), keys, cache: LookupCache::None, max_retries: 0 };
        Cache::new(&spec, bounds).expect("a cache")
    }

    const UNBOUNDED: PartialCache =
        PartialCache { rows_max: None, expire_after_write_ms: None, expire_after_access_ms: None, keeps_missing: true };

    fn keys(numbers: &[i64]) -> RecordBatch {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(numbers.to_vec()))]).expect("keys")
    }

    fn rows(cache: &Cache, pairs: &[(i64, &str)]) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(pairs.iter().map(|row| row.0).collect::<Int64Array>()),
            Arc::new(pairs.iter().map(|row| Some(row.1)).collect::<StringViewArray>()),
        ];
        RecordBatch::try_new(Arc::clone(&cache.schema), columns).expect("rows")
    }

    /// The names that were found, and the keys that were not.
    fn get(cache: &mut Cache, asked: &[i64], ms: u64) -> (Vec<String>, Vec<i64>) {
        let known = cache.get(&keys(asked), Nanos(ms * 1_000_000)).expect("an answer");
        let names = known.rows.column(1).as_string_view().iter().flatten().map(str::to_owned).collect();
        let missing = known.missing.map(|keys| keys.column(0).as_primitive::<Int64Type>().values().to_vec());
        let missing = missing.unwrap_or_default();
        assert_eq!(known.hits as usize, asked.len() - missing.len());
        (names, missing)
    }

    fn put(cache: &mut Cache, asked: &[i64], pairs: &[(i64, &str)], ms: u64) {
        let rows = rows(cache, pairs);
        cache.put(&keys(asked), &rows, Nanos(ms * 1_000_000)).expect("room");
    }

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_key_has_all_of_its_rows_and_one_without_rows_is_known_too() {
        let mut cache = cache(UNBOUNDED);
        put(
            &mut cache,
            &[1, 2, 3],
            &[(1, "a"), (3, "a name that is longer than a view"), (1, "b"), (9, "nobody asked")],
            0,
        );
        assert_eq!(get(&mut cache, &[2, 1, 4], 5), (texts(&["a", "b"]), vec![4]));
        assert_eq!(get(&mut cache, &[3, 9], 5), (texts(&["a name that is longer than a view"]), vec![9]));
        put(&mut cache, &[1], &[(1, "c")], 6);
        assert_eq!(get(&mut cache, &[1], 7), (texts(&["c"]), vec![]));
    }

    #[test]
    fn keys_without_rows_are_asked_again_if_the_cache_is_told_so() {
        let mut cache = cache(PartialCache { keeps_missing: false, ..UNBOUNDED });
        put(&mut cache, &[1, 2], &[(1, "a")], 0);
        assert_eq!(get(&mut cache, &[1, 2], 0), (texts(&["a"]), vec![2]));
    }

    #[test]
    fn answers_expire_after_they_were_written_or_were_not_used() {
        let mut written = cache(PartialCache { expire_after_write_ms: Some(100), ..UNBOUNDED });
        put(&mut written, &[1], &[(1, "a")], 0);
        assert_eq!(get(&mut written, &[1], 99), (texts(&["a"]), vec![]));
        assert_eq!(get(&mut written, &[1], 100), (vec![], vec![1]), "although it was used");
        let mut used = cache(PartialCache { expire_after_access_ms: Some(100), ..UNBOUNDED });
        put(&mut used, &[1], &[(1, "a")], 0);
        assert_eq!(get(&mut used, &[1], 90), (texts(&["a"]), vec![]));
        assert_eq!(get(&mut used, &[1], 189), (texts(&["a"]), vec![]));
        assert_eq!(get(&mut used, &[1], 289), (vec![], vec![1]));
        assert_eq!((used.entries.len(), used.used.len(), used.rows_held, used.bytes_held), (0, 0, 0, 0));
    }

    #[test]
    fn what_was_used_longest_ago_leaves_first() {
        let mut cache = cache(PartialCache { rows_max: Some(3), ..UNBOUNDED });
        put(&mut cache, &[1, 2, 3], &[(1, "a"), (2, "b")], 0);
        assert_eq!(get(&mut cache, &[1], 1), (texts(&["a"]), vec![]));
        put(&mut cache, &[4], &[(4, "d")], 2);
        assert_eq!(get(&mut cache, &[1, 2, 3, 4], 3), (texts(&["a", "d"]), vec![2]));
        put(&mut cache, &[5], &[(5, "e"), (5, "f"), (5, "g")], 4);
        assert_eq!(get(&mut cache, &[1, 3, 4, 5], 5), (texts(&["e", "f", "g"]), vec![1, 3, 4]));
    }

    #[test]
    fn keys_that_several_batches_ask_for_are_asked_once() {
        let asked = different(&keys(&[3, 1, 3, 2, 1])).expect("keys");
        assert_eq!(asked.column(0).as_primitive::<Int64Type>().values().to_vec(), [3, 1, 2]);
    }

    #[test]
    fn of_an_answer_for_several_each_gets_the_rows_of_its_own_keys() {
        let cache = cache(UNBOUNDED);
        let answer = rows(&cache, &[(1, "a"), (2, "b"), (3, "c"), (2, "d")]);
        let names = |asked: &[i64]| -> Vec<String> {
            let own = only(&answer, &keys(asked), &[0]).expect("rows");
            own.column(1).as_string_view().iter().flatten().map(str::to_owned).collect()
        };
        assert_eq!(names(&[2, 4]), texts(&["b", "d"]));
        assert_eq!(names(&[1, 3]), texts(&["a", "c"]));
        assert_eq!(names(&[5]), texts(&[]));
    }
}
