//! Reads single fields of a source's ROW columns, if a query reads nothing else of them.
//!
//! A connector whose table has rows of many fields need not decode unread fields, nor build the rows. If a
//! chain reads only fields of a column `bid`, the source has columns such as `bid.price` instead.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anabranch_dataflow::{Expr, NamedExpr, OperatorSpec, SourceSpec, Stage};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The columns and fields that a chain reads of its source.
#[derive(Default)]
struct SourceReads {
    /// Columns that are read as a whole.
    whole: BTreeSet<usize>,
    /// The fields that are read, by column.
    fields: BTreeMap<usize, BTreeSet<usize>>,
}

/// Replaces ROW columns of a table by their fields, if all readers read only fields.
pub(super) fn read_fields_alone(readers: &mut [&mut Stage]) {
    let mut all: Vec<(Schema, SourceReads)> =
        readers.iter_mut().filter_map(|stage| SourceReads::of_stage(stage)).collect();
    if all.len() < readers.len() {
        return;
    }
    let mut whole = BTreeSet::new();
    // One of the read fields, by declared column.
    let mut fields: BTreeMap<usize, usize> = BTreeMap::new();
    for (stage, (_, reads)) in readers.iter().zip(&all) {
        let declared =
            |column: &usize| stage.source.as_ref().and_then(|source| source.projection.get(*column)).copied();
        whole.extend(reads.whole.iter().filter_map(declared));
        let of_columns = reads.fields.iter().filter_map(|(column, fields)| Some((declared(column)?, *fields.first()?)));
        fields.extend(of_columns);
    }
    fields.retain(|column, _| !whole.contains(column));
    let divided: BTreeSet<usize> = fields.keys().copied().collect();
    for (stage, (decoded, reads)) in readers.iter_mut().zip(&mut all) {
        let Some(source) = stage.source.as_mut().filter(|_| !divided.is_empty()) else { continue };
        if reads.fields.is_empty() && source.projection.iter().all(|column| divided.contains(column)) {
            // A reader that only counts rows still needs one column: a field that another reader reads.
            let counted = source.projection.first().and_then(|column| fields.get(column));
            reads.fields.extend(counted.map(|field| (0, BTreeSet::from([*field]))));
        }
        let indexes = replace_columns(source, &divided, &reads.fields);
        let schema = source.decoded().map(Arc::new).unwrap_or_else(|_| source.declared.clone());
        each_expr(source, &mut stage.operators, &mut |expr| reindex(expr, decoded, &indexes));
        if !indexes.fields.is_empty() {
            each_input_schema(&mut stage.operators, &schema);
        }
    }
}

/// Calls `visit` with each expression over the source's columns. Returns false if an operator reads the
/// columns in another way.
fn each_expr(source: &mut SourceSpec, operators: &mut [OperatorSpec], visit: &mut dyn FnMut(&mut Expr)) -> bool {
    source.watermark.iter_mut().for_each(|watermark| visit(&mut watermark.time));
    each_first_expr(operators, visit)
}

/// Calls `visit` with each expression over the columns that enter a chain. Returns false if an operator reads
/// them in another way.
pub(super) fn each_first_expr(operators: &mut [OperatorSpec], visit: &mut dyn FnMut(&mut Expr)) -> bool {
    for operator in operators {
        let (keys, aggregates): (&mut [NamedExpr], &mut [_]) = match operator {
            OperatorSpec::Filter { predicate, .. } => {
                visit(predicate);
                continue;
            }
            OperatorSpec::Project { columns } => (columns, &mut []),
            OperatorSpec::WindowAggregate(spec) => {
                spec.time.iter_mut().for_each(&mut *visit);
                (&mut spec.keys, &mut spec.aggregates)
            }
            OperatorSpec::GroupAggregate(spec) if spec.weight.is_none() => (&mut spec.keys, &mut spec.aggregates),
            _ => return false,
        };
        keys.iter_mut().for_each(|key| visit(&mut key.expr));
        for aggregate in aggregates {
            aggregate.args.iter_mut().chain(&mut aggregate.filter).for_each(&mut *visit);
        }
        return true;
    }
    false
}

