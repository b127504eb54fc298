//! Damaged records: never a panic, never a wrong result.

use anabranch_model::Rng;

use super::*;

const RECORDS: [&str; 4] = [
    r#"{"user_id":"b9a3c1e5-9f10-4c7d-8a55-0d1f2e3c4b5a","page_id":"p1","time":1700000000123,"ip":"1.2.3.4"}"#,
    r#"{"user_id":"\"quoted\"","page_id":"Grüße","time":-5,"ip":null,"nested":{"a":[1,2,{"b":"c"}],"d":1.5e3}}"#,
    r#"{"page_id":"p\u00fc\n","time":"17","nested":{"a":[],"d":-0.25},"list":["x","yy",null]}"#,
    r#"{ "page_id" : "p" , "time" : 12 , "other" : [true, false, null, "\\"] , "map":{"k":"v", "\u00e4":null,"k":"w"}}"#,
];

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("page_id", DataType::Utf8View),
        ("time", DataType::Int64),
        ("nested", DataType::Struct(fields(&[("d", DataType::Float64)]))),
        ("list", list(DataType::Utf8)),
        ("map", map(DataType::Utf8View, DataType::Utf8)),
    ]
}

fn mutate(rng: &mut Rng, record: &mut Vec<u8>) {
    const TOKENS: [&[u8]; 14] = [
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"1e5",
        b"\xff",
        b"\\u",
        b"\n",
        b"\",\"page_id\":\"",
    ];
    for _ in 0..=rng.below(3) {
        let at = rng.below(record.len() as u64 + 1) as usize;
        match rng.below(5) {
            0 => record.truncate(at),
            1 if at < record.len() => record[at] = rng.below(256) as u8,
            2 if at < record.len() => {
                record.remove(at);
            }
            3 => {
                let token = TOKENS[rng.below(TOKENS.len() as u64) as usize];
                record.splice(at..at, token.iter().copied());
            }
            _ => {
                let end = at + rng.below((record.len() - at) as u64 + 1) as usize;
                let copy = record[at..end].to_vec();
                record.splice(at..at, copy);
            }
        }
    }
}

#[test]
fn damaged_records() {
    for seed in 0..150 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut kind = 0;
        let input: Vec<Vec<u8>> = (0..120)
            .map(|_| {
                if rng.below(10) == 0 {
                    kind = rng.below(RECORDS.len() as u64) as usize;
                }
                let mut record = RECORDS[kind].as_bytes().to_vec();
                if rng.below(3) == 0 {
                    mutate(&mut rng, &mut record);
                }
                record
            })
            .collect();
        // This checks that all paths agree, and runs Arrow's validation.
        let decoded = decode(&schema(&columns()), &records(&input), &JsonOptions::default());
        assert_eq!(decoded.batch.num_rows() + decoded.malformed.len(), input.len());
        for (index, record) in input.iter().enumerate() {
            let malformed = decoded.malformed.iter().any(|(malformed, _)| *malformed == index);
            let text = String::from_utf8_lossy(record);
            match serde_json::from_slice::<Value>(record) {
                // It may still be malformed because a value does not fit its column, but then it says which.
                Ok(Value::Object(_)) => {
                    let named = |message: &str| message.starts_with("column '");
                    let wrong =
                        decoded.malformed.iter().find(|(malformed, message)| *malformed == index && !named(message));
                    assert_eq!(wrong, None, "{text}");
                }
                Ok(_) => assert!(malformed, "{text}"),
                // The other parser refuses numbers beyond its range; the decoder accepts them where no column
                // needs them.
                Err(error) if error.to_string().contains("out of range") => {}
                Err(error) => assert!(malformed, "{error}: {text}"),
            }
        }
    }
}
