//! Columns with metadata of a record: `ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'`.

use std::sync::Arc;

use anabranch_dataflow::SourceSpec;
use anabranch_model::{Error, Result};
use arrow::array::{
    Array, ArrayBuilder, ArrayRef, BinaryArray, BinaryBuilder, BooleanArray, Int32Array, Int64Array, MapArray,
    RecordBatch, StringViewArray, StringViewBuilder, StructArray, TimestampMillisecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::content::ValueFormat;
use super::native::Received;
use super::versions::{self, KeyReader, RecordKey, Versions};
use crate::format::debezium::{DebeziumDecoder, Description};
use crate::format::{Decode, Decoded, batch, map_of_texts, source_schema};

/// A kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Topic,
    Partition,
    Headers,
    LeaderEpoch,
    Offset,
    Timestamp,
    TimestampType,
    /// Metadata of a change.
    Described(Description),
    /// Whether the record has no value, or retracts a row. Only for tables of versions.
    Deleted,
    /// Whether the row is inserted or deleted. Only for tables of changes.
    Weight,
}

/// Determines which of two versions is later.
pub(super) const ORDER: &str = "offset";
/// Whether a version deletes its row.
pub(super) const DELETED: &str = "tombstone";
/// Whether the row of a change is inserted or deleted.
pub(super) const WEIGHT: &str = "weight";

const KEYS: [(Key, &str); 9] = [
    (Key::Topic, "topic"),
    (Key::Partition, "partition"),
    (Key::Headers, "headers"),
    (Key::LeaderEpoch, "leader-epoch"),
    (Key::Offset, "offset"),
    (Key::Timestamp, "timestamp"),
    (Key::TimestampType, "timestamp-type"),
    (Key::Deleted, DELETED),
    (Key::Weight, WEIGHT),
];

/// Metadata that is the same for the records that insert a row and retract it.
pub(super) const KEPT: &[&str] =
    &["topic", "partition", "value.source.database", "value.source.schema", "value.source.table"];

/// Prefix of the names of metadata in the values of changes.
const OF_VALUE: &str = "value.";

/// The metadata of changes with their types.
pub(super) fn known_of_changes() -> SchemaRef {
    let described =
        Description::NAMES.map(|(name, what)| Field::new(format!("{OF_VALUE}{name}"), what.data_type(), true));
    let fields: Vec<Arc<Field>> = known().fields().iter().cloned().chain(described.map(Arc::new)).collect();
    Arc::new(Schema::new(fields))
}

/// The metadata with their types.
pub(super) fn known() -> SchemaRef {
    let field = |(key, name): (Key, &str)| {
        let data_type = match key {
            Key::Topic | Key::TimestampType => DataType::Utf8View,
            Key::Partition | Key::LeaderEpoch => DataType::Int32,
            Key::Offset | Key::Weight => DataType::Int64,
            Key::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            Key::Headers => map_of_texts(DataType::Binary),
            Key::Deleted => DataType::Boolean,
            Key::Described(what) => what.data_type(),
        };
        Field::new(name, data_type, key == Key::LeaderEpoch)
    };
    let known = KEYS.into_iter().filter(|(key, _)| !matches!(key, Key::Deleted | Key::Weight));
    Arc::new(Schema::new(known.map(field).collect::<Vec<_>>()))
}

/// Which metadata of records the query needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WantedMetadata {
    times: bool,
    headers: bool,
    leader_epochs: bool,
    keys: bool,
}

