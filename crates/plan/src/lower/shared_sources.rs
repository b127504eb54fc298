//! One source for all stages that read a table in the same way.
//!
//! Lowering gives each reference to a table a source of its own. Then sources that differ only in their
//! decoded columns become one stage, which decodes the columns of all. Forward exchanges send its rows to the
//! readers. A reader begins with a projection to its own columns, unless it reads all. Filters stay with the
//! readers.
//!
//! A table that is read to its end for the static side of a join is not shared. Its reader takes all rows
//! before the stream begins, so a source that also feeds the stream would wait for room in the stream's
//! channel for ever. Therefore shared sources only feed stages that take rows as they arrive, and a channel
//! that alignment holds back waits only for markers on their way.
//!
//! Sources with different numbers of tasks are not shared. The number itself does not matter: positions have
//! the same identities at any parallelism.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{
    Exchange, ExchangeKind, Expr, NamedExpr, ONE_ROW, OperatorSpec, Port, SourceSpec, Stage, StageOrigin, add_places,
    static_stages,
};
use anabranch_model::{Error, Result, StageId};
use arrow::datatypes::Schema;

use super::Lowering;
use super::row_fields::{each_first_expr, each_input_schema, read_fields_alone};

/// Scans that read a table in the same way. Their stages have the same label, and so the same number of tasks
/// in `stage-parallelism`.
pub(super) struct Readers {
    reading: SourceSpec,
    label: String,
    scans: usize,
}

impl Lowering<'_> {
    /// The label of a source's stage, and its own number of tasks, if it has one.
    pub(super) fn source_label(&mut self, source: &SourceSpec) -> (String, Option<u32>) {
        let reading = reading(source);
        if let Some(readers) = self.lowered.readers.iter_mut().find(|readers| readers.reading == reading) {
            readers.scans += 1;
            let own = self.own.get(&readers.label).copied();
            return (readers.label.clone(), own);
        }
        let (label, own) = self.own_parallelism(&format!("source {}", source.table));
        self.lowered.readers.push(Readers { reading, label: label.clone(), scans: 1 });
        (label, own)
    }

    /// Removes a scan's label: its stage has a fixed number of tasks.
    pub(super) fn give_up_label(&mut self, label: &str) {
        let readers = &mut self.lowered.readers;
        readers.iter_mut().filter(|readers| readers.label == label).for_each(|readers| readers.scans -= 1);
        readers.retain(|readers| readers.scans > 0);
        if !readers.iter().any(|readers| readers.label == label) {
            self.lowered.labels.remove(label);
        }
    }
}

/// The source without its decoded columns: equal for scans that read a table in the same way.
fn reading(source: &SourceSpec) -> SourceSpec {
    let declared = source.declared.fields().len();
    let place = |column: usize| source.projection.get(column).copied().unwrap_or(declared);
    let mut reading =
        SourceSpec { projection: Vec::new(), reads_clock: false, reads_watermark: false, ..source.clone() };
    if let Some(watermark) = &mut reading.watermark {
        watermark.time = watermark.time.with_columns_at(&place);
    }
    reading
}

/// Merges sources that read a table in the same way. Sources of the stages `by_field` provide fields of ROW
/// columns.
pub(super) fn share_sources(
    mut stages: Vec<Stage>,
    exchanges: Vec<Exchange>,
    by_field: &BTreeSet<StageId>,
) -> Result<(Vec<Stage>, Vec<Exchange>)> {
    let groups = groups(&stages, &exchanges);
    for group in groups.iter().filter(|group| group.is_subset(by_field)) {
        let mut readers: Vec<&mut Stage> = stages.iter_mut().filter(|stage| group.contains(&stage.id)).collect();
        read_fields_alone(&mut readers);
    }
    let mut sharing = Sharing::default();
    let mut sources: Vec<Option<StageId>> = vec![None; groups.len()];
    for stage in &stages {
        let shared = groups.iter().position(|group| group.len() > 1 && group.contains(&stage.id));
        let Some(group) = shared else {
            sharing.keep(stage);
            continue;
        };
        let source = match sources[group] {
            Some(source) => source,
            None => sharing.source(stages.iter().filter(|stage| groups[group].contains(&stage.id)))?,
        };
        sources[group] = Some(source);
        sharing.reader(stage, source)?;
    }
    let Sharing { mut stages, exchanges: mut all, ids, shifted } = sharing;
    all.extend(exchanges.into_iter().map(|exchange| {
        let port = match exchange.port {
            Port::Side(place) if shifted.contains(&exchange.to) => Port::Side(place + 1),
            port => port,
        };
        Exchange { from: ids[&exchange.from], to: ids[&exchange.to], port, ..exchange }
    }));
    label_once(&mut stages, &all);
    Ok((stages, all))
}

