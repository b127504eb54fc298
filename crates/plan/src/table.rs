//! Declared tables: a connector, the columns in its records, the columns computed from them, event time.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use anabranch_dataflow::{ConnectorSpec, Lookups, SinkSpec, TableTraits, Updates, sql_name};
use anabranch_model::{Error, Result, nearest};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Column;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::Expr;
use datafusion_sql::sqlparser::ast;
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::catalog::Catalog;
use crate::changes::{changes_or_versions, with_weight};
use crate::hints::without_options;
use crate::metadata::{check_metadata, content_of, metadata_columns, written_columns};
use crate::place::{at, or_at, planning_error};
use crate::processing_time::as_read;
use crate::query::Planner;
use crate::rel::{Columns, Get, Output, Project, Rel, computed, name_of, named};
use crate::statement::{ColumnDefinition, ColumnKind, CreateTable, WatermarkDefinition};
use crate::versions::{all_versions, latest};
use crate::window_table::literal_interval_ms;
use crate::with_options::{TableOptions, split_options};
use crate::{PlanOptions, TableResolver};

/// A declared table. Plans that read it contain it, so that later declarations of its name do not affect
/// them.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) spec: ConnectorSpec,
    pub(crate) traits: TableTraits,
    pub(crate) options: TableOptions,
    /// The columns of the content and the metadata of records.
    pub(crate) physical: SchemaRef,
    /// The metadata columns among them, with the connector's keys.
    pub(crate) metadata: BTreeMap<usize, String>,
    /// The columns that are written.
    pub(crate) written: SchemaRef,
    /// The metadata columns among them.
    pub(crate) written_metadata: BTreeMap<usize, String>,
    /// A metadata column that is not virtual but can only be read.
    unwritable: Option<String>,
    pub(crate) watermark: Option<Watermark>,
    pub(crate) primary_key: Vec<String>,
    /// The statement that declares it.
    pub(crate) statement: CreateTable,
}

/// A table with the plan that reads it.
pub(crate) struct Declared {
    pub(crate) table: Arc<Table>,
    /// Computes all columns from a scan of the physical ones.
    pub(crate) plan: Rel,
}

/// Event time of a table.
pub(crate) struct Watermark {
    pub(crate) column: String,
    /// A plan with the event time as its only column.
    pub(crate) plan: Rel,
    /// The plan before optimization, and the time zone of the session at the declaration.
    declared: (Rel, Option<String>),
    pub(crate) delay_ms: i64,
}

