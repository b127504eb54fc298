use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};

use super::*;

fn gathered() -> RowBuffer {
    let columns = vec!["id".to_owned(), "name".to_owned()];
    RowBuffer::new(TargetTable { table: "s.t".into(), columns, key: vec![0] }, Some(2))
}

fn batch(rows: &[(i64, &str, i64)]) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(id, ..)| *id)));
    let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(_, name, _)| *name)));
    let weights: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|(.., weight)| *weight)));
    RecordBatch::try_from_iter([("id", ids), ("name", names), ("$weight", weights)]).unwrap()
}

#[test]
fn rows_are_numbered_and_say_whether_they_are_gone() {
    let mut gathered = gathered();
    assert!(gathered.take().is_none());
    gathered.push(&batch(&[(7, "a", 1), (8, "b", 1)])).unwrap();
    gathered.push(&batch(&[(7, "a", -1)])).unwrap();
    let content = gathered.take().unwrap();
    assert_eq!((&content.rows[..], content.has_gone), (&b"0\tf\t7\ta\n1\tf\t8\tb\n2\tt\t7\ta\n"[..], true));
    gathered.push(&batch(&[(9, "c", 1)])).unwrap();
    let content = gathered.take().unwrap();
    assert_eq!((&content.rows[..], content.has_gone), (&b"0\tf\t9\tc\n"[..], false));
}

#[test]
fn version_1_is_frozen() {
    let mut gathered = gathered();
    gathered.push(&batch(&[(7, "a", -1)])).unwrap();
    let content = gathered.take().unwrap();
    let bytes = content.to_bytes();
    let header = r#"{"columns":["id","name"],"has_gone":true,"key":[0],"table":"s.t"}"#;
    let expected = [b"ABJD\x01".as_slice(), &[65, 0, 0, 0], header.as_bytes(), b"0\tt\t7\ta\n"].concat();
    assert_eq!(bytes[..bytes.len() - 8], expected);
    assert_eq!(HeldRows::parse(&bytes).unwrap(), content);
}

#[test]
fn damage_is_noticed() {
    let mut gathered = gathered();
    gathered.push(&batch(&[(7, "a", 1)])).unwrap();
    let bytes = gathered.take().unwrap().to_bytes();
    for length in 0..bytes.len() {
        assert!(HeldRows::parse(&bytes.slice(..length)).is_err(), "cut off after {length} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(HeldRows::parse(&damaged.into()).is_err(), "bit {bit} is wrong");
    }
}