/// The metadata that the query needs, of each record of a block.
#[derive(Default)]
pub(super) struct GatheredMetadata {
    times: Vec<(i64, &'static str)>,
    headers: Vec<Vec<(String, Option<Vec<u8>>)>>,
    leader_epochs: Vec<Option<i32>>,
    keys: BinaryBuilder,
}

impl GatheredMetadata {
    pub(super) fn push(&mut self, wanted: WantedMetadata, record: &Received<'_>) {
        if wanted.times {
            self.times.push(record.time());
        }
        if wanted.headers {
            self.headers.push(record.headers());
        }
        if wanted.leader_epochs {
            self.leader_epochs.push(record.leader_epoch());
        }
        if wanted.keys {
            self.keys.append_option(record.key());
        }
    }
}

/// The origin of a column of the source's rows.
enum Origin {
    Decoded(usize),
    /// From the record's key.
    Key(usize),
    Metadata(Key),
}

/// Decodes values.
enum Decoder {
    Rows(Box<dyn Decode>),
    Changes(Box<DebeziumDecoder>),
}

/// Decodes records to rows, with metadata.
pub(super) struct RowReader {
    decoder: Decoder,
    /// Reads keys, if columns are read from them.
    keys: Option<KeyReader>,
    schema: SchemaRef,
    origins: Vec<Origin>,
    pub(super) wanted: WantedMetadata,
}

/// The records of a block.
pub(super) struct Records<'a> {
    pub(super) topic: &'a str,
    pub(super) partition: i32,
    pub(super) offsets: &'a [i64],
    pub(super) gathered: &'a GatheredMetadata,
}

impl RowReader {
    /// The reader of a table whose format decodes all columns except those with metadata. `key`: the key, if
    /// columns are read from it.
    pub(super) fn new(content: &ValueFormat, spec: &SourceSpec, key: Option<&RecordKey>) -> Result<RowReader> {
        let of_value = |column: &usize| {
            let is_left_out = key.is_some_and(|key| !key.in_values && key.columns.contains(column));
            !spec.metadata.contains_key(column) && !is_left_out
        };
        let physical: Vec<usize> = (0..spec.declared.fields().len()).filter(of_value).collect();
        let of_key = |column: &usize| key?.columns.iter().position(|other| other == column);
        let (mut projection, mut origins) = (Vec::new(), Vec::new());
        for column in &spec.projection {
            if let Some(index) = of_key(column) {
                origins.push(Origin::Key(index));
                continue;
            }
            origins.push(match (spec.metadata.get(column), physical.binary_search(column)) {
                (Some(name), _) => {
                    let key = of_name(name)?;
                    let is_kept = key == Key::Weight || KEPT.contains(&name.as_str());
                    if content.has_changes() && spec.key.is_empty() && !is_kept {
                        return Err(no_metadata_of_changes(spec.declared.field(*column).name(), name));
                    }
                    Origin::Metadata(key)
                }
                (None, Ok(index)) => {
                    projection.push(index);
                    Origin::Decoded(projection.len() - 1)
                }
                (None, Err(_)) => return Err(Error::internal("a column of no kind")),
            });
        }
        let keys = key.map(RecordKey::reader).transpose()?;
        let declared = Arc::new(spec.declared.project(&physical)?);
        let decoder = match content {
            ValueFormat::Rows(format) => Decoder::Rows(format.decoder(&declared, &projection)?),
            ValueFormat::Changes(changes) => {
                let decoded = |column: &usize| {
                    let index = physical.binary_search(column).ok()?;
                    projection.iter().position(|decoded| *decoded == index)
                };
                let key = spec.key.iter().map(decoded).collect::<Option<_>>();
                let key = key.ok_or_else(|| Error::internal("versions without the columns of their key"))?;
                let describes = origins.iter().any(|origin| matches!(origin, Origin::Metadata(Key::Described(_))));
                Decoder::Changes(Box::new(changes.decoder(&declared, &projection, key, describes)?))
            }
        };
        let has =
            |keys: &[Key]| origins.iter().any(|origin| matches!(origin, Origin::Metadata(key) if keys.contains(key)));
        let wanted = WantedMetadata {
            times: has(&[Key::Timestamp, Key::TimestampType]),
            headers: has(&[Key::Headers]),
            leader_epochs: has(&[Key::LeaderEpoch]),
            keys: keys.is_some(),
        };
        Ok(RowReader { decoder, keys, schema: source_schema(spec)?, origins, wanted })
    }