/// Groups the stages with sources: those in a group read a table in the same way and may share its rows.
fn groups(stages: &[Stage], exchanges: &[Exchange]) -> Vec<BTreeSet<StageId>> {
    let are_static = static_stages(stages, exchanges);
    let (mut readings, mut groups) = (Vec::new(), Vec::new());
    for stage in stages {
        let Some(source) = &stage.source else { continue };
        let shares = !are_static.contains(&stage.id) && source.connector.connector != ONE_ROW;
        let reading = shares.then(|| (reading(source), stage.parallelism));
        match readings.iter().position(|known: &Option<(SourceSpec, u32)>| known.is_some() && *known == reading) {
            Some(group) => _ = BTreeSet::insert(&mut groups[group], stage.id),
            None => {
                readings.push(reading);
                groups.push(BTreeSet::from([stage.id]));
            }
        }
    }
    groups
}

/// A plan whose sources are being merged.
#[derive(Default)]
struct Sharing {
    stages: Vec<Stage>,
    /// The exchanges from shared sources to their readers.
    exchanges: Vec<Exchange>,
    /// The new identifiers of stages, by their former ones.
    ids: BTreeMap<StageId, StageId>,
    /// Stages with an additional operator at their beginning.
    shifted: BTreeSet<StageId>,
}

impl Sharing {
    fn push(&mut self, stage: Stage) -> StageId {
        let id = StageId(u32::try_from(self.stages.len()).unwrap_or(u32::MAX));
        self.stages.push(Stage { id, ..stage });
        id
    }

    fn keep(&mut self, stage: &Stage) -> StageId {
        let id = self.push(stage.clone());
        self.ids.insert(stage.id, id);
        id
    }

    /// Adds the stage that decodes the columns of all readers.
    fn source<'s>(&mut self, readers: impl Iterator<Item = &'s Stage> + Clone) -> Result<StageId> {
        let tasks_max = readers.clone().filter_map(|stage| stage.tasks_max).min();
        let (first, sources) = (readers.clone().next(), readers.clone().filter_map(|stage| stage.source.as_ref()));
        let missing = || Error::internal("a source without readers");
        let (first, mut source) = first.zip(sources.clone().next().cloned()).ok_or_else(missing)?;
        let columns: BTreeSet<usize> = sources.clone().flat_map(|source| &source.projection).copied().collect();
        source.projection = columns.into_iter().collect();
        source.reads_clock = sources.clone().any(|source| source.reads_clock);
        source.reads_watermark = sources.clone().any(|source| source.reads_watermark);
        let of_first = sources.clone().next().ok_or_else(missing)?;
        let time = source.watermark.as_ref().map(|watermark| watermark.time.clone());
        let time = time.map(|time| time.with_columns_at(&|column| place(&source, of_first, column)));
        if let Some((watermark, time)) = source.watermark.as_mut().zip(time) {
            watermark.time = time;
        }
        let schema = source.decoded().map_err(|error| Error::internal(error.to_string()))?;
        let mut origin = StageOrigin::default();
        readers.for_each(|stage| add_places(&mut origin.source, &stage.origin.source));
        Ok(self.push(Stage {
            id: first.id,
            name: format!("source {}", source.table),
            parallelism: first.parallelism,
            label: first.label.clone(),
            tasks_max,
            source: Some(source),
            operators: Vec::new(),
            sink: None,
            query: None,
            schema: Arc::new(schema),
            origin,
        }))
    }

    /// Adds the stage of a reader, fed by a source.
    fn reader(&mut self, stage: &Stage, source: StageId) -> Result<()> {
        let shared = self.stages[source.0 as usize].source.clone();
        let (own, shared) =
            stage.source.as_ref().zip(shared).ok_or_else(|| Error::internal("a reader of no source"))?;
        let decoded = own.decoded().map_err(|error| Error::internal(error.to_string()))?;
        let id = self.keep(stage);
        let reader = &mut self.stages[id.0 as usize];
        reader.name = format!("rows of {}", own.table);
        (reader.source, reader.label) = (None, None);
        if take_columns(&mut reader.operators, &decoded, &|column| place(&shared, own, column), &shared)? {
            reader.origin.operators.insert(0, Vec::new());
            self.shifted.insert(stage.id);
        }
        self.exchanges.push(Exchange { from: source, to: id, port: Port::Main, kind: ExchangeKind::Forward });
        Ok(())
    }
}

