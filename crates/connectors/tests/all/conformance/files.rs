//! Files.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anabranch_connectors::FilesystemConnector;
use anabranch_dataflow::ConnectorSpec;
use anabranch_model::PartitionId;
use anabranch_operators::{Connector, Polled, Positions, Source};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::folder::{names, table};
use crate::rows::{batches, schema};
use crate::suite::resume::{positions, with_rows};
use crate::suite::{
    SourceCase, check_malformed, check_sink, check_source, check_waits, context, drain, row_texts, sink_spec,
    source_spec, write,
};

const FORMATS: [&[(&str, &str)]; 5] = [
    &[("format", "json")],
    &[("format", "csv")],
    &[("format", "csv"), ("csv.delimiter", ";"), ("csv.header", "true"), ("csv.null", "NULL")],
    &[("format", "json"), ("json.timestamp-format", "iso-8601")],
    &[("format", "parquet")],
];

fn ids() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]))
}

/// Rows of a whole table.
fn read(spec: &ConnectorSpec, columns: &SchemaRef) -> Vec<String> {
    let all: Vec<_> = (0..columns.fields().len()).collect();
    let drained = drain(&FilesystemConnector, spec, columns, &all, 2);
    assert_eq!(drained.malformed, []);
    drained.sorted()
}

#[test]
fn what_is_written_can_be_read() {
    for format in FORMATS {
        let folder = TempDir::new().unwrap();
        let at = |parallelism: u32| table(&folder.path().join(parallelism.to_string()), format);
        check_sink(&FilesystemConnector, &at, &batches(), &|parallelism| read(&at(parallelism), &schema()));
        let rolling = [format, &[("sink.rolling-interval", "0")]].concat();
        let at = |parallelism: u32| table(&folder.path().join(format!("rolling-{parallelism}")), &rolling);
        check_sink(&FilesystemConnector, &at, &batches(), &|parallelism| read(&at(parallelism), &schema()));
    }
}

#[test]
fn files_are_partitions() {
    for format in FORMATS {
        let folder = TempDir::new().unwrap();
        let options = [format, &[("sink.rolling-size", "1 b")]].concat();
        let spec = table(folder.path(), &options);
        write(&FilesystemConnector, &spec, &batches(), 3);
        let rows: Vec<_> = batches().iter().flat_map(row_texts).collect();
        check_source(&SourceCase {
            connector: &FilesystemConnector,
            spec,
            columns: schema(),
            row_count: rows.len(),
            rows: Some(rows),
            ascending: Some("id"),
        });
        let names: Vec<_> = names(folder.path()).into_iter().filter(|name| name.starts_with("part-")).collect();
        assert!(names.len() > 3, "{names:?}");
    }
}

#[test]
fn a_job_writes_beside_the_files_of_earlier_ones() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json")]);
    write(&FilesystemConnector, &spec, &batches()[..1], 1);
    write(&FilesystemConnector, &spec, &batches()[1..2], 1);
    assert_eq!(names(folder.path()), ["part-0-0.json", "part-0-1.json"]);
    assert_eq!(read(&spec, &schema()).len(), 11);
}

#[test]
fn rows_are_hidden_until_their_file_is_complete_and_survive_a_killed_writer() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json")]);
    let writer = sink_spec(&spec, &schema());
    let mut sink = FilesystemConnector.sink(&writer, &context(0, 1)).unwrap();
    sink.write(&batches()[0]).unwrap();
    sink.epoch_end(anabranch_model::Epoch(1)).unwrap();
    assert_eq!(read(&spec, &schema()), Vec::<String>::new());
    assert_eq!(names(folder.path()), [".part-0-0.json.inprogress"]);
    // Another job leaves the file alone as long as its writer lives.
    let mut other = FilesystemConnector.sink(&writer, &context(0, 1)).unwrap();
    other.finish().unwrap();
    assert_eq!(names(folder.path()), [".part-0-0.json.inprogress"]);
    drop(sink);
    let torn = folder.path().join(".part-0-0.json.inprogress");
    OpenOptions::new().append(true).open(&torn).unwrap().write_all(b"{\"id\": 77").unwrap();
    fs::write(folder.path().join(".part-5-0.json.inprogress"), b"{\"id\": 78").unwrap();
    let mut next = FilesystemConnector.sink(&writer, &context(0, 1)).unwrap();
    next.finish().unwrap();
    assert_eq!(names(folder.path()), ["part-0-0.json"]);
    assert_eq!(read(&spec, &schema()).len(), batches()[0].num_rows());
}

