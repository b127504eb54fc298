use std::fs::{self, OpenOptions};
use std::io::Write;

use std::path::Path;

use arrow::array::Array;

use super::super::identity::{FileId, Head};
use super::super::input::{Compression, Tracked};
use super::*;

fn open(path: &Path, framing: Framing, follow: bool, byte: u64, line: u64) -> LineReader {
    let id = FileId::from_metadata(&path.metadata().unwrap());
    let tracked = follow.then_some(Tracked { id, head: Head::default() });
    LineReader::new(Input::new(path, Compression::from_extension(path), tracked, byte), framing, follow, line)
}

/// All records that are there, with their lines.
fn read(reader: &mut LineReader) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(piece) = reader.next().unwrap() {
        let mut block = match piece {
            Piece::Records(block) => block,
            Piece::Past => continue,
            Piece::TooLong(record) => {
                all.push((
                    record.line,
                    format!("{} begins with {}", record.error, String::from_utf8_lossy(&record.begins)),
                ));
                continue;
            }
        };
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
    let records = read(&mut open(&path, Framing::Lines, false, 0, 1));
    assert_eq!(texts(&records), [(1, "one\n\n\n"), (4, "two\n"), (5, "three")]);
    fs::write(&path, "").unwrap();
    assert_eq!(read(&mut open(&path, Framing::Lines, false, 0, 1)), []);
}

#[test]
fn records_across_blocks_are_whole_and_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let lines: Vec<String> = (0..40_000).map(|i| format!("{i:0width$}\n", width = 1 + i % 150)).collect();
    fs::write(&path, lines.concat()).unwrap();
    assert!(lines.concat().len() > 2 * BLOCK_BYTES);
    let records = read(&mut open(&path, Framing::Lines, false, 0, 1));
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
    let records = read(&mut open(&path, Framing::Lines, false, 0, 1));
    assert_eq!(records.iter().map(|(_, r)| r.len()).collect::<Vec<_>>(), [6, long.len() + 1, 6]);
}

#[test]
fn a_followed_line_waits_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "one\ntw").unwrap();
    let mut reader = open(&path, Framing::Lines, true, 0, 1);
    assert_eq!(texts(&read(&mut reader)), [(1, "one\n")]);
    assert_eq!(read(&mut reader), []);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"o\nthree\n").unwrap();
    assert_eq!(texts(&read(&mut reader)), [(2, "two\n"), (3, "three\n")]);
    file.set_len(3).unwrap();
    assert_eq!(read(&mut reader), []);
    assert!(reader.is_replaced());
}

#[test]
fn what_is_packed_is_read_from_any_record_on() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = (0..30_000).map(|i| format!("{i:0width$}\n", width = 1 + i % 150)).collect();
    let (one, two) = lines.split_at(10_000);
    for (name, pack) in [("a.gz", gzip as fn(&[u8]) -> Vec<u8>), ("a.zst", zstd)] {
        let path = folder.path().join(name);
        // Several members, or frames, are one text.
        fs::write(&path, [pack(one.concat().as_bytes()), pack(two.concat().as_bytes())].concat()).unwrap();
        let whole = read(&mut open(&path, Framing::Lines, false, 0, 1));
        assert_eq!(whole.len(), lines.len());
        assert!(whole.iter().zip(&lines).all(|((_, is), line)| is == line));
        for records in [0, 1, 9_999, 10_000, 29_999, 30_000] {
            let byte = lines[..records].concat().len() as u64;
            let rest = read(&mut open(&path, Framing::Lines, false, byte, records as u64 + 1));
            assert_eq!(rest, whole[records..], "{name} from record {records}");
        }
        fs::write(&path, "not packed at all, whatever the name says\n").unwrap();
        let error = open(&path, Framing::Lines, false, 0, 1).next().err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("not a readable"), "{error}");
        fs::write(&path, "").unwrap();
        assert_eq!(read(&mut open(&path, Framing::Lines, false, 0, 1)), []);
    }
}

