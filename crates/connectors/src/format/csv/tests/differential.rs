//! Random records against another parser.

use anabranch_model::Rng;
use arrow::array::AsArray;

use super::*;

fn text_schema(columns: usize) -> SchemaRef {
    let fields: Vec<Field> = (0..columns).map(|i| Field::new(format!("c{i}"), DataType::Utf8View, true)).collect();
    Arc::new(Schema::new(fields))
}

/// The text of a field in the record.
fn field(rng: &mut Rng, delimiter: char) -> String {
    let longest = [3, 14, 70][rng.below(3) as usize];
    let quoted = rng.below(3) == 0;
    let mut text = String::new();
    for _ in 0..rng.below(longest) {
        match rng.below(if quoted { 16 } else { 10 }) {
            0..7 => text.push(char::from(b'a' + rng.below(26) as u8)),
            7 => text.push(['ä', '中', '\u{1d11e}', '\u{feff}'][rng.below(4) as usize]),
            8 => text.push([' ', '\t', ';', '|', '\''][rng.below(5) as usize]),
            // In an unquoted field, a quote that is not the first character is an ordinary character.
            9 if quoted || !text.is_empty() => text.push_str(if quoted { "\"\"" } else { "\"" }),
            10 | 11 => text.push(delimiter),
            12 => text.push_str(["\n", "\r\n", "\r"][rng.below(3) as usize]),
            _ => text.push('x'),
        }
    }
    if quoted { format!("\"{text}\"") } else { text.replace(delimiter, "_") }
}

fn record(rng: &mut Rng, columns: usize, delimiter: char) -> String {
    let fields: Vec<String> = (0..columns).map(|_| field(rng, delimiter)).collect();
    format!("{}{}", fields.join(&delimiter.to_string()), ["", "\n", "\r\n"][rng.below(3) as usize])
}

/// The fields by the other parser; `None` if it finds no record, or more than one. The other parser drops a
/// byte order mark at the beginning, which here is the task of the source: so another line comes first.
fn by_other_parser(record: &[u8], delimiter: u8) -> Option<Vec<Vec<u8>>> {
    let text = [b"first\n", record].concat();
    let mut reader =
        ::csv::ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(&text[..]);
    let records: Vec<_> = reader.byte_records().map(|record| record.unwrap()).collect();
    let [_, record] = records.as_slice() else { return None };
    Some(record.iter().map(<[u8]>::to_vec).collect())
}

fn decode_all(input: &[Vec<u8>], columns: usize, projection: &[usize], delimiter: u8) -> Decoded {
    // With a different text for NULL, empty fields stay text.
    let options = CsvOptions { delimiter, null: "\\N".into(), ..CsvOptions::default() };
    let records = BinaryArray::from_iter_values(input);
    let decoded = CsvDecoder::new(&text_schema(columns), projection, &options).unwrap().decode(&records).unwrap();
    for column in decoded.batch.columns() {
        column.to_data().validate_full().unwrap();
    }
    decoded
}

/// Checks every record that was read against the other parser.
fn compare(input: &[Vec<u8>], columns: usize, delimiter: u8) -> Decoded {
    let all: Vec<usize> = (0..columns).collect();
    let decoded = decode_all(input, columns, &all, delimiter);
    let malformed: Vec<usize> = decoded.malformed.iter().map(|(index, _)| *index).collect();
    let good = (0..input.len()).filter(|index| !malformed.contains(index));
    for (row, index) in good.enumerate() {
        let fields = by_other_parser(&input[index], delimiter);
        let text = String::from_utf8_lossy(&input[index]);
        let fields = fields.unwrap_or_else(|| panic!("no record or several: {text:?}"));
        let found: Vec<Vec<u8>> =
            all.iter().map(|column| decoded.batch.column(*column).as_string_view().value(row).into()).collect();
        assert_eq!(found, fields, "{text:?}");
    }
    // Which records are malformed does not depend on the columns read.
    for projection in [vec![], vec![0], vec![columns - 1], all.iter().rev().copied().collect()] {
        let part = decode_all(input, columns, &projection, delimiter);
        assert_eq!(part.malformed, decoded.malformed);
        for (at, column) in projection.iter().enumerate() {
            assert_eq!(part.batch.column(at), decoded.batch.column(*column));
        }
    }
    decoded
}

#[test]
fn random_records_agree_with_another_parser() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let columns = 2 + rng.below(5) as usize;
        let delimiter = [',', ';', '\t', '|'][rng.below(4) as usize];
        let input: Vec<Vec<u8>> = (0..200).map(|_| record(&mut rng, columns, delimiter).into_bytes()).collect();
        assert_eq!(compare(&input, columns, delimiter as u8).malformed, []);
    }
}

#[test]
fn damaged_records_are_malformed_or_agree() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let columns = 2 + rng.below(4) as usize;
        let damage = |rng: &mut Rng| {
            let mut record = record(rng, columns, ',').into_bytes();
            for _ in 0..rng.below(3) {
                let at = rng.below(record.len() as u64 + 1) as usize;
                match rng.below(4) {
                    0 => record.truncate(at),
                    1 => record.insert(at, b"\",x\xff"[rng.below(4) as usize]),
                    2 if at < record.len() => record[at] = b"\",y\xc3"[rng.below(4) as usize],
                    _ if at < record.len() => drop(record.remove(at)),
                    _ => {}
                }
            }
            // A carriage return outside of quotes ends a record for the other parser.
            record.retain(|byte| *byte != b'\r' && *byte != b'\n');
            record
        };
        let input: Vec<Vec<u8>> = (0..200).map(|_| damage(&mut rng)).collect();
        let decoded = compare(&input, columns, b',');
        for (index, record) in input.iter().enumerate() {
            let ragged = by_other_parser(record, b',').is_none_or(|fields| fields.len() != columns);
            let malformed = decoded.malformed.iter().any(|(malformed, _)| *malformed == index);
            assert!(malformed || !ragged && std::str::from_utf8(record).is_ok(), "{:?}", record.escape_ascii());
        }
    }
}