#[test]
fn malformed_lines_are_reported_with_their_places() {
    let folder = TempDir::new().unwrap();
    let place = |name: &str, line: u32| format!("{} line {line}", folder.path().join(name).display());
    fs::write(folder.path().join("a.json"), "{\"id\": 1}\n\n{\"id\":\n{\"id\": 2}\n").unwrap();
    fs::write(folder.path().join("b.json"), "{\"id\": 3}\nnothing\n{\"id\": 4}").unwrap();
    let case = |format: &'static str| SourceCase {
        connector: &FilesystemConnector,
        spec: table(folder.path(), &[("format", format)]),
        columns: ids(),
        row_count: 4,
        rows: Some(["1", "2", "3", "4"].map(str::to_owned).to_vec()),
        ascending: None,
    };
    check_malformed(&case("json"), &[&place("a.json", 3), &place("b.json", 2)]);
    fs::write(folder.path().join("a.json"), "1\n\n\"x\n y\"\n2\n").unwrap();
    fs::write(folder.path().join("b.json"), "3\n4,5\n4").unwrap();
    check_malformed(&case("csv"), &[&place("a.json", 3), &place("b.json", 2)]);
}

#[test]
fn a_header_must_name_the_declared_columns() {
    let folder = TempDir::new().unwrap();
    let columns =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
    let path = folder.path().join("table.csv");
    let spec = table(&path, &[("format", "csv"), ("csv.header", "true")]);
    fs::write(&path, "\u{feff}a,\"b\"\n1,2\n").unwrap();
    assert_eq!(read(&spec, &columns), ["1|2"]);
    fs::write(&path, "b,a\n1,2\n").unwrap();
    let mut source = FilesystemConnector.source(&source_spec(&spec, &columns, &[0]), &context(0, 1), None).unwrap();
    assert!(matches!(source.poll(Duration::ZERO).unwrap(), Polled::Opened { partition: PartitionId(0), .. }));
    let error = source.poll(Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("table.csv line 1: the header names the columns b, a, declared are a, b"), "{error}");
}

#[test]
fn a_folder_is_followed() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json"), ("source.monitor-interval", "10 ms")]);
    assert!(!FilesystemConnector.describe(&spec, &ids()).unwrap().bounded);
    fs::write(folder.path().join("a.json"), "{\"id\": 1}\n{\"id\"").unwrap();
    let reader = source_spec(&spec, &ids(), &[0]);
    let mut sources: Vec<_> =
        (0..3).map(|index| FilesystemConnector.source(&reader, &context(index, 3), None).unwrap()).collect();
    assert_eq!(read_more(&mut sources), ["1"]);
    let mut file = OpenOptions::new().append(true).open(folder.path().join("a.json")).unwrap();
    file.write_all(b": 2}\n{\"id\": 3}\n").unwrap();
    assert_eq!(read_more(&mut sources), ["2", "3"]);
    for name in ["b.json", "c.json", "d.json", "e.json", ".hidden.json", "_about.json"] {
        fs::write(folder.path().join(name), "{\"id\": 4}\n").unwrap();
    }
    assert_eq!(read_more(&mut sources), ["4", "4", "4", "4"]);
    assert_eq!(read_more(&mut sources), Vec::<String>::new());
}

#[test]
fn a_followed_folder_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "csv"), ("source.monitor-interval", "10 s")]);
    let mut source = FilesystemConnector.source(&source_spec(&spec, &ids(), &[0]), &context(0, 1), None).unwrap();
    check_waits(source.as_mut());
}

/// The rows of several tasks until none has more for a while.
fn read_more(sources: &mut [Box<dyn Source>]) -> Vec<String> {
    let mut rows = Vec::new();
    for (index, source) in sources.iter_mut().enumerate() {
        let mut pending = 0;
        while pending < 3 {
            match source.poll(Duration::from_millis(30)).unwrap() {
                Polled::Rows(batch) => rows.extend(row_texts(&batch.batch)),
                Polled::Opened { partition, .. } => assert_eq!(partition.0 as usize % 3, index),
                Polled::Pending => pending += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    rows.sort();
    rows
}

#[test]
fn lines_are_rows() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log.txt");
    fs::write(&path, "first\r\n\nthird, which is longer than the others\nlast").unwrap();
    let columns = Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8View, false)]));
    let rows = ["first", "", "third, which is longer than the others", "last"].map(str::to_owned).to_vec();
    check_source(&SourceCase {
        connector: &FilesystemConnector,
        spec: table(&path, &[("format", "raw")]),
        columns,
        row_count: rows.len(),
        rows: Some(rows),
        ascending: None,
    });
}