    /// Returns the rows, and the indexes and errors of records that could not be decoded.
    pub(super) fn read(
        &mut self,
        values: &BinaryArray,
        records: &Records<'_>,
    ) -> Result<(RecordBatch, Vec<(usize, String)>)> {
        let (mut weights, mut described) = (Vec::new(), None);
        let decoded = match (&mut self.decoder, &mut self.keys) {
            (Decoder::Rows(decoder), Some(keys)) => {
                versions::decode(decoder.as_mut(), keys, (values, &records.gathered.keys.finish_cloned()))?
            }
            (Decoder::Rows(decoder), None) => {
                let Decoded { batch, malformed } = decoder.decode(values)?;
                if self.origins.iter().all(|origin| matches!(origin, Origin::Decoded(_))) {
                    return Ok((batch, malformed));
                }
                // The rows belong to the records that could be decoded.
                let mut bad = malformed.iter().map(|(index, _)| *index).peekable();
                let good = (0..values.len()).filter(|index| bad.next_if_eq(index).is_none()).collect();
                Versions { values: batch.columns().to_vec(), keys: Vec::new(), good, malformed }
            }
            (Decoder::Changes(decoder), _) => {
                let changes = decoder.decode(values)?;
                (weights, described) = (changes.weights, changes.described);
                let (values, good, malformed) = (changes.columns, changes.records, changes.malformed);
                Versions { values, keys: Vec::new(), good, malformed }
            }
        };
        let Versions { values: content, keys, good, malformed } = decoded;
        let columns = self.origins.iter().zip(self.schema.fields()).map(|(origin, field)| match origin {
            Origin::Decoded(column) => Ok(Arc::clone(&content[*column])),
            Origin::Key(column) => Ok(Arc::clone(&keys[*column])),
            Origin::Metadata(Key::Headers) => headers(records.gathered, &good, field.data_type()),
            Origin::Metadata(Key::Described(what)) => {
                let described = described.as_ref().ok_or_else(|| Error::internal("changes without a description"))?;
                Ok(cast(&described.column(*what)?, field.data_type())?)
            }
            Origin::Metadata(Key::Deleted) if !weights.is_empty() => {
                Ok(Arc::new(weights.iter().map(|weight| Some(*weight < 0)).collect::<BooleanArray>()) as ArrayRef)
            }
            Origin::Metadata(Key::Deleted) => {
                Ok(Arc::new(good.iter().map(|index| Some(values.is_null(*index))).collect::<BooleanArray>())
                    as ArrayRef)
            }
            Origin::Metadata(Key::Weight) => Ok(Arc::new(Int64Array::from(weights.clone())) as ArrayRef),
            Origin::Metadata(key) => Ok(cast(&simple(*key, records, &good), field.data_type())?),
        });
        Ok((batch(&self.schema, columns.collect::<Result<_>>()?, good.len())?, malformed))
    }
}

/// A deletion has other metadata than the insertion of the same row, so it would not retract that row.
fn no_metadata_of_changes(column: &str, name: &str) -> Error {
    Error::user(format!(
        "metadata '{name}' cannot be read from a table of changes: the retraction of a row has another value than its insertion"
    ))
    .at(format!("column '{column}'"))
    .remedy(
        "declare the table's PRIMARY KEY: then the latest row of each key is kept with its metadata; or leave the column out of the query",
    )
}

fn of_name(name: &str) -> Result<Key> {
    let described = |name| Description::NAMES.into_iter().find(|(known, _)| *known == name);
    let described = name.strip_prefix(OF_VALUE).and_then(described).map(|(_, what)| Key::Described(what));
    let found = KEYS.into_iter().find(|(_, known)| *known == name).map(|(key, _)| key);
    found.or(described).ok_or_else(|| Error::internal(format!("metadata '{name}' was not refused")))
}

