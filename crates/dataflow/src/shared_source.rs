//! Sources whose rows several stages take: each decodes what any of these stages needs, once.
//!
//! A shared source is a stage without operators. Each of its readers takes the rows through a forward
//! exchange, and begins with a projection to the columns that it needs. So a plan with a shared source can be
//! turned into one in which each reader has a source of its own: a checkpoint of a plan that had several
//! sources has positions for each of them.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_model::StageId;

use crate::identity::static_stages;
use crate::{Exchange, ExchangeKind, OnLate, OnMalformed, OperatorSpec, Plan, Port, SourceSpec, Stage};

impl Plan {
    /// The stages that read a table for several others.
    pub fn shared_sources(&self) -> impl Iterator<Item = &Stage> {
        let feeds = |stage: &Stage| {
            let to_readers = |output: &Exchange| output.port == Port::Main && output.kind == ExchangeKind::Forward;
            self.outputs(stage.id).count() > 1 && self.outputs(stage.id).all(to_readers)
        };
        self.stages.iter().filter(move |stage| stage.source.is_some() && stage.operators.is_empty() && feeds(stage))
    }

    /// The plan in which each reader of these [shared sources](Plan::shared_sources) has a source of its own.
    #[must_use]
    pub fn with_own_sources(&self, shared: &BTreeSet<StageId>) -> Plan {
        let (mut stages, mut ids, mut labelled) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for stage in self.stages.iter().filter(|stage| !shared.contains(&stage.id)) {
            let id = StageId(stages.len() as u32);
            ids.insert(stage.id, id);
            let mut stage = Stage { id, ..stage.clone() };
            let from = self.exchanges.iter().find(|of| ids.get(&of.to) == Some(&id) && shared.contains(&of.from));
            if let Some(source) = from.map(|of| self.stage(of.from)) {
                stage.source = source.source.as_ref().map(|source| own_source(source, &mut stage.operators));
                stage.name.clone_from(&source.name);
                stage.label = source.label.clone().filter(|_| labelled.insert(source.id));
            }
            stages.push(stage);
        }
        let exchanges = self.exchanges.iter().filter_map(|exchange| {
            Some(Exchange { from: *ids.get(&exchange.from)?, to: *ids.get(&exchange.to)?, ..exchange.clone() })
        });
        let exchanges: Vec<Exchange> = exchanges.collect();
        report_once(&mut stages, &exchanges);
        self.again(stages, exchanges)
    }
}

/// The source of one reader, whose operators these are.
fn own_source(shared: &SourceSpec, operators: &mut [OperatorSpec]) -> SourceSpec {
    let decoded = shared.projection.len();
    let mut source = shared.clone();
    let Some(OperatorSpec::Project { columns }) = operators.first_mut() else { return source };
    let mut read = BTreeSet::new();
    let watermark = source.watermark.iter_mut().map(|watermark| &mut watermark.time);
    let exprs: Vec<_> = columns.iter_mut().map(|column| &mut column.expr).chain(watermark).collect();
    exprs.iter().for_each(|expr| expr.for_each_column(&mut |column| _ = read.insert(column)));
    // The time at which rows are read, and the watermark before them, follow the decoded columns.
    let watermark = decoded + usize::from(shared.reads_clock);
    source.reads_clock = shared.reads_clock && read.contains(&decoded);
    source.reads_watermark = shared.reads_watermark && read.contains(&watermark);
    let mut kept: Vec<usize> = read.into_iter().filter(|column| *column < decoded).collect();
    if source.on_late != OnLate::Drop {
        // Late rows are written whole.
        kept = (0..decoded).collect();
    } else if kept.is_empty() {
        // The number of rows is needed.
        kept.push(0);
    }
    let stamp = |column: usize| kept.len() + usize::from(source.reads_clock && column == watermark);
    let place = |column: usize| kept.binary_search(&column).unwrap_or_else(|_| stamp(column));
    exprs.into_iter().for_each(|expr| *expr = expr.with_columns_at(&place));
    source.projection = kept.iter().map(|column| shared.projection[*column]).collect();
    source
}

/// Of several readers of one table, lets one write and count malformed records, and one late rows.
pub fn report_once(stages: &mut [Stage], exchanges: &[Exchange]) {
    let malformed = left_to_others(stages, exchanges, |a, b| a.on_malformed == b.on_malformed);
    let late = left_to_others(stages, exchanges, |a, b| a.on_late == b.on_late);
    for stage in stages {
        let Some(source) = &mut stage.source else { continue };
        if malformed.contains(&stage.id) && source.on_malformed != OnMalformed::Fail {
            source.on_malformed = OnMalformed::Leave;
        }
        if late.contains(&stage.id) && source.on_late != OnLate::Drop {
            source.on_late = OnLate::Leave;
        }
    }
}

/// The sources for which another reader of their table reports: one that decodes all columns which the others
/// decode. If there is none such, each may find records that the others do not, and all report. A reader of a
/// stream comes first: the static side of a join is read again at every start, and reports its records again.
fn left_to_others(
    stages: &[Stage],
    exchanges: &[Exchange],
    same_fate: impl Fn(&SourceSpec, &SourceSpec) -> bool,
) -> BTreeSet<StageId> {
    let are_static = static_stages(stages, exchanges);
    let sources = || stages.iter().filter_map(|stage| Some((stage.id, stage.source.as_ref()?)));
    let alike = |a: &SourceSpec, b: &SourceSpec| {
        (&a.table, &a.connector, &a.declared) == (&b.table, &b.connector, &b.declared) && same_fate(a, b)
    };
    let covers =
        |a: &SourceSpec, b: &SourceSpec| b.projection.iter().all(|column| a.projection.binary_search(column).is_ok());
    let left = sources().filter(|(id, source)| {
        let readers = || sources().filter(|(_, other)| alike(source, other));
        let reporters = readers().filter(|(_, one)| readers().all(|(_, other)| covers(one, other)));
        let reporter = reporters.min_by_key(|(id, _)| are_static.contains(id));
        reporter.is_some_and(|(reporter, _)| reporter != *id)
    });
    left.map(|(id, _)| id).collect()
}