impl Watermark {
    /// The plan for a session with this time zone.
    pub(crate) fn in_zone(&self, zone: Option<&str>, catalog: &Catalog) -> Result<Cow<'_, Rel>> {
        let (declared, declared_zone) = &self.declared;
        match declared_zone.as_deref() == zone {
            true => Ok(Cow::Borrowed(&self.plan)),
            false => Planner::in_zone(catalog, zone).optimize(declared.clone()).map(Cow::Owned),
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Declared {
    /// The plan, with the place where a statement names the table.
    pub(crate) fn named_at(&self, start: Location) -> Result<Rel> {
        let named = self.plan.clone().walk_up(&mut |node| {
            Ok(match node {
                Rel::Get(get) => Transformed::yes(Rel::Get(Get { start: Some(start), ..get })),
                node => Transformed::no(node),
            })
        });
        named.map(|plan| plan.data).map_err(planning_error)
    }
}

impl Table {
    pub(crate) fn declare(
        statement: CreateTable,
        catalog: &Catalog,
        resolver: &dyn TableResolver,
        planning: &PlanOptions,
    ) -> Result<Declared> {
        let place = at(statement.name.span.start);
        let path = catalog.databases.path(&statement.name.value).map_err(|error| error.at(place.clone()))?;
        let name = path.label();
        let here = |error: Error| error.at(format!("table {name}")).at(place.clone());
        let mut options = statement.options.clone();
        let own = without_options(&name).unwrap_or(&name);
        options.extend(planning.options_of(own));
        let (mut spec, mut options) =
            split_options(options, catalog.settings.key_groups(planning.key_groups)).map_err(here)?;
        options.resolve_names(&catalog.databases).map_err(here)?;
        let declared = declared_schema(&statement.columns, &statement.primary_key)?;
        let mut metadata = metadata_columns(&statement.columns);
        let content = content_of(&declared, &metadata);
        if let Some(keys) = partition_keys(&statement.partitioned_by, &content)? {
            spec.options.insert(PARTITION_KEYS.to_owned(), keys);
        }
        let mut traits = resolver.describe(&spec, &content).map_err(here)?;
        let (has_key, has_event_time) = (!statement.primary_key.is_empty(), statement.watermark.is_some());
        let identifies = has_key && statement.primary_key.iter().all(|key| content.index_of(&key.value).is_ok());
        changes_or_versions(&mut traits, identifies, has_event_time, metadata.values().map(String::as_str));
        options.check(&traits, &spec, has_event_time).map_err(here)?;
        traits.updates = traits.updates.of_table(has_key);
        for (column, key) in &metadata {
            check_metadata(declared.field(*column), key, traits.metadata.as_ref(), &spec).map_err(here)?;
        }
        check_updates(&traits, &spec, !has_key).map_err(here)?;
        let physical = physical_columns(declared, traits.schema.as_ref()).map_err(here)?;
        let written = written_columns(&physical, &statement.columns, &metadata, traits.written_metadata);
        let primary_key: Vec<String> = statement.primary_key.iter().map(|ident| ident.value.clone()).collect();
        let physical = scanned(physical, &traits, &primary_key, &mut metadata);
        let scan = scan_of(&name, &physical);
        let (columns, watermark) =
            plan_columns(&scan, &statement.columns, statement.watermark.clone(), &Planner::new(catalog))?;
        let is_time = |id: &&Column| watermark.as_ref().is_some_and(|of| of.column == name_of(id));
        let event_time = columns.iter().map(|(id, _)| id).find(is_time).cloned();
        let table = Table {
            name,
            spec,
            traits,
            options,
            physical,
            metadata,
            written: written.columns,
            written_metadata: written.metadata,
            unwritable: written.unwritable,
            watermark,
            primary_key,
            statement,
        };
        let table = Arc::new(table);
        let mut scan = Rel::Get(Get { table: Some(Arc::clone(&table)), ..scan });
        if table.traits.versions.is_some() {
            scan = latest(scan, &table.primary_key, &catalog.functions)?;
        }
        let projection = Project { exprs: Vec::new(), input: Arc::new(scan), event_time, columns: Arc::default() };
        Ok(Declared { table, plan: projection.with_outputs(columns).map_err(planning_error)? })
    }

    /// The declared table of a scan.
    pub(crate) fn of_scan(scan: &Get) -> Result<&Table> {
        let none = || Error::internal(format!("the rows of '{}' are not those of a declared table", scan.name));
        scan.table.as_deref().ok_or_else(none)
    }

    /// The specification for writing the table.
    pub(crate) fn sink(&self) -> SinkSpec {
        let sink = SinkSpec::new(self.name.clone(), self.spec.clone(), self.written.clone());
        let key = self.primary_key.iter().filter_map(|key| self.written.index_of(key).ok()).collect();
        SinkSpec { key, metadata: self.written_metadata.clone(), visibility: self.traits.visibility, ..sink }
    }

    /// The columns that divide the table into partitions.
    pub(crate) fn partition_keys(&self) -> Vec<&str> {
        self.spec.options.get(PARTITION_KEYS).map(|keys| keys.split(',').collect()).unwrap_or_default()
    }

    /// The indexes of the primary key in a scan.
    pub(crate) fn key(&self) -> Vec<usize> {
        self.primary_key.iter().filter_map(|key| self.physical.index_of(key).ok()).collect()
    }

    pub(crate) fn check_readable(&self) -> Result<()> {
        if let Some(option) = self.traits.changes.and_then(|changes| changes.begins_later) {
            let what = format!(
                "table '{}' has changes of rows and no primary key, and its option '{option}' skips the first changes: later changes may \
                 retract rows that never came",
                self.name
            );
            return Err(Error::user(what).remedy(
                "declare the table's PRIMARY KEY (...) NOT ENFORCED, which keeps the latest row of each key; or read it from its beginning",
            ));
        }
        if self.traits.readable {
            return Ok(());
        }
        if self.traits.lookups == Lookups::ByKey {
            let what = format!("table '{}' cannot be read as a whole: it is only looked up by key", self.name);
            return Err(Error::user(what).remedy(format!(
                "join it: FROM o JOIN {} FOR SYSTEM_TIME AS OF o.proctime AS t ON o.k = t.k, with proctime AS PROCTIME() in o",
                self.name
            )));
        }
        Err(Error::user(format!("table '{}' cannot be read: its connector '{}' only writes", self.name, self.spec))
            .remedy("read a table of another connector"))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(column) = &self.unwritable {
            let what = format!("this metadata cannot be written: column '{column}' of table '{}'", self.name);
            return Err(Error::user(what).remedy("declare the column VIRTUAL: then it is only read"));
        }
        if self.traits.writable {
            return Ok(());
        }
        Err(Error::user(format!("table '{}' cannot be written: its connector '{}' only reads", self.name, self.spec))
            .remedy("insert into a table of another connector, for example 'print'"))
    }
}

/// The columns of a scan: the declared columns, followed by those of versions or changes.
fn scanned(
    physical: SchemaRef,
    traits: &TableTraits,
    primary_key: &[String],
    metadata: &mut BTreeMap<usize, String>,
) -> SchemaRef {
    match (traits.versions, traits.changes) {
        (Some(versions), _) => all_versions(&physical, primary_key, versions, metadata),
        (None, Some(changes)) => with_weight(&physical, changes.weight, metadata),
        (None, None) => physical,
    }
}

/// Whether all tables of a plan are bounded.
pub(crate) fn is_bounded(plan: &Rel) -> bool {
    match plan {
        Rel::Get(scan) => Table::of_scan(scan).is_ok_and(|table| table.traits.bounded),
        other => other.inputs().into_iter().all(is_bounded),
    }
}

/// The sides of a join that can be read before the first row of the other side: the bounded ones. A side with
/// windows would lose its event time, so it counts only if the other side has windows too or is unbounded.
pub(crate) fn static_sides(left: &Rel, right: &Rel) -> (bool, bool) {
    let waits = |plan: &Rel| plan.has(&|node| Ok(is_window(node))).unwrap_or(true);
    let bounded = (is_bounded(left), is_bounded(right));
    let plain = (bounded.0 && !waits(left), bounded.1 && !waits(right));
    if plain == (false, false) { bounded } else { plain }
}

fn is_window(node: &Rel) -> bool {
    matches!(node, Rel::Assign(_) | Rel::Temporal(_))
}

/// The option that passes the partition columns to a connector.
const PARTITION_KEYS: &str = "partition-keys";

/// The names of the columns, separated by commas.
fn partition_keys(keys: &[ast::Ident], declared: &SchemaRef) -> Result<Option<String>> {
    for key in keys {
        let error = |what: String| Error::user(what).at(at(key.span.start));
        let Ok(field) = declared.field_with_name(&key.value) else {
            return Err(error(format!("there is no column '{}' in the records", key.value))
                .remedy("PARTITIONED BY names columns that are not computed"));
        };
        let is_plain = field.data_type().is_integer() || field.data_type().is_string();
        if !is_plain && !matches!(field.data_type(), DataType::Boolean | DataType::Date32) {
            let found = sql_name(field.data_type());
            return Err(error(format!(
                "column '{}' is {found}, which cannot divide a table into partitions",
                key.value
            ))
            .remedy("use a column of text, a whole number, a DATE or a BOOLEAN"));
        }
        if key.value.contains(',') {
            return Err(error(format!("the name '{}' has a comma", key.value)).remedy("rename the column"));
        }
    }
    let names: Vec<&str> = keys.iter().map(|key| key.value.as_str()).collect();
    Ok((!names.is_empty()).then(|| names.join(",")))
}

/// Checks that the table has a primary key, if its connector needs one.
fn check_updates(traits: &TableTraits, spec: &ConnectorSpec, no_key: bool) -> Result<()> {
    if traits.updates == Updates::Upserted && no_key {
        return Err(Error::user(format!("a table of connector '{spec}' needs a primary key"))
            .remedy("declare the columns that identify a row: PRIMARY KEY (id) NOT ENFORCED"));
    }
    Ok(())
}

fn declared_schema(columns: &[ColumnDefinition], primary_key: &[ast::Ident]) -> Result<SchemaRef> {
    let names: BTreeSet<&str> = columns.iter().map(|column| column.name.value.as_str()).collect();
    let keys: BTreeSet<&str> = primary_key.iter().map(|key| key.value.as_str()).collect();
    for key in primary_key {
        if !names.contains(key.value.as_str()) {
            let near = nearest(&key.value, columns.iter().map(|c| c.name.value.as_str()));
            let error = Error::user(format!("there is no column '{}'", key.value)).at(at(key.span.start));
            return Err(match near {
                Some(near) => error.remedy(format!("did you mean {near}?")),
                None => error.remedy("a primary key names columns of the table"),
            });
        }
    }
    let fields = columns.iter().filter_map(|column| match &column.kind {
        ColumnKind::Physical { data_type, nullable } | ColumnKind::Metadata { data_type, nullable, .. } => {
            let key = keys.contains(column.name.value.as_str());
            Some(Field::new(&column.name.value, data_type.clone(), *nullable && !key))
        }
        ColumnKind::Computed(_) => None,
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// A plan that only declares columns for expressions.
pub(crate) fn row_of(name: &str, columns: &SchemaRef) -> Rel {
    Rel::Get(scan_of(name, columns))
}

/// The declared columns, or those that the connector knows.
fn physical_columns(declared: SchemaRef, known: Option<&SchemaRef>) -> Result<SchemaRef> {
    match known {
        _ if !declared.fields().is_empty() => Ok(declared),
        Some(known) => Ok(Arc::clone(known)),
        None => {
            let error = Error::user("the table has no columns");
            Err(error.remedy("declare them: CREATE TABLE t (a STRING, b BIGINT)"))
        }
    }
}

fn scan_of(name: &str, columns: &SchemaRef) -> Get {
    let columns = Columns::of_table(name, columns.fields().iter().cloned());
    Get { name: name.to_owned(), table: None, start: None, projection: None, columns }
}

/// The expressions of the table's columns over a scan, and the event time.
fn plan_columns(
    scan: &Get,
    columns: &[ColumnDefinition],
    watermark: Option<WatermarkDefinition>,
    planner: &Planner,
) -> Result<(Vec<Output>, Option<Watermark>)> {
    let mut exprs: Vec<(String, Expr)> = Vec::new();
    let known: HashMap<&str, Expr> = scan.columns.iter().map(|col| (col.field.name().as_str(), col.expr())).collect();
    let column = |name: &str| {
        let column = known.get(name).cloned();
        column.ok_or_else(|| Error::internal(format!("there is no column '{name}' in the records")))
    };
    for definition in columns {
        let expr = match &definition.kind {
            ColumnKind::Physical { .. } | ColumnKind::Metadata { .. } => column(&definition.name.value)?,
            ColumnKind::Computed(expr) => planner.expr(expr.as_ref().clone(), &scan.columns)?,
        };
        exprs.push((definition.name.value.clone(), expr));
    }
    // Columns that the connector knows come before computed ones.
    if columns.iter().all(|c| matches!(c.kind, ColumnKind::Computed(_))) {
        let known = scan.columns.iter().map(|col| (col.field.name().clone(), col.expr()));
        exprs.splice(0..0, known.collect::<Vec<_>>());
    }
    let mut event_time = None;
    if let Some(watermark) = watermark {
        let delay_ms = watermark_delay_ms(&watermark, planner)?;
        let found = exprs.iter_mut().find(|(name, _)| *name == watermark.column.value);
        let place = at(watermark.column.span.start);
        let Some((column, expr)) = found else {
            let names: Vec<&str> = exprs.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Error::user(format!("there is no column '{}' for the watermark", watermark.column.value))
                .at(place)
                .remedy(format!("the columns are: {}", names.join(", "))));
        };
        *expr = as_read(std::mem::take(expr)).map_err(planning_error)?;
        let plan = Rel::Get(scan.clone()).project([named(column, expr.clone())]);
        let declared = plan.map_err(planning_error)?;
        let plan =
            planner.optimize(declared.clone()).map_err(|e| or_at(e, watermark.start.line, watermark.start.column))?;
        let data_type = plan.columns().field(0).data_type();
        if !matches!(data_type, DataType::Timestamp(..)) {
            let conversion = if data_type.is_integer() {
                format!("TO_TIMESTAMP_LTZ({column}, 3)")
            } else {
                format!("TO_TIMESTAMP({column})")
            };
            return Err(Error::user(format!(
                "the watermark's column '{column}' is {}, but event time is a TIMESTAMP or TIMESTAMP_LTZ",
                sql_name(data_type)
            ))
            .at(place)
            .remedy(format!("add a computed column, rowtime AS {conversion}, and declare the watermark for it")));
        }
        let declared = (declared, planner.zone().map(str::to_owned));
        event_time = Some(Watermark { column: column.clone(), plan, declared, delay_ms });
    }
    let marked = |(name, expr): (String, Expr)| match &event_time {
        // The event-time column gets an identity of its own.
        Some(time) if time.column == name => computed(&name, expr),
        _ => named(&name, expr),
    };
    let outputs = exprs.into_iter().map(marked).collect();
    Ok((outputs, event_time))
}

/// The interval in `column - INTERVAL ..`.
fn watermark_delay_ms(watermark: &WatermarkDefinition, planner: &Planner) -> Result<i64> {
    let column = &watermark.column.value;
    let wrong = || {
        Error::user(format!("the watermark {} is not supported", watermark.expr))
            .at(at(watermark.start))
            .remedy(format!("write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND, or AS {column}"))
    };
    let is_column = |expr: &ast::Expr| matches!(expr, ast::Expr::Identifier(ident) if ident.value == *column);
    if watermark.expr.to_string().eq_ignore_ascii_case("SOURCE_WATERMARK()") {
        let error = Error::user("SOURCE_WATERMARK() is not supported: no connector has watermarks of its own");
        return Err(error.at(at(watermark.start)).remedy(format!(
            "say how far the records of a partition may be out of order: WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND"
        )));
    }
    let mut expr = &watermark.expr;
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    match expr {
        expr if is_column(expr) => Ok(0),
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Minus, right } if is_column(left) => {
            let interval = planner.expr((**right).clone(), &Columns::default())?;
            literal_interval_ms(&interval).filter(|ms| *ms >= 0).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}
