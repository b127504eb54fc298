//! The table against a map of row texts, for each kind of key.

use std::collections::BTreeMap;
use std::sync::Arc;

use anabranch_model::Rng;
use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray,
    TimestampMillisecondArray,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::*;
use crate::hash_keys;

fn texts_of(columns: &[ArrayRef], rows: usize) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅");
    let formats: Vec<_> = columns.iter().map(|c| ArrayFormatter::try_new(c, &options).expect("format")).collect();
    (0..rows).map(|r| formats.iter().map(|f| f.value(r).to_string()).collect::<Vec<_>>().join("|")).collect()
}

/// Interns several batches and compares ids, lookups and emitted keys with a map from text to id.
fn check(name: &str, mut batch: impl FnMut(&mut Rng) -> Vec<ArrayRef>) {
    let mut rng = Rng::new(7);
    let (mut table, mut by_id): (Option<KeyTable>, Option<KeyTable>) = (None, None);
    let mut oracle: BTreeMap<String, usize> = BTreeMap::new();
    let (mut hashes, mut ids, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..6 {
        let columns = batch(&mut rng);
        let rows = columns[0].len();
        let table = table.get_or_insert_with(|| {
            KeyTable::new(columns.iter().map(|c| c.data_type().clone()).collect()).expect("types")
        });
        hash_keys(&columns, rows, &mut hashes).expect("hashes");
        table.intern(&columns, &hashes, &mut ids).expect("intern");
        table.lookup(&columns, &hashes, &mut found).expect("lookup");
        for (row, text) in texts_of(&columns, rows).into_iter().enumerate() {
            let next = oracle.len();
            let expected = *oracle.entry(text.clone()).or_insert(next);
            assert_eq!(ids[row], expected, "{name} round {round} row {row} {text}");
            let null = text.split('|').any(|t| t == "∅");
            assert_eq!(found[row], if null { MISSING } else { expected as u32 }, "{name} lookup {text}");
        }
        let types = || columns.iter().map(|c| c.data_type().clone()).collect();
        let by_id = by_id.get_or_insert_with(|| KeyTable::by_id(types()).expect("types"));
        let expected = ids.clone();
        by_id.intern(&columns, &hashes, &mut ids).expect("intern");
        assert_eq!(ids, expected, "{name} by id");
        let keys = by_id.keys_of(&ids).expect("keys");
        assert_eq!(texts_of(&keys, rows), texts_of(&columns, rows), "{name} by id");
        assert_eq!(
            texts_of(&by_id.keys().expect("keys"), oracle.len()),
            texts_of(&table.keys().expect("keys"), oracle.len())
        );
        assert_eq!(table.len(), oracle.len());
        let keys = texts_of(&table.keys().expect("keys"), oracle.len());
        assert!(keys.iter().enumerate().all(|(id, key)| oracle[key] == id), "{name}: {keys:?}");
    }
}

fn some(rng: &mut Rng, nulls: bool) -> Option<u64> {
    let value = rng.below(3000);
    (!nulls || value % 17 != 3).then_some(value)
}

#[test]
fn ids_are_dense_and_keys_come_back_for_every_form_of_key() {
    for nulls in [false, true] {
        let values = |rng: &mut Rng| -> Vec<Option<u64>> { (0..2000).map(|_| some(rng, nulls)).collect() };
        let text = |v: &u64| format!("{v}{}", "x".repeat((*v % 23) as usize));
        check("i64", |r| vec![Arc::new(values(r).iter().map(|v| v.map(|v| -(v as i64))).collect::<Int64Array>())]);
        check("i32", |r| vec![Arc::new(values(r).iter().map(|v| v.map(|v| -(v as i32))).collect::<Int32Array>())]);
        check("ts", |r| {
            vec![Arc::new(values(r).iter().map(|v| v.map(|v| v as i64)).collect::<TimestampMillisecondArray>())]
        });
        check("view", |r| vec![Arc::new(values(r).iter().map(|v| v.as_ref().map(text)).collect::<StringViewArray>())]);
        check("utf8", |r| vec![Arc::new(values(r).iter().map(|v| v.as_ref().map(text)).collect::<StringArray>())]);
        check("f64", |r| vec![Arc::new(values(r).iter().map(|v| v.map(|v| v as f64)).collect::<Float64Array>())]);
        check("date", |r| vec![Arc::new(values(r).iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>())]);
        check("text and number", |r| {
            vec![
                Arc::new(values(r).iter().map(|v| v.as_ref().map(text)).collect::<StringViewArray>()),
                Arc::new(values(r).iter().map(|v| v.map(|v| v as i64 % 3)).collect::<Int64Array>()),
            ]
        });
        check("two texts and a float", |r| {
            vec![
                Arc::new(values(r).iter().map(|v| v.as_ref().map(text)).collect::<StringArray>()),
                Arc::new(values(r).iter().map(|v| v.map(|v| (v % 5).to_string())).collect::<StringViewArray>()),
                Arc::new(values(r).iter().map(|v| v.map(|v| (v % 2) as f64 / 2.0)).collect::<Float64Array>()),
            ]
        });
        check("other types", |r| {
            let decimals = values(r).iter().map(|v| v.map(|v| i128::from(v % 700))).collect::<Decimal128Array>();
            vec![
                Arc::new(decimals),
                Arc::new(values(r).iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
            ]
        });
    }
}

#[test]
fn keys_with_equal_hashes_are_told_apart() {
    let names = ["a", "b", "a text longer than a view", "a text longer than a vie!", "a text"];
    let rows = 4 * names.len();
    let texts: StringViewArray = (0..rows).map(|row| (row % 7 != 6).then(|| names[row % names.len()])).collect();
    let numbers: Int32Array = (0..rows).map(|row| (row % 5 != 2).then_some(row as i32 % 2)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(texts), Arc::new(numbers)];
    let keys = texts_of(&columns, rows);
    for hashes in [vec![7; rows], (0..rows).map(|row| keys[row].len() as u64 % 3).collect()] {
        let types = columns.iter().map(|column| column.data_type().clone()).collect();
        let mut table = KeyTable::new(types).expect("table");
        let (mut ids, mut found) = (Vec::new(), Vec::new());
        // Twice: first all keys are new, then all are known.
        for _ in 0..2 {
            table.intern(&columns, &hashes, &mut ids).expect("intern");
            let by_text: BTreeMap<&String, usize> = keys.iter().zip(ids.iter().copied()).collect();
            assert!(keys.iter().zip(&ids).all(|(key, id)| by_text[key] == *id), "one id for each key");
            assert_eq!(by_text.values().collect::<std::collections::BTreeSet<_>>().len(), by_text.len());
            assert_eq!(table.len(), by_text.len());
            let stored = texts_of(&table.keys().expect("keys"), table.len());
            assert!(by_text.iter().all(|(key, id)| stored[*id] == **key));
        }
        table.lookup(&columns, &hashes, &mut found).expect("lookup");
        for (row, key) in keys.iter().enumerate() {
            assert_eq!(found[row], if key.contains('∅') { MISSING } else { ids[row] as u32 }, "{key}");
        }
        let others: Vec<ArrayRef> =
            vec![Arc::new(StringViewArray::from(vec!["a", "c"])), Arc::new(Int32Array::from(vec![5, 1]))];
        table.lookup(&others, &[7, 1], &mut found).expect("lookup");
        assert_eq!(found, [MISSING; 2]);
    }
}

#[test]
fn a_cleared_table_starts_again_from_id_zero() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(6)]));
    let mut table = KeyTable::new(vec![DataType::Int64]).expect("table");
    let (mut hashes, mut ids) = (Vec::new(), Vec::new());
    hash_keys(std::slice::from_ref(&column), 3, &mut hashes).expect("hash");
    for _ in 0..2 {
        table.intern(std::slice::from_ref(&column), &hashes, &mut ids).expect("intern");
        assert_eq!(ids, [0, 1, 2]);
        table.clear();
        assert_eq!(table.len(), 0);
    }
}

