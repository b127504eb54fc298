//! The table of one row that `VALUES` and `SELECT` without `FROM` read.

use std::sync::Arc;
use std::time::Duration;

use anabranch_dataflow::{ConnectorSpec, ONE_ROW, SourceSpec, TableTraits};
use anabranch_model::{Error, PartitionId, Result};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};

use crate::{Connector, Polled, Positions, Rows, Source, TaskContext};

/// The name of the only partition in [`Source::positions`].
const PARTITION: &str = "row";
/// Its positions before and after the row.
const UNREAD: &str = "unread";
const READ: &str = "read";

pub(crate) struct OneRow;

impl Connector for OneRow {
    fn describe(&self, _: &ConnectorSpec, _: &SchemaRef) -> Result<TableTraits> {
        Err(Error::user(format!("connector '{ONE_ROW}' is not for tables of your own"))
            .remedy("write VALUES (...), or SELECT without FROM"))
    }

    fn source(&self, spec: &SourceSpec, context: &TaskContext, from: Option<&Positions>) -> Result<Box<dyn Source>> {
        let is_read = match from.and_then(|from| from.get(PARTITION)).map(String::as_str) {
            None | Some(UNREAD) => false,
            Some(READ) => true,
            Some(other) => {
                return Err(Error::user(format!("'{other}' is no position of the constant rows of a query"))
                    .remedy("resume from another checkpoint"));
            }
        };
        let next = if is_read || context.index > 0 { NextPoll::End } else { NextPoll::Open };
        let schema = Arc::new(spec.declared.project(&spec.projection)?);
        Ok(Box::new(Reader { next, is_read, schema }))
    }
}

/// The result of the reader's next poll.
enum NextPoll {
    Open,
    Row,
    Close,
    End,
}

struct Reader {
    next: NextPoll,
    is_read: bool,
    schema: Arc<Schema>,
}

impl Source for Reader {
    fn poll(&mut self, _: Duration) -> Result<Polled> {
        let partition = PartitionId(0);
        let (polled, next) = match self.next {
            NextPoll::Open => (Polled::Opened { partition, name: PARTITION.into() }, NextPoll::Row),
            NextPoll::Row => {
                let batch =
                    RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(BooleanArray::from(vec![true]))])?;
                self.is_read = true;
                (Polled::Rows(Rows { partition, batch, malformed: Vec::new() }), NextPoll::Close)
            }
            NextPoll::Close => (Polled::Closed(partition), NextPoll::End),
            NextPoll::End => (Polled::End, NextPoll::End),
        };
        self.next = next;
        Ok(polled)
    }

    fn positions(&self) -> Result<Positions> {
        let position = if self.is_read { READ } else { UNREAD };
        Ok(Positions::from([(PARTITION.to_owned(), position.to_owned())]))
    }
}