#[test]
fn a_packed_file_that_is_cut_or_followed_by_something_else_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (name, pack) in [("a.gz", gzip as fn(&[u8]) -> Vec<u8>), ("a.zst", zstd)] {
        let path = folder.path().join(name);
        let (one, two) = (pack(b"one\ntwo\n"), pack(b"three\nfour\n"));
        let packed = [one.as_slice(), &two].concat();
        let error_of = |bytes: &[u8], byte: u64, line: u64| {
            fs::write(&path, bytes).unwrap();
            let mut reader = open(&path, Framing::Lines, false, byte, line);
            (0..10).find_map(|_| reader.next().err()).map(|error| error.to_string())
        };
        for end in (1..packed.len()).filter(|end| *end != one.len()) {
            let error = error_of(&packed[..end], 0, 1).unwrap_or_else(|| panic!("{name}: {end} bytes are read"));
            let place = if end < one.len() { "" } else { ", after byte " };
            assert!(error.contains(&format!("{name}{place}")), "{end} bytes: {error}");
            assert!(error.contains("ends too early"), "{end} bytes: {error}");
        }
        // In the part that a resumed job skips.
        let error = error_of(&packed[..packed.len() - 1], 18, 4).unwrap();
        assert!(error.contains(name) && error.contains("ends too early"), "{error}");
        for rest in [&b"not packed at all"[..], &[0; 100]] {
            let error = error_of(&[&packed, rest].concat(), 0, 1).unwrap_or_else(|| panic!("{name}: {rest:?}"));
            assert!(error.contains(&format!("{name}, after byte 19 of its text")), "{error}");
            assert!(error.contains("has bytes after its last"), "{error}");
        }
    }
}

#[test]
fn a_packed_file_that_is_being_written_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, pack) in [("a.gz", gzip as fn(&[u8]) -> Vec<u8>), ("a.zst", zstd)] {
        let path = folder.path().join(name);
        let packed = [pack(b"one\ntwo\n"), pack(b"three\nfour\n")].concat();
        fs::write(&path, "").unwrap();
        let mut reader = open(&path, Framing::Lines, true, 0, 1);
        let mut all = Vec::new();
        for end in 1..=packed.len() {
            fs::write(&path, &packed[..end]).unwrap();
            all.extend(read(&mut reader));
            assert!(!reader.is_replaced(), "{name} of {end} bytes");
            let is_whole = [pack(b"one\ntwo\n").len(), packed.len()].contains(&end);
            for _ in 0..2 {
                assert_eq!(reader.is_at_end(), is_whole, "{name} of {end} bytes");
                assert_eq!(read(&mut reader), []);
            }
            // So does a reader that resumes there.
            let Position::Text { byte, line } = reader.position() else { panic!("a text") };
            let mut resumed = open(&path, Framing::Lines, true, byte, line);
            assert_eq!(read(&mut resumed), []);
            assert_eq!((read(&mut resumed), resumed.is_at_end()), (vec![], is_whole), "{name} of {end} bytes");
        }
        assert_eq!(texts(&all), [(1, "one\n"), (2, "two\n"), (3, "three\n"), (4, "four\n")], "{name}");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn a_record_of_any_length_is_read_past() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let long = 22 * BLOCK_BYTES + 17;
    for (text, after) in [("\nthree\nfour", vec![(3, "three\n"), (4, "four")]), ("\n", vec![]), ("", vec![])] {
        fs::write(&path, ["one\n", &"x".repeat(long), text].concat()).unwrap();
        for framing in [Framing::Lines, Framing::EveryLine, Framing::Csv { delimiter: b',' }] {
            let mut reader = open(&path, framing, false, 0, 1);
            reader.record_bytes_max = 3 * BLOCK_BYTES;
            let Some(Piece::Records(first)) = reader.next().unwrap() else { panic!("no records") };
            assert_eq!(first.records.len(), 1);
            let Some(Piece::Past) = reader.next().unwrap() else { panic!("it is not too long") };
            // A stop here resumes before the record.
            assert_eq!(reader.position(), Position::Text { byte: 4, line: 2 });
            let Some(Piece::Past) = reader.next().unwrap() else { panic!("its end is far") };
            assert!(reader.rest.capacity() <= BLOCK_BYTES, "{} bytes are held", reader.rest.capacity());
            let records = read(&mut reader);
            let shown = "x".repeat(SHOWN_BYTES);
            let error = format!("the record is longer than 3145728 bytes; it begins as shown begins with {shown}");
            assert_eq!(records[0], (2, error), "{framing:?}");
            assert_eq!(texts(&records[1..]), after, "{framing:?}");
            let Position::Text { byte, .. } = reader.position() else { panic!("no text") };
            assert_eq!(byte, path.metadata().unwrap().len());
        }
    }
}

