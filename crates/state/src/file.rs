//! Rows of state as a file: Arrow's streaming format, so that any Arrow reader can look into it.

use anabranch_model::{Error, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;

/// Encodes rows, all of this schema.
pub fn encode_rows(schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Vec<u8>> {
    let failed = |error| Error::internal(format!("state cannot be encoded: {error}"));
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(failed)?;
    rows.iter().try_for_each(|batch| writer.write(batch)).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

/// Decodes what [`encode_rows`] encoded. The content's checksum has been checked before.
pub fn decode_rows(content: &[u8]) -> Result<Vec<RecordBatch>> {
    let failed = |error| {
        Error::damaged(format!("state cannot be decoded: {error}"))
            .remedy("read the checkpoint with the version of Anabranch that wrote it")
    };
    let reader = StreamReader::try_new(content, None).map_err(failed)?;
    reader.collect::<std::result::Result<_, _>>().map_err(failed)
}
