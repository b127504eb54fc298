//! Projections at the open end of a chain: expressions become physical columns.

use anabranch_dataflow::{Expr, NamedExpr, NotNullSpec, OperatorSpec, Place, SinkSpec, add_places};
use anabranch_model::Result;
use arrow::datatypes::SchemaRef;

use super::share::{Read, share};
use super::stream::Stream;

impl Stream {
    /// Computes the logical columns that have values, and the event time of windows. Each becomes one
    /// physical column, in order.
    pub(super) fn materialize(&mut self) {
        self.materialize_as(false);
    }

    /// [`Stream::materialize`]. `exactly`: with the names and nullability of the logical columns.
    pub(super) fn materialize_as(&mut self, exactly: bool) {
        let mut exprs: Vec<NamedExpr> = Vec::new();
        let mut places = Vec::new();
        for column in &mut self.columns {
            if let Some(value) = column.value.take() {
                column.value = Some(Expr::Column(exprs.len()));
                places.extend(column.place.filter(|_| !is_column(&value)));
                exprs.push(column.named(&value));
            }
        }
        if let Some(windowed) = &mut self.window {
            let mut of_windows = std::iter::once(&windowed.time).chain(windowed.partition.iter().map(|key| &key.expr));
            if !of_windows.all(is_column) {
                places.extend_from_slice(&windowed.places);
            }
            let position = exprs.iter().position(|e| e.expr == windowed.time).unwrap_or(exprs.len());
            if position == exprs.len() {
                exprs.push(NamedExpr {
                    name: "$event_time".to_string(),
                    expr: windowed.time.clone(),
                    data_type: windowed.time_type.clone(),
                    nullable: true,
                });
            }
            windowed.time = Expr::Column(position);
            for key in &mut windowed.partition {
                let position = exprs.iter().position(|e| e.expr == key.expr).unwrap_or(exprs.len());
                if position == exprs.len() {
                    exprs.push(key.clone());
                }
                key.expr = Expr::Column(position);
            }
        }
        exprs.extend(self.carried_weight(exprs.len()));
        for (stamp, column) in &mut self.stamps {
            let before = std::mem::replace(column, exprs.len());
            exprs.push(NamedExpr::with_field(Expr::Column(before), &stamp.field()));
        }
        add_places(&mut places, &[]);
        self.project_from(exprs, exactly, (places, false));
    }

    /// Adds a projection, unless it changes nothing. With `exactly`, names and nullability count as changes.
    pub(super) fn project(&mut self, exprs: Vec<NamedExpr>, exactly: bool) {
        let origin = self.origin_of(&exprs);
        self.project_from(exprs, exactly, origin);
    }

    /// The origin of expressions: the places of the columns with these values, and whether other expressions
    /// are computed too.
    fn origin_of(&self, exprs: &[NamedExpr]) -> (Vec<Place>, bool) {
        let (mut places, mut is_open) = (Vec::new(), false);
        // The columns are mostly in the order of the expressions.
        let mut next = 0;
        for NamedExpr { expr, .. } in exprs.iter().filter(|named| !is_column(&named.expr)) {
            let (before, rest) = self.columns.split_at(next);
            let mut columns = rest.iter().chain(before);
            match columns.position(|column| column.value.as_ref() == Some(expr)) {
                Some(found) => {
                    let found = (next + found) % self.columns.len();
                    places.extend(self.columns[found].place);
                    next = found + 1;
                }
                None => is_open = true,
            }
        }
        add_places(&mut places, &[]);
        (places, is_open)
    }

    fn project_from(&mut self, exprs: Vec<NamedExpr>, exactly: bool, (places, is_open): (Vec<Place>, bool)) {
        let same = exprs.len() == self.physical.len()
            && exprs.iter().zip(&self.physical).enumerate().all(|(i, (e, field))| {
                let alike = e.name == *field.name() && e.nullable == field.is_nullable();
                e.expr == Expr::Column(i) && (!exactly || alike)
            });
        if same {
            return;
        }
        let mut exprs = exprs;
        let mut reads: Vec<Read> = exprs.iter_mut().map(|named| Read { expr: &mut named.expr, always: true }).collect();
        let shared = share(&mut reads, &self.physical);
        for columns in shared {
            self.operators.push_as(OperatorSpec::Project { columns }, places.clone(), is_open);
        }
        self.physical = exprs.iter().map(NamedExpr::field).collect();
        self.operators.push_as(OperatorSpec::Project { columns: exprs }, places, is_open);
    }

    /// Computes common subexpressions once, and changes the expressions to read them. The logical columns are
    /// no longer valid.
    pub(super) fn share_of(&mut self, reads: Vec<Read<'_>>) {
        let mut weight = self.weight.map(Expr::Column);
        let weights = weight.iter_mut().map(|expr| Read { expr, always: true });
        let mut reads: Vec<Read> = reads.into_iter().chain(weights).collect();
        let shared = share(&mut reads, &self.physical);
        let Some(last) = shared.last() else { return };
        self.physical = last.iter().map(NamedExpr::field).collect();
        shared.into_iter().for_each(|columns| self.operators.push(OperatorSpec::Project { columns }));
        if let Some(Expr::Column(index)) = weight {
            self.weight = Some(index);
        }
        self.stamps.clear();
    }

    /// Computes exactly the columns of a sink.
    pub(super) fn shape_for_sink(&mut self, schema: &SchemaRef) -> Result<()> {
        // Even if no window column is needed: a row appears once for each of its windows.
        self.assign_windows()?;
        let mut exprs = Vec::with_capacity(self.columns.len());
        for (column, field) in self.columns.iter().zip(schema.fields()) {
            exprs.push(NamedExpr { name: field.name().clone(), ..column.needed()? });
        }
        (self.window, self.stamps) = (None, Vec::new());
        exprs.extend(self.carried_weight(exprs.len()));
        self.project(exprs, true);
        for (index, column) in self.columns.iter_mut().enumerate() {
            column.value = Some(Expr::Column(index));
        }
        Ok(())
    }

    /// Enforces NOT NULL of the sink's columns.
    pub(super) fn require_values(&mut self, sink: &SinkSpec, drop_rows: bool) {
        let fields = self.physical.iter().zip(sink.schema.fields()).enumerate();
        let required = fields.filter(|(_, (given, wanted))| given.is_nullable() && !wanted.is_nullable());
        let columns: Vec<usize> = required.map(|(index, _)| index).collect();
        if !columns.is_empty() {
            let table = sink.table.clone();
            self.operators.push(OperatorSpec::NotNull(NotNullSpec { table, columns, drop_rows }));
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_))
}