/// Sets the input schema of the first operator that is no filter.
pub(super) fn each_input_schema(operators: &mut [OperatorSpec], schema: &SchemaRef) {
    match operators.iter_mut().find(|operator| !matches!(operator, OperatorSpec::Filter { .. })) {
        Some(OperatorSpec::WindowAggregate(spec)) => spec.input_schema = Arc::clone(schema),
        Some(OperatorSpec::GroupAggregate(spec)) => spec.input_schema = Arc::clone(schema),
        _ => {}
    }
}

/// The column and the field's index, if the expression is a field of a column.
fn field_of(expr: &Expr, decoded: &Schema) -> Option<(usize, usize)> {
    let Expr::Call { function, args, .. } = expr else { return None };
    let [Expr::Column(column), Expr::Literal(name)] = args.as_slice() else { return None };
    let DataType::Struct(fields) = decoded.field(*column).data_type() else { return None };
    let (index, _) = fields.find(name.as_text()?)?;
    (function == "get_field").then_some((*column, index))
}

impl SourceReads {
    /// The reads of a stage with a source, and the source's columns.
    fn of_stage(stage: &mut Stage) -> Option<(Schema, SourceReads)> {
        let source = stage.source.as_mut()?;
        let decoded = source.decoded().ok()?;
        let mut reads = SourceReads::default();
        if !each_expr(source, &mut stage.operators, &mut |expr| reads.add(expr, &decoded)) {
            reads.whole.extend(0..decoded.fields().len());
        }
        Some((decoded, reads))
    }

    fn add(&mut self, expr: &mut Expr, decoded: &Schema) {
        match (field_of(expr, decoded), &*expr) {
            (Some((column, field)), _) => {
                self.fields.entry(column).or_default().insert(field);
            }
            (None, Expr::Column(column)) => {
                self.whole.insert(*column);
            }
            _ => expr.children_mut().into_iter().for_each(|child| self.add(child, decoded)),
        }
    }
}

/// The new indexes of a source's columns.
struct NewIndexes {
    /// The indexes of columns that are read as a whole, by their former indexes.
    whole: BTreeMap<usize, usize>,
    /// The indexes of fields, by the former index of their column and their index in it.
    fields: BTreeMap<(usize, usize), usize>,
}

/// Divides some of the declared columns into their fields. `fields`: the read fields by decoded column.
fn replace_columns(
    source: &mut SourceSpec,
    divided: &BTreeSet<usize>,
    fields: &BTreeMap<usize, BTreeSet<usize>>,
) -> NewIndexes {
    let mut indexes = NewIndexes { whole: BTreeMap::new(), fields: BTreeMap::new() };
    let (mut declared, mut projection): (Vec<Arc<Field>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (index, column) in source.declared.fields().iter().enumerate() {
        let decoded = source.projection.binary_search(&index).ok();
        let (DataType::Struct(parts), true) = (column.data_type(), divided.contains(&index)) else {
            if let Some(decoded) = decoded {
                indexes.whole.insert(decoded, projection.len());
                projection.push(declared.len());
            }
            declared.push(Arc::clone(column));
            continue;
        };
        let read = decoded.and_then(|decoded| Some((decoded, fields.get(&decoded)?)));
        for (field, part) in parts.iter().enumerate() {
            if let Some((decoded, _)) = read.filter(|(_, read)| read.contains(&field)) {
                indexes.fields.insert((decoded, field), projection.len());
                projection.push(declared.len());
            }
            let name = format!("{}.{}", column.name(), part.name());
            declared.push(Arc::new(Field::new(name, part.data_type().clone(), true)));
        }
    }
    for stamp in 0..source.stamps().count() {
        indexes.whole.insert(source.projection.len() + stamp, projection.len() + stamp);
    }
    source.declared = Arc::new(Schema::new(declared));
    source.projection = projection;
    indexes
}

/// Changes an expression to the new indexes.
fn reindex(expr: &mut Expr, before: &Schema, indexes: &NewIndexes) {
    let index = match (field_of(expr, before), &*expr) {
        (Some(field), _) if indexes.fields.contains_key(&field) => indexes.fields.get(&field),
        (_, Expr::Column(column)) => indexes.whole.get(column),
        _ => None,
    };
    match index {
        Some(index) => *expr = Expr::Column(*index),
        None => expr.children_mut().into_iter().for_each(|child| reindex(child, before, indexes)),
    }
}
