//! Blackhole: counts rows and drops them, for measurements and for queries whose output is not needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits, Updates, Visibility};
use anabranch_model::{Epoch, Result};
use anabranch_operators::{Connector, Sink, TaskContext};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::Options;

/// A table that accepts every row and keeps none.
#[derive(Debug, Default)]
pub struct BlackholeConnector {
    rows: Arc<AtomicU64>,
}

impl BlackholeConnector {
    /// Rows dropped so far by all tasks.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

impl Connector for BlackholeConnector {
    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        Options::new(spec).finish()?;
        Ok(TableTraits {
            writable: true,
            updates: Updates::Shown,
            visibility: Visibility::Never,
            ..TableTraits::default()
        })
    }

    fn sink(&self, spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        Options::new(&spec.connector).finish()?;
        Ok(Box::new(BlackholeSink { rows: self.rows.clone() }))
    }
}

struct BlackholeSink {
    rows: Arc<AtomicU64>,
}

impl Sink for BlackholeSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}