#[test]
fn parquet_row_groups_are_read_on() {
    let folder = TempDir::new().unwrap();
    for (name, batch) in ["a.parquet", "b.parquet"].iter().zip([&batches()[2], &batches()[3]]) {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(37)).build();
        let file = fs::File::create(folder.path().join(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        assert!(writer.close().unwrap().num_row_groups() > 1);
    }
    let spec = table(folder.path(), &[("format", "parquet")]);
    let rows: Vec<_> = batches()[2..4].iter().flat_map(row_texts).collect();
    check_source(&SourceCase {
        connector: &FilesystemConnector,
        spec: spec.clone(),
        columns: schema(),
        row_count: rows.len(),
        rows: Some(rows),
        ascending: Some("id"),
    });
    let reader = source_spec(&spec, &schema(), &[0]);
    let first_error = |position: &str| {
        let from = [("a.parquet".to_owned(), position.to_owned())].into();
        let mut source = FilesystemConnector.source(&reader, &context(0, 1), Some(&from)).unwrap();
        (0..10).find_map(|_| source.poll(Duration::ZERO).err()).map(|error| error.to_string())
    };
    assert_eq!(first_error("row-group 2 row 10"), None);
    for wrong in ["row-group 0 row 38", "row-group 99 row 0"] {
        let error = first_error(wrong).unwrap();
        assert!(error.contains("a.parquet") && error.contains("where reading continues"), "{error}");
    }
}

#[test]
fn parquet_is_read_however_it_is_packed() {
    let packings = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    for packing in packings {
        let folder = TempDir::new().unwrap();
        let properties = WriterProperties::builder().set_compression(packing).build();
        let file = fs::File::create(folder.path().join("a.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema(), Some(properties)).unwrap();
        writer.write(&batches()[2]).unwrap();
        writer.close().unwrap();
        let mut expected = row_texts(&batches()[2]);
        expected.sort();
        assert_eq!(read(&table(folder.path(), &[("format", "parquet")]), &schema()), expected, "{packing}");
    }
}

#[test]
fn written_parquet_holds_plain_texts() {
    let folder = TempDir::new().unwrap();
    write(&FilesystemConnector, &table(folder.path(), &[("format", "parquet")]), &batches()[..1], 1);
    let file = fs::File::open(folder.path().join("part-0-0.parquet")).unwrap();
    let file = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let types: Vec<_> = file.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let written: Vec<_> = schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!((&types[1], &written[1]), (&DataType::Utf8, &DataType::Utf8View));
    assert_eq!((types[0].clone(), types[2..].to_vec()), (written[0].clone(), written[2..].to_vec()));
}

#[test]
fn packed_text_is_read_by_its_name_or_its_option() {
    let folder = TempDir::new().unwrap();
    let rows: Vec<_> = batches().iter().flat_map(row_texts).collect();
    write(&FilesystemConnector, &table(&folder.path().join("plain"), &[("format", "json")]), &batches(), 2);
    let (by_name, by_option) = (folder.path().join("by-name"), folder.path().join("by-option"));
    fs::create_dir(&by_name).unwrap();
    fs::create_dir(&by_option).unwrap();
    for (index, name) in names(&folder.path().join("plain")).iter().enumerate() {
        let text = fs::read(folder.path().join("plain").join(name)).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        fs::write(by_option.join(name), &gzip).unwrap();
        match index {
            0 => fs::write(by_name.join(format!("{name}.zst")), zstd::encode_all(text.as_slice(), 3).unwrap()).unwrap(),
            _ => fs::write(by_name.join(format!("{name}.gz")), &gzip).unwrap(),
        }
    }
    for spec in
        [table(&by_name, &[("format", "json")]), table(&by_option, &[("format", "json"), ("compression", "gzip")])]
    {
        check_source(&SourceCase {
            connector: &FilesystemConnector,
            spec,
            columns: schema(),
            row_count: rows.len(),
            rows: Some(rows.clone()),
            ascending: Some("id"),
        });
    }
}

#[test]
fn parquet_columns_are_found_by_name() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "parquet")]);
    write(&FilesystemConnector, &spec, &batches()[..1], 1);
    let columns =
        Arc::new(Schema::new(vec![Field::new("name", DataType::Utf8, true), Field::new("id", DataType::Int32, false)]));
    let rows = read(&spec, &columns);
    assert_eq!(rows[0], "NULL|4");
    assert_eq!(rows.len(), 10);
    let check = |field: Field, expected: &str| {
        let columns = Arc::new(Schema::new(vec![field]));
        let mut source = FilesystemConnector.source(&source_spec(&spec, &columns, &[0]), &context(0, 1), None).unwrap();
        source.poll(Duration::ZERO).unwrap();
        let error = source.poll(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("part-0-0.parquet") && error.contains(expected), "{error}");
    };
    check(Field::new("nam", DataType::Utf8View, true), "the file has no column 'nam'");
    check(Field::new("name", DataType::Utf8View, false), "column 'name' holds NULL");
    check(Field::new("name", DataType::Int64, false), "column 'name' is STRING and declared as BIGINT");
    fs::write(folder.path().join("part-0-0.parquet"), "no parquet").unwrap();
    check(Field::new("id", DataType::Int64, false), "not a readable Parquet file");
}

