//! A declared table where a statement names it. The place goes with the source of the scan, which no
//! comparison of plans looks at.

use std::sync::Arc;

use anabranch_dataflow::Place;
use anabranch_model::Result;
use arrow::datatypes::SchemaRef;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::{LogicalPlan, TableScan, TableSource};
use datafusion_sql::sqlparser::tokenizer::Location;

use crate::origin::place_of;
use crate::place::planning_error;
use crate::table::{Declared, Table};
use crate::walk::Walk;

/// The source of its scan.
struct NamedTable {
    table: Arc<Table>,
    /// Where it is named.
    start: Location,
}

impl TableSource for NamedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.physical)
    }
}

/// The table that a scan reads, if a statement names it.
pub(crate) fn named_table(scan: &TableScan) -> Option<&Table> {
    scan.source.downcast_ref::<NamedTable>().map(|named| named.table.as_ref())
}

/// Where a statement names the table that a scan reads.
pub(crate) fn place_of_scan(scan: &TableScan) -> Option<Place> {
    scan.source.downcast_ref::<NamedTable>().and_then(|named| place_of(named.start))
}

impl Declared {
    /// Its plan where a statement names it.
    pub(crate) fn named_at(&self, start: Location) -> Result<LogicalPlan> {
        let source: Arc<dyn TableSource> = Arc::new(NamedTable { table: Arc::clone(&self.table), start });
        let named =
            |scan: &TableScan| LogicalPlan::TableScan(TableScan { source: Arc::clone(&source), ..scan.clone() });
        // The plan of nearly every table.
        if let LogicalPlan::Projection(columns) = &self.plan
            && let LogicalPlan::TableScan(scan) = columns.input.as_ref()
        {
            let mut columns = columns.clone();
            columns.input = Arc::new(named(scan));
            return Ok(LogicalPlan::Projection(columns));
        }
        let plan = self.plan.clone().walk_up(&mut |node| {
            Ok(match &node {
                LogicalPlan::TableScan(scan) => Transformed::yes(named(scan)),
                _ => Transformed::no(node),
            })
        });
        plan.map(|plan| plan.data).map_err(planning_error)
    }
}
