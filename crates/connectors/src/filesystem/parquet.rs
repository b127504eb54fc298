//! One Parquet file as rows: only the columns of the query are read, found by their names.

use std::fs::File;
use std::path::Path;

use anabranch_dataflow::sql_name;
use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::RowGroupMetaData;

use super::input::PUT_BACK;
use super::position::Position;
use crate::format::batch;

/// A file being read.
pub(super) struct ParquetFile {
    place: String,
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    row_groups: Vec<u64>,
    row_group: usize,
    /// Rows of the row group already delivered.
    row: u64,
}

impl ParquetFile {
    /// Reads the columns of `schema` in an open file, from a row of a row group on.
    pub(super) fn open(
        path: &Path,
        file: File,
        (schema, batch_rows): (&SchemaRef, usize),
        from: (u64, u64),
    ) -> Result<Self> {
        let place = path.display().to_string();
        let not_parquet = |e| Error::user(format!("not a readable Parquet file: {e}")).at(&place);
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(not_parquet)?;
        let columns = columns(builder.schema(), schema).map_err(|e| e.at(&place))?;
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns);
        let rows = |group: &RowGroupMetaData| u64::try_from(group.num_rows()).unwrap_or(0);
        let row_groups: Vec<u64> = builder.metadata().row_groups().iter().map(rows).collect();
        let (row_group, row) = from;
        let found = usize::try_from(row_group).ok().filter(|group| match row_groups.get(*group) {
            Some(rows) => row <= *rows,
            None => *group == row_groups.len() && row == 0,
        });
        let Some(row_group) = found else {
            let error =
                Error::user(format!("the file has no row {row} of row group {row_group}, where reading continues"));
            return Err(error.at(&place).remedy(PUT_BACK));
        };
        let mut builder = builder.with_projection(mask).with_batch_size(batch_rows);
        if (row_group, row) != (0, 0) {
            let offset = usize::try_from(row).unwrap_or(usize::MAX);
            builder = builder.with_row_groups((row_group..row_groups.len()).collect()).with_offset(offset);
        }
        let reader = builder.build().map_err(not_parquet)?;
        Ok(ParquetFile { place, reader, schema: schema.clone(), row_groups, row_group, row })
    }

    /// The position of the next rows.
    pub(super) fn position(&self) -> Position {
        Position::Parquet { row_group: self.row_group as u64, row: self.row }
    }

    /// Advances by rows that were delivered.
    fn advance(&mut self, rows: usize) {
        self.row += rows as u64;
        while let Some(rows) = self.row_groups.get(self.row_group)
            && self.row >= *rows
        {
            self.row -= rows;
            self.row_group += 1;
        }
    }

    /// The next rows; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rows) = self.reader.next() else { return Ok(None) };
        let rows = rows.map_err(|e| Error::user(format!("not a readable Parquet file: {e}")).at(&self.place))?;
        self.advance(rows.num_rows());
        self.conform(&rows).map(Some).map_err(|e| e.at(&self.place))
    }

    /// The rows with their columns in the declared order and types.
    fn conform(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self.schema.fields().iter().map(|field| {
            let name = field.name();
            let column = rows.column_by_name(name);
            let column = column.ok_or_else(|| Error::internal(format!("column '{name}' was not read")))?;
            let declared = field.data_type();
            let cast = cast_with_options(column, declared, &options).map_err(|e| {
                let (is, declared) = (sql_name(column.data_type()), sql_name(declared));
                Error::user(format!("column '{name}' is {is} and declared as {declared}: {e}"))
                    .remedy(format!("declare the column as {is}"))
            })?;
            if cast.null_count() > 0 && !field.is_nullable() {
                return Err(Error::user(format!("column '{name}' holds NULL")).remedy("declare it without NOT NULL"));
            }
            Ok(cast)
        });
        batch(&self.schema, columns.collect::<Result<_>>()?, rows.num_rows())
    }
}

/// Indexes of the columns to read.
fn columns(file: &Schema, wanted: &Schema) -> Result<Vec<usize>> {
    let index = |name: &String| {
        file.index_of(name).map_err(|_| {
            let names: Vec<_> = file.fields().iter().map(|f| f.name().as_str()).collect();
            Error::user(format!("the file has no column '{name}'"))
                .remedy(format!("its columns are: {}", names.join(", ")))
        })
    };
    wanted.fields().iter().map(|field| index(field.name())).collect()
}