/// Changes a chain to read the rows of a shared source, which has each column at its `place`. Returns whether
/// the chain has an additional operator: a projection to the columns that it reads.
fn take_columns(
    operators: &mut Vec<OperatorSpec>,
    decoded: &Schema,
    place: &dyn Fn(usize) -> usize,
    shared: &SourceSpec,
) -> Result<bool> {
    if let Some(OperatorSpec::Project { columns }) = operators.first_mut() {
        columns.iter_mut().for_each(|column| column.expr = column.expr.with_columns_at(place));
        return Ok(false);
    }
    let mut read = BTreeSet::new();
    // The event time of the source may need columns that no operator reads.
    let is_known = each_first_expr(operators, &mut |expr| expr.for_each_column(&mut |column| _ = read.insert(column)));
    if !is_known {
        read.extend(0..decoded.fields().len());
    } else if read.is_empty() {
        read.insert(0);
    }
    let kept: Vec<usize> = read.into_iter().collect();
    let width = shared.projection.len() + shared.stamps().count();
    if kept.iter().map(|column| place(*column)).eq(0..width) {
        return Ok(false);
    }
    if is_known {
        let new_place = |column: usize| kept.binary_search(&column).unwrap_or_default();
        each_first_expr(operators, &mut |expr| *expr = expr.with_columns_at(&new_place));
        let kept = decoded.project(&kept).map_err(|error| Error::internal(error.to_string()))?;
        each_input_schema(operators, &Arc::new(kept));
    }
    let column = |column: &usize| NamedExpr::with_field(Expr::Column(place(*column)), decoded.field(*column));
    operators.insert(0, OperatorSpec::Project { columns: kept.iter().map(column).collect() });
    Ok(true)
}

/// The index in `source` of the column at `column` in `other`, whose columns are a subset. Stamps come last.
fn place(source: &SourceSpec, other: &SourceSpec, column: usize) -> usize {
    if let Some(declared) = other.projection.get(column) {
        return source.projection.binary_search(declared).unwrap_or_default();
    }
    let stamp = other.stamps().nth(column - other.projection.len());
    let place = stamp.and_then(|stamp| source.stamps().position(|field| field == stamp));
    source.projection.len() + place.unwrap_or_default()
}

/// Leaves each label on one stage. A static side of a join may have the label of a stream that reads its
/// table in the same way: then the stream's stage keeps the label.
fn label_once(stages: &mut [Stage], exchanges: &[Exchange]) {
    let are_static = static_stages(stages, exchanges);
    let mut known = BTreeSet::new();
    for is_static in [false, true] {
        for stage in stages.iter_mut().filter(|stage| are_static.contains(&stage.id) == is_static) {
            stage.label = stage.label.take().filter(|label| known.insert(label.clone()));
        }
    }
}
