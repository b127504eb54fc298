use std::fs::{self, OpenOptions};
use std::io::Write;

use arrow::array::Array;

use super::*;

/// All records that are there, with their lines.
fn read(reader: &mut LineReader) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(mut block) = reader.next().unwrap() {
        for index in 0..block.records.len() {
            let record = String::from_utf8_lossy(block.records.value(index)).into_owned();
            all.push((block.line(index), record));
        }
    }
    all
}

fn texts(records: &[(u64, String)]) -> Vec<(u64, &str)> {
    records.iter().map(|(line, text)| (*line, text.as_str())).collect()
}

#[test]
fn the_last_line_counts_without_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "\u{feff}one\n\n\ntwo\nthree").unwrap();
    let records = read(&mut LineReader::new(&path, Framing::Lines, false, 0, 1));
    assert_eq!(texts(&records), [(1, "one\n\n\n"), (4, "two\n"), (5, "three")]);
    fs::write(&path, "").unwrap();
    assert_eq!(read(&mut LineReader::new(&path, Framing::Lines, false, 0, 1)), []);
}

#[test]
fn records_across_blocks_are_whole_and_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let lines: Vec<String> = (0..40_000).map(|i| format!("{i:0width$}\n", width = 1 + i % 150)).collect();
    fs::write(&path, lines.concat()).unwrap();
    assert!(lines.concat().len() > 2 * BLOCK_BYTES);
    let records = read(&mut LineReader::new(&path, Framing::Lines, false, 0, 1));
    assert_eq!(records.len(), lines.len());
    for (index, (line, record)) in records.iter().enumerate() {
        assert_eq!((*line, record), (index as u64 + 1, &lines[index]));
    }
}

#[test]
fn a_record_longer_than_a_block_is_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let long = "x".repeat(3 * BLOCK_BYTES + 17);
    fs::write(&path, format!("short\n{long}\nshort\n")).unwrap();
    let records = read(&mut LineReader::new(&path, Framing::Lines, false, 0, 1));
    assert_eq!(records.iter().map(|(_, r)| r.len()).collect::<Vec<_>>(), [6, long.len() + 1, 6]);
}

#[test]
fn a_followed_line_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "one\ntw").unwrap();
    let mut reader = LineReader::new(&path, Framing::Lines, true, 0, 1);
    assert_eq!(texts(&read(&mut reader)), [(1, "one\n")]);
    assert_eq!(read(&mut reader), []);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"o\nthree\n").unwrap();
    assert_eq!(texts(&read(&mut reader)), [(2, "two\n"), (3, "three\n")]);
    file.set_len(3).unwrap();
    let error = reader.next().err().unwrap().to_string();
    assert!(error.contains("has become shorter"), "{error}");
}

#[test]
fn an_open_quote_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "1,a\n2,\"b\n3,c\n4,\"d\ne\"\n5").unwrap();
    let framing = Framing::Csv { delimiter: b',' };
    let records = read(&mut LineReader::new(&path, framing, false, 0, 1));
    // The quote of line 2 is closed by the one that opens a field in line 4.
    assert_eq!(texts(&records), [(1, "1,a\n"), (2, "2,\"b\n3,c\n4,\"d\n"), (5, "e\"\n"), (6, "5")]);
    let open = format!("2,\"b\n{}", "3,c\n".repeat(QUOTED_BYTES_MAX / 2));
    fs::write(&path, &open).unwrap();
    let records = read(&mut LineReader::new(&path, framing, true, 0, 1));
    assert_eq!(texts(&records[..2]), [(1, "2,\"b\n"), (2, "3,c\n")]);
    assert_eq!(records.len(), 1 + QUOTED_BYTES_MAX / 2);
}

#[test]
fn every_record_can_be_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "\u{feff}\none,\"a\nb\"\n\n\ntwo\nthree").unwrap();
    for framing in [Framing::Lines, Framing::EveryLine, Framing::Csv { delimiter: b',' }] {
        let mut reader = LineReader::new(&path, framing, false, 0, 1);
        let mut block = reader.next().unwrap().unwrap();
        let positions: Vec<_> = (0..block.records.len()).map(|index| block.position(index)).collect();
        let whole: Vec<_> = (0..block.records.len())
            .map(|index| (block.line(index), String::from_utf8_lossy(block.records.value(index)).into_owned()))
            .collect();
        for (index, position) in positions.iter().enumerate() {
            let Position::Text { byte, line } = *position else { panic!("{position}") };
            let mut resumed = LineReader::new(&path, framing, false, byte, line);
            assert_eq!(read(&mut resumed), whole[index..], "{framing:?} from {position}");
        }
        let Position::Text { byte, line } = reader.position() else { panic!("no text") };
        assert_eq!(byte, fs::metadata(&path).unwrap().len());
        assert_eq!(read(&mut LineReader::new(&path, framing, false, byte, line)), []);
    }
}