fn spec_of(path: &str, format: &str, compression: Option<&str>) -> ConnectorSpec {
    let compression = compression.map(|compression| ("compression", compression));
    ConnectorSpec::new(
        "filesystem",
        &[("path", path), ("format", format)].into_iter().chain(compression).collect::<Vec<_>>(),
    )
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let folder = TempDir::new().unwrap();
    let error = |spec: ConnectorSpec| FilesystemConnector.describe(&spec, &ids()).unwrap_err().to_string();
    assert!(error(ConnectorSpec::new("filesystem", &[])).contains("needs the option 'path'"));
    assert!(error(ConnectorSpec::new("filesystem", &[("path", "x")])).contains("needs the option 'format'"));
    assert!(error(table(folder.path(), &[("format", "xml")])).contains("use 'json', 'csv', 'raw' or 'parquet'"));
    assert!(
        error(table(folder.path(), &[("format", "raw")]))
            .contains("has lines of text in files, not BIGINT as in column 'id'")
    );
    let none = Arc::new(Schema::empty());
    let spec = table(folder.path(), &[("format", "json")]);
    assert!(FilesystemConnector.describe(&spec, &none).unwrap_err().to_string().contains("needs its columns declared"));
    let absent = table(&folder.path().join("absent"), &[("format", "json")]);
    FilesystemConnector.describe(&absent, &ids()).unwrap();
    let source = FilesystemConnector.source(&source_spec(&absent, &ids(), &[0]), &context(0, 1), None);
    assert!(source.err().unwrap().to_string().contains("there is no file or folder"));
    let file = folder.path().join("file.json");
    fs::write(&file, "").unwrap();
    let written = table(&file, &[("format", "json")]);
    // So that the sink can say what is wrong.
    assert!(FilesystemConnector.describe(&written, &ids()).unwrap().writable);
    let sink = FilesystemConnector.sink(&sink_spec(&written, &ids()), &context(0, 1));
    assert!(sink.err().unwrap().to_string().contains("a table is written as a folder"));
    let error = error(spec_of("s3://bucket/events", "json", None));
    assert!(error.contains("reads and writes local files only, but 'path' is 's3://bucket/events'"), "{error}");
    let packed = spec_of(folder.path().join("new").to_str().unwrap(), "json", Some("gzip"));
    let sink = FilesystemConnector.sink(&sink_spec(&packed, &ids()), &context(0, 1));
    assert!(sink.err().unwrap().to_string().contains("'compression' applies to reading"));
    let packed = spec_of("x", "parquet", Some("gzip"));
    let error = FilesystemConnector.describe(&packed, &ids()).unwrap_err().to_string();
    assert!(error.contains("Parquet files name their own compression"), "{error}");
}

