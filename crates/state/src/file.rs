//! Rows of state as a file: Arrow's streaming format, which any Arrow reader can open, with
//! [narrow](crate::narrow) numbers.

use anabranch_model::{Error, Result, batch_bytes};
use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use bytes::Bytes;

use crate::narrow::{narrow, widen};
use crate::runs::detached;

/// Divides rows into files of about this many bytes: a reader holds a whole file in memory.
pub fn pieces(rows: Vec<RecordBatch>, bytes_max: usize) -> Result<Vec<Vec<RecordBatch>>> {
    if rows.iter().map(batch_bytes).sum::<usize>() <= bytes_max {
        return Ok(if rows.is_empty() { Vec::new() } else { vec![rows] });
    }
    let (mut pieces, mut piece, mut bytes) = (Vec::new(), Vec::new(), 0);
    for batch in rows {
        let row_bytes = batch_bytes(&batch).div_ceil(batch.num_rows().max(1)).max(1);
        let step = (bytes_max / row_bytes).max(1);
        for first in (0..batch.num_rows()).step_by(step) {
            let slice = detached(&batch.slice(first, step.min(batch.num_rows() - first)))?;
            let slice_bytes = batch_bytes(&slice);
            if bytes > 0 && bytes + slice_bytes > bytes_max {
                pieces.push(std::mem::take(&mut piece));
                bytes = 0;
            }
            bytes += slice_bytes;
            piece.push(slice);
        }
    }
    pieces.push(piece);
    Ok(pieces)
}

/// Room for what a file has beside its columns.
const HEADERS_BYTES: usize = 4 << 10;

/// Encodes rows, all of this schema.
pub fn encode_rows(schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Vec<u8>> {
    let failed = |error| Error::internal(format!("state cannot be encoded: {error}"));
    let (schema, rows) = narrow(schema, rows)?;
    // Memory that grows is copied, and twice as much is given back.
    let bytes = rows.iter().map(batch_bytes).sum::<usize>();
    let content = Vec::with_capacity(bytes + bytes / 16 + HEADERS_BYTES);
    let mut writer = StreamWriter::try_new(content, &schema).map_err(failed)?;
    rows.iter().try_for_each(|batch| writer.write(batch)).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

/// Decodes the output of [`encode_rows`], a batch at a time, without copying the columns that are not narrow.
/// The content's checksum has been verified before.
pub fn read_rows(content: Bytes) -> impl Iterator<Item = Result<RecordBatch>> {
    let (mut decoder, mut left) = (StreamDecoder::new(), Buffer::from(content));
    let mut next = move || match decoder.decode(&mut left)? {
        None if decoder.schema().is_none() => Err(ArrowError::IpcError("there is no schema".into())),
        None => decoder.finish().map(|()| None),
        batch => Ok(batch),
    };
    let failed = |error: ArrowError| {
        Error::outside(format!("state cannot be decoded: {error}"))
            .remedy("read the checkpoint with the version of Anabranch that wrote it")
    };
    std::iter::from_fn(move || next().map_err(failed).transpose()).map(|batch| widen(batch?))
}

/// The same, all at once.
pub fn decode_rows(content: Bytes) -> Result<Vec<RecordBatch>> {
    read_rows(content).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, StringViewArray};

    use super::*;

    #[test]
    fn columns_are_read_in_place_and_what_is_no_file_is_an_error() {
        let names: StringViewArray = (0..100).map(|n| Some(format!("a name that is not short {n}"))).collect();
        let rows = RecordBatch::try_from_iter([("name", Arc::new(names) as _)]).expect("batch");
        let content = Bytes::from(encode_rows(&rows.schema(), std::slice::from_ref(&rows)).expect("encoded"));
        let read = decode_rows(content.clone()).expect("decoded");
        assert_eq!(read, [rows]);
        let place = |pointer: *const u8| content.as_ptr_range().contains(&pointer);
        assert!(place(read[0].column(0).as_string_view().data_buffers()[0].as_ptr()), "the texts were copied");
        for cut in [0, 3, content.len() / 2, content.len() - 9] {
            assert!(decode_rows(content.slice(..cut)).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn pieces_have_the_given_size_and_contain_everything() {
        let names = |from: usize| (from..from + 1000).map(|n| Some(format!("a name that is not short {n}")));
        let batch = |from| {
            let column = Arc::new(names(from).collect::<StringViewArray>()) as _;
            RecordBatch::try_from_iter([("name", column)]).expect("batch")
        };
        let rows = vec![batch(0), batch(1000), batch(2000)];
        assert_eq!(pieces(rows.clone(), 1 << 20).expect("one").len(), 1);
        let files = pieces(rows.clone(), 10_000).expect("many");
        assert!(files.len() > 10);
        let mut read = Vec::new();
        for piece in files {
            let content = encode_rows(&rows[0].schema(), &piece).expect("encoded");
            assert!(content.len() < 20_000, "{} bytes", content.len());
            read.extend(decode_rows(content.into()).expect("decoded"));
        }
        let whole = |rows: &[RecordBatch]| arrow::compute::concat_batches(&rows[0].schema(), rows).expect("one");
        assert_eq!(whole(&read), whole(&rows));
        assert_eq!(pieces(Vec::new(), 1).expect("none").len(), 0);
    }
}