#[test]
fn a_followed_record_that_is_too_long_is_told_once_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "x".repeat(2 * BLOCK_BYTES)).unwrap();
    let mut reader = open(&path, Framing::Lines, true, 0, 1);
    reader.record_bytes_max = BLOCK_BYTES;
    assert_eq!(read(&mut reader), []);
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"xx\ntwo\n").unwrap();
    let records = read(&mut reader);
    assert_eq!((records[0].0, records.len()), (1, 2));
    assert_eq!(texts(&records[1..]), [(2, "two\n")]);
}

#[test]
fn the_last_csv_record_may_hold_a_line_end_and_need_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let framing = Framing::Csv { delimiter: b',' };
    for last in ["2,\"b\nc\"", "2,\"b\n\"\"c\"\"\n\",3"] {
        fs::write(&path, format!("1,a\n{last}")).unwrap();
        let records = read(&mut open(&path, framing, false, 0, 1));
        assert_eq!(texts(&records), [(1, "1,a\n"), (2, last)]);
    }
}

#[test]
fn an_open_quote_costs_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "1,a\n2,\"b\n3,c\n4,\"d\ne\"\n5").unwrap();
    let framing = Framing::Csv { delimiter: b',' };
    let records = read(&mut open(&path, framing, false, 0, 1));
    // The quote of line 2 is closed by the one that opens a field in line 4.
    assert_eq!(texts(&records), [(1, "1,a\n"), (2, "2,\"b\n3,c\n4,\"d\n"), (5, "e\"\n"), (6, "5")]);
    let text = format!("2,\"b\n{}", "3,c\n".repeat(QUOTED_BYTES_MAX / 2));
    fs::write(&path, &text).unwrap();
    let records = read(&mut open(&path, framing, true, 0, 1));
    assert_eq!(texts(&records[..2]), [(1, "2,\"b\n"), (2, "3,c\n")]);
    assert_eq!(records.len(), 1 + QUOTED_BYTES_MAX / 2);
}

#[test]
fn every_record_can_be_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "\u{feff}\none,\"a\nb\"\n\n\ntwo\nthree").unwrap();
    for framing in [Framing::Lines, Framing::EveryLine, Framing::Csv { delimiter: b',' }] {
        let mut reader = open(&path, framing, false, 0, 1);
        let Some(Piece::Records(mut block)) = reader.next().unwrap() else { panic!("no records") };
        let positions: Vec<_> = (0..block.records.len()).map(|index| block.position(index)).collect();
        let whole: Vec<_> = (0..block.records.len())
            .map(|index| (block.line(index), String::from_utf8_lossy(block.records.value(index)).into_owned()))
            .collect();
        for (index, position) in positions.iter().enumerate() {
            let Position::Text { byte, line } = *position else { panic!("{position}") };
            let mut resumed = open(&path, framing, false, byte, line);
            assert_eq!(read(&mut resumed), whole[index..], "{framing:?} from {position}");
        }
        let Position::Text { byte, line } = reader.position() else { panic!("no text") };
        assert_eq!(byte, fs::metadata(&path).unwrap().len());
        assert_eq!(read(&mut open(&path, framing, false, byte, line)), []);
    }
}