#[test]
fn positions_are_places_in_files() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json")]);
    fs::write(folder.path().join("a.json"), "{\"id\": 1}\n{\"id\": 2}\n{\"id\": 3}\n").unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::write(folder.path().join("b/c.json"), "{\"id\": 4}\n").unwrap();
    let open = |from: Option<&Positions>| {
        let context = with_rows(context(0, 1), 2);
        FilesystemConnector.source(&source_spec(&spec, &ids(), &[0]), &context, from)
    };
    let mut source = open(None).unwrap();
    let next = |source: &mut Box<dyn Source>| source.poll(Duration::ZERO).unwrap();
    assert!(matches!(next(&mut source), Polled::Opened { partition: PartitionId(0), .. }));
    assert!(matches!(next(&mut source), Polled::Opened { partition: PartitionId(1), .. }));
    let at = |a: &str, c: &str| vec![("a.json".to_owned(), a.to_owned()), ("b/c.json".to_owned(), c.to_owned())];
    assert_eq!(positions(source.as_ref()), at("byte 0 line 1", "byte 0 line 1"));
    assert!(matches!(next(&mut source), Polled::Rows(_)));
    assert_eq!(positions(source.as_ref()), at("byte 20 line 3", "byte 0 line 1"));
    let from = source.positions().unwrap();
    while !matches!(next(&mut source), Polled::End) {}
    assert_eq!(positions(source.as_ref()), at("end", "end"));

    // A file that was read may go; one that was not is missed.
    fs::remove_file(folder.path().join("b/c.json")).unwrap();
    let error = open(Some(&from)).err().unwrap().to_string();
    assert!(error.contains("'b/c.json'") && error.contains("there is no such file"), "{error}");
    // A file that appeared later is not part of the table, whenever the job resumes.
    fs::write(folder.path().join("a-later.json"), "{\"id\": 5}\n").unwrap();
    fs::write(folder.path().join("b/c.json"), "{\"id\": 4}\n").unwrap();
    let mut resumed = open(Some(&from)).unwrap();
    assert!(matches!(next(&mut resumed), Polled::Opened { partition: PartitionId(0), .. }));
    assert!(matches!(next(&mut resumed), Polled::Opened { partition: PartitionId(1), .. }));
    assert_eq!(positions(resumed.as_ref()), at("byte 20 line 3", "byte 0 line 1"));
    fs::remove_file(folder.path().join("b/c.json")).unwrap();
    let mut source = open(Some(&source.positions().unwrap())).unwrap();
    assert!(matches!(next(&mut source), Polled::End));
    assert_eq!(positions(source.as_ref()), at("end", "end"));
    // Nor is one of a table that had no files.
    let mut none = open(Some(&Positions::new())).unwrap();
    assert!(matches!(next(&mut none), Polled::End));
    fs::write(folder.path().join("a.json"), "{\"id\": 1}\n").unwrap();
    fs::write(folder.path().join("b/c.json"), "").unwrap();
    let mut source = open(Some(&from)).unwrap();
    let error = loop {
        if let Err(error) = source.poll(Duration::ZERO) {
            break error.to_string();
        }
    };
    assert!(error.contains("a.json has become shorter since it was read"), "{error}");
}

#[test]
fn a_followed_folder_is_read_on() {
    let folder = TempDir::new().unwrap();
    let spec = table(folder.path(), &[("format", "json"), ("source.monitor-interval", "10 ms")]);
    for (name, id) in [("a", 1), ("b", 2), ("c", 3)] {
        fs::write(folder.path().join(format!("{name}.json")), format!("{{\"id\": {id}}}\n")).unwrap();
    }
    let open = |parallelism: u32, from: Option<&Positions>| -> Vec<Box<dyn Source>> {
        let reader = source_spec(&spec, &ids(), &[0]);
        (0..parallelism)
            .map(|index| FilesystemConnector.source(&reader, &context(index, parallelism), from).unwrap())
            .collect()
    };
    let union = |sources: &[Box<dyn Source>]| -> Positions {
        sources.iter().flat_map(|source| source.positions().unwrap()).collect()
    };
    let mut sources = open(3, None);
    assert_eq!(read_more(&mut sources), ["1", "2", "3"]);
    let from = union(&sources);
    drop(sources);
    let mut file = OpenOptions::new().append(true).open(folder.path().join("b.json")).unwrap();
    file.write_all(b"{\"id\": 20}\n").unwrap();
    fs::write(folder.path().join("d.json"), "{\"id\": 4}\n").unwrap();
    let mut sources = open(3, Some(&from));
    assert_eq!(read_more(&mut sources), ["20", "4"]);
    let from = union(&sources);
    let (_, b) = from.iter().find(|(name, _)| name.starts_with("b.json inode ")).unwrap();
    assert!(b.starts_with("byte 21 line 3 inode "), "{b}");
    assert_eq!(from.len(), 4);
    let mut alone = open(1, Some(&from));
    let mut polls = 0;
    while !matches!(alone[0].poll(Duration::from_millis(30)).unwrap(), Polled::Pending) {
        polls += 1;
    }
    assert_eq!(polls, 4, "four files are opened and hold nothing new");
    assert_eq!(union(&alone), from);
}