/// A column with one value per record.
fn simple(key: Key, records: &Records<'_>, good: &[usize]) -> ArrayRef {
    let times = || good.iter().map(|index| records.gathered.times[*index]);
    match key {
        Key::Topic => Arc::new(StringViewArray::from_iter_values(good.iter().map(|_| records.topic))),
        Key::Partition => Arc::new(Int32Array::from_value(records.partition, good.len())),
        Key::Offset => Arc::new(Int64Array::from_iter_values(good.iter().map(|index| records.offsets[*index]))),
        Key::Timestamp => {
            Arc::new(TimestampMillisecondArray::from_iter_values(times().map(|(ms, _)| ms)).with_timezone("UTC"))
        }
        Key::TimestampType => Arc::new(StringViewArray::from_iter_values(times().map(|(_, kind)| kind))),
        Key::LeaderEpoch | Key::Headers | Key::Deleted | Key::Weight | Key::Described(_) => {
            Arc::new(good.iter().map(|index| records.gathered.leader_epochs[*index]).collect::<Int32Array>())
        }
    }
}

/// Of two headers with the same name, the later one counts.
fn headers(gathered: &GatheredMetadata, good: &[usize], data_type: &DataType) -> Result<ArrayRef> {
    let wrong = || Error::internal("headers that are no map");
    let DataType::Map(entries, is_sorted) = data_type else { return Err(wrong()) };
    let DataType::Struct(fields) = entries.data_type() else { return Err(wrong()) };
    let [key, value] = &fields[..] else { return Err(wrong()) };
    let (mut names, mut values) = (StringViewBuilder::new(), BinaryBuilder::new());
    let mut lengths = Vec::with_capacity(good.len());
    for index in good {
        let of_record = &gathered.headers[*index];
        let is_last = |entry: usize| of_record[entry + 1..].iter().all(|(later, _)| *later != of_record[entry].0);
        let kept = of_record.iter().enumerate().filter(|(entry, _)| is_last(*entry));
        let before = names.len();
        for (_, (name, value)) in kept {
            names.append_value(name);
            values.append_option(value.as_deref());
        }
        lengths.push(names.len() - before);
    }
    let columns = vec![
        cast(&(Arc::new(names.finish()) as ArrayRef), key.data_type())?,
        cast(&(Arc::new(values.finish()) as ArrayRef), value.data_type())?,
    ];
    let rows = StructArray::try_new(fields.clone(), columns, None)?;
    let map = MapArray::try_new(Arc::clone(entries), OffsetBuffer::from_lengths(lengths), rows, None, *is_sorted)?;
    Ok(Arc::new(map))
}

#[cfg(test)]
mod tests {
    use anabranch_dataflow::ConnectorSpec;

    use super::*;
    use crate::format::debezium::DebeziumOptions;

    #[test]
    fn of_changes_no_metadata_is_read_that_differs_when_a_row_is_taken_back() {
        let known = known();
        let mut fields: Vec<Field> = known.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new("id", DataType::Int64, true));
        let id = fields.len() - 1;
        let open = |column: usize| {
            let metadata = known.fields().iter().enumerate().map(|(index, field)| (index, field.name().clone()));
            let spec = SourceSpec {
                projection: vec![column, id],
                metadata: metadata.collect(),
                ..SourceSpec::new("t", ConnectorSpec::new("kafka", &[]), Arc::new(Schema::new(fields.clone())))
            };
            RowReader::new(&ValueFormat::Changes(DebeziumOptions::default()), &spec, None)
        };
        for (column, field) in known.fields().iter().enumerate() {
            match (field.name().as_str(), open(column)) {
                ("topic" | "partition", read) => assert!(read.is_ok()),
                (name, read) => {
                    let error = read.err().unwrap().to_string();
                    assert!(error.contains(&format!("column '{name}': metadata '{name}' cannot be read")), "{error}");
                    assert!(error.contains("leave the column out of the query"), "{error}");
                }
            }
        }
    }
}
