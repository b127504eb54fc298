//! Print: rows on standard output, one line each: the table's name and comma-separated values. If rows are
//! updated, an inserted row has `+` before its values and a retracted one `-`. A row with a weight beyond 1
//! or -1 is printed that many times.

use std::io::{self, Write};

use anabranch_dataflow::{ConnectorSpec, SinkSpec, TableTraits, Updates};
use anabranch_model::{Epoch, Error, Result};
use anabranch_operators::{Connector, Sink, TaskContext};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

use crate::Options;
use crate::format::Encode;
use crate::format::csv::{CsvEncoder, CsvOptions};

/// Tables that write their rows to standard output, or to writers of the embedding program.
/// `'print-identifier'` replaces the table's name before each row.
pub struct PrintConnector {
    writer: Box<NewWriter>,
}

/// Creates the writer of a task.
type NewWriter = dyn Fn(&Printed<'_>) -> Box<dyn Write + Send> + Send + Sync;

/// A table whose rows are printed.
#[derive(Debug)]
pub struct Printed<'a> {
    /// The prefix of each row, without `> `.
    pub identifier: &'a str,
    /// The columns of the rows, without a weight.
    pub columns: &'a SchemaRef,
    /// Whether rows are updated. Then a sign precedes the values.
    pub updating: bool,
}

impl Default for PrintConnector {
    /// Lines go to standard output.
    fn default() -> Self {
        Self::to(|_| Box::new(io::stdout()))
    }
}

impl PrintConnector {
    /// Lines go to the writers that `writer` creates, one for each task of a table. Each call of `write_all`
    /// has whole lines.
    pub fn to(writer: impl Fn(&Printed<'_>) -> Box<dyn Write + Send> + Send + Sync + 'static) -> Self {
        PrintConnector { writer: Box::new(writer) }
    }
}

fn identifier(spec: &ConnectorSpec) -> Result<Option<&str>> {
    let mut options = Options::new(spec);
    let identifier = options.string("print-identifier");
    options.finish()?;
    Ok(identifier)
}

impl Connector for PrintConnector {
    fn is_of_process(&self) -> bool {
        true
    }

    fn describe(&self, spec: &ConnectorSpec, _columns: &SchemaRef) -> Result<TableTraits> {
        identifier(spec)?;
        Ok(TableTraits { writable: true, updates: Updates::Shown, ..TableTraits::default() })
    }

    fn sink(&self, spec: &SinkSpec, _context: &TaskContext) -> Result<Box<dyn Sink>> {
        let identifier = identifier(&spec.connector)?.unwrap_or(&spec.table);
        let printed = Printed { identifier, columns: &spec.schema, updating: spec.updating };
        Ok(Box::new(PrintSink::new(identifier, spec, (self.writer)(&printed))))
    }
}

struct PrintSink<W> {
    prefix: String,
    encoder: CsvEncoder,
    /// Number of columns before the weight, if rows have weights.
    weight: Option<usize>,
    lines: Vec<u8>,
    out: W,
}

impl<W: Write> PrintSink<W> {
    fn new(identifier: &str, spec: &SinkSpec, out: W) -> Self {
        let options = CsvOptions { null: "NULL".into(), ..CsvOptions::default() };
        let prefix = if identifier.is_empty() { String::new() } else { format!("{identifier}> ") };
        let weight = spec.updating.then(|| spec.schema.fields().len());
        PrintSink { prefix, encoder: CsvEncoder::for_people(&options), weight, lines: Vec::new(), out }
    }
}

impl<W: Write + Send> Sink for PrintSink<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.lines.clear();
        match self.weight {
            None => {
                for record in self.encoder.encode(batch)?.iter().flatten() {
                    line(&mut self.lines, &self.prefix, "", record);
                }
            }
            Some(weight) => {
                let records = self.encoder.encode(&batch.project(&(0..weight).collect::<Vec<_>>())?)?;
                let weights = batch.column(weight).as_primitive::<Int64Type>().values();
                for (record, weight) in records.iter().flatten().zip(weights) {
                    let sign = if *weight > 0 { "+ " } else { "- " };
                    (0..weight.unsigned_abs()).for_each(|_| line(&mut self.lines, &self.prefix, sign, record));
                }
            }
        }
        // One call per batch: the lines of two tasks do not mix, and the lock of standard output is taken
        // once.
        let written = self.out.write_all(&self.lines).and_then(|()| self.out.flush());
        written.map_err(|e| Error::outside(format!("cannot write to standard output: {e}")))
    }

    fn epoch_end(&mut self, _epoch: Epoch) -> Result<()> {
        Ok(())
    }
}

fn line(lines: &mut Vec<u8>, prefix: &str, sign: &str, record: &[u8]) {
    [prefix.as_bytes(), sign.as_bytes(), record, b"\n"].into_iter().for_each(|part| lines.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use anabranch_operators::testing::context;
    use arrow::array::{ArrayRef, Int64Array, ListArray, StringViewArray};

    use super::*;

    #[test]
    fn rows_become_lines() {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let names: ArrayRef = Arc::new(StringViewArray::from(vec!["a,b", "NULL"]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
        let connector = ConnectorSpec::new("print", &[]);
        let spec = SinkSpec::new("results", connector, batch.schema());
        let mut sink = PrintSink::new("results", &spec, Vec::new());
        sink.write(&batch).unwrap();
        sink.write(&batch.slice(0, 0)).unwrap();
        sink.epoch_end(Epoch::FIRST).unwrap();
        assert_eq!(String::from_utf8(sink.out).unwrap(), "results> 1,\"a,b\"\nresults> NULL,\"NULL\"\n");

        let weights: ArrayRef = Arc::new(Int64Array::from(vec![-1, 2]));
        let columns = batch.columns().iter().cloned().chain([weights]);
        let names = ["id", "name", "$weight"];
        let updates = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let mut sink = PrintSink::new("", &SinkSpec { updating: true, ..spec }, Vec::new());
        sink.write(&updates).unwrap();
        assert_eq!(String::from_utf8(sink.out).unwrap(), "- 1,\"a,b\"\n+ NULL,\"NULL\"\n+ NULL,\"NULL\"\n");
    }

    #[test]
    fn null_within_an_array_is_shown() {
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None, Some(3)]), None]);
        let batch = RecordBatch::try_from_iter([("list", Arc::new(list) as ArrayRef)]).unwrap();
        let connector = ConnectorSpec::new("print", &[]);
        let mut sink = PrintSink::new("", &SinkSpec::new("results", connector, batch.schema()), Vec::new());
        sink.write(&batch).unwrap();
        assert_eq!(String::from_utf8(sink.out).unwrap(), "\"[1, NULL, 3]\"\nNULL\n");
    }

    #[test]
    fn lines_go_to_the_embedders_writer() {
        #[derive(Clone, Default)]
        struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, text: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(text)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let connector = ConnectorSpec::new("print", &[("print-identifier", "x")]);
        let spec = SinkSpec::new("results", connector, batch.schema());
        let shared = Shared::default();
        let writer = shared.clone();
        let print = PrintConnector::to(move |_| Box::new(writer.clone()));
        print.sink(&spec, &context(0, 1, 10)).unwrap().write(&batch).unwrap();
        assert_eq!(shared.0.lock().unwrap().as_slice(), b"x> 7\n");
    }
}