#[test]
fn floats_that_are_equal_are_one_key() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]));
    let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; 5]));
    for columns in [vec![Arc::clone(&floats)], vec![ones, Arc::clone(&floats)]] {
        let mut table = KeyTable::new(columns.iter().map(|c| c.data_type().clone()).collect()).expect("table");
        let (mut hashes, mut ids) = (Vec::new(), Vec::new());
        hash_keys(&columns, 5, &mut hashes).expect("hash");
        table.intern(&columns, &hashes, &mut ids).expect("intern");
        assert_eq!(ids, [0, 0, 1, 1, 2]);
    }
}

/// Texts that lie at the same places of other memory have the same views.
#[test]
fn texts_of_equal_views_are_told_apart_by_their_memory() {
    let mut rng = Rng::new(11);
    let mut table = KeyTable::new(vec![DataType::Utf8View]).expect("types");
    let mut oracle: BTreeMap<String, usize> = BTreeMap::new();
    let (mut hashes, mut ids) = (Vec::new(), Vec::new());
    for round in 0..40_u32 {
        let names = (0..20).map(|n| match n % 3 {
            0 => format!("a long name {:03} of {:03}", round / 3, n),
            1 => format!("short {}", n),
            _ => String::new(),
        });
        let names: ArrayRef = Arc::new(StringViewArray::from_iter_values(names));
        for _ in 0..3 {
            // Sometimes so many different rows that remembering them is of no use.
            let rows = if round % 10 == 9 { 3 } else { 300 };
            let at = arrow::array::UInt32Array::from_iter_values((0..rows).map(|_| rng.below(20) as u32));
            let columns = [arrow::compute::take(&names, &at, None).expect("rows")];
            table.intern_rows(&columns, rows, &mut hashes, &mut ids).expect("ids");
            for (row, text) in columns[0].as_string_view().iter().flatten().enumerate() {
                let next = oracle.len();
                assert_eq!(ids[row], *oracle.entry(text.to_owned()).or_insert(next), "round {round} {text}");
            }
        }
        if round == 25 {
            table.clear();
            oracle.clear();
        }
    }
}

#[test]
fn texts_with_equal_hashes_are_told_apart_and_a_null_may_be_any_of_them() {
    let names = ["a", "", "a text longer than a view", "a text longer than a vie!", "b"];
    for null in 0..=names.len() {
        let mut texts: Vec<Option<&str>> = names.iter().copied().map(Some).collect();
        texts.insert(null, None);
        let column: ArrayRef = Arc::new(StringViewArray::from(texts));
        let mut table = KeyTable::new(vec![DataType::Utf8View]).expect("table");
        let (mut ids, mut found) = (Vec::new(), Vec::new());
        let columns = std::slice::from_ref(&column);
        for hashes in [vec![7; column.len()], vec![7 | 1 << 32; column.len()]] {
            table.intern(columns, &hashes, &mut ids).expect("intern");
            assert_eq!(ids, (0..column.len()).collect::<Vec<_>>(), "a null at {null}");
            table.find(columns, &hashes, &mut found).expect("find");
            assert_eq!(found, (0..column.len() as u32).collect::<Vec<_>>(), "a null at {null}");
            assert_eq!(&table.keys().expect("keys")[0], &column, "a null at {null}");
        }
    }
}
