//! Random records against another parser.

use anabranch_model::Rng;
use serde_json::{Map, Number};

use super::*;

/// Random JSON text, in runs of records of the same shape.
struct Generator {
    rng: Rng,
}

/// The shape of a record: its keys in order with the kinds of their values, and the space between tokens.
struct Shape {
    keys: Vec<(&'static str, u64)>,
    space: &'static str,
}

const KEYS: [&str; 9] = ["text", "number", "float", "flag", "object", "array", "owned", "other", "more"];

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn shape(&mut self) -> Shape {
        let mut keys: Vec<(&str, u64)> = KEYS.iter().enumerate().map(|(i, key)| (*key, i as u64)).collect();
        keys.retain(|_| self.below(8) > 0);
        if self.below(4) == 0 {
            for i in (1..keys.len()).rev() {
                keys.swap(i, self.below(i as u64 + 1) as usize);
            }
        }
        if self.below(8) == 0 && !keys.is_empty() {
            let twice = keys[self.below(keys.len() as u64) as usize];
            keys.push(twice);
        }
        Shape { keys, space: ["", "", "", " ", "\t \n"][self.below(5) as usize] }
    }

    fn record(&mut self, shape: &Shape) -> String {
        let space = shape.space;
        let entries: Vec<String> = shape
            .keys
            .iter()
            .map(|(key, kind)| {
                let value = self.value(*kind, space);
                format!("{space}{}{space}:{space}{value}{space}", self.quoted_key(key))
            })
            .collect();
        format!("{space}{{{}}}{}", entries.join(","), ["", "\n", " \r\n"][self.below(3) as usize])
    }

    fn quoted_key(&mut self, key: &str) -> String {
        if self.below(50) == 0 {
            format!("\"\\u{:04x}{}\"", u32::from(key.as_bytes()[0]), &key[1..])
        } else {
            format!("\"{key}\"")
        }
    }

    fn value(&mut self, kind: u64, space: &str) -> String {
        if self.below(30) == 0 {
            return "null".to_owned();
        }
        match kind {
            0 | 6 => self.string(),
            1 => self.integer(),
            2 => self.float(),
            3 => ["true", "false"][self.below(2) as usize].to_owned(),
            4 => {
                let (x, y, z) = (self.integer(), self.string(), self.any(2));
                format!("{{{space}\"x\":{x},\"z\":{space}{z},\"y\":{y}{space}}}")
            }
            5 => {
                let elements: Vec<String> = (0..self.below(4)).map(|_| self.integer()).collect();
                format!("[{space}{}{space}]", elements.join(","))
            }
            _ => self.any(3),
        }
    }

    fn any(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 | 1 => self.string(),
            2 => self.integer(),
            3 => self.float(),
            4 => ["true", "false", "null", "{}", "[]"][self.below(5) as usize].to_owned(),
            5 => format!("[{}, {}]", self.any(depth - 1), self.any(depth - 1)),
            _ => format!("{{{}:{},\"text\": {}}}", self.string(), self.any(depth - 1), self.any(depth - 1)),
        }
    }

    fn integer(&mut self) -> String {
        let shift = self.below(64);
        format!("{}", self.rng.next_u64().cast_signed() >> shift)
    }

    fn float(&mut self) -> String {
        // At most thirteen digits: with more, the other parser does not always give the nearest number.
        let value = (self.below(1 << 31) as f64 - (1_u64 << 30) as f64) / 8.0;
        if self.below(4) == 0 { format!("{value:e}") } else { format!("{value:?}") }
    }

    fn string(&mut self) -> String {
        let plain = self.below(3) > 0;
        let longest = [4, 20, 80][self.below(3) as usize];
        let len = self.below(longest);
        let mut text = String::from("\"");
        for _ in 0..len {
            match if plain { 0 } else { self.below(12) } {
                0..8 => text.push(char::from(b'#' + self.below(50) as u8)),
                8 => text.push(['ä', '中', '\u{1d11e}', '\u{7f}'][self.below(4) as usize]),
                9 => text.push_str(["\\\"", "\\\\", "\\n", "\\/"][self.below(4) as usize]),
                10 => text.push_str(["\\u00e4", "\\ud834\\udd1e", "\\u0000", "\\uFFFF"][self.below(4) as usize]),
                _ => text.push_str([",", "{", "]", ":"][self.below(4) as usize]),
            }
        }
        text.push('"');
        text
    }
}

fn columns() -> Vec<(&'static str, DataType)> {
    vec![
        ("number", DataType::Int64),
        ("text", DataType::Utf8View),
        ("object", DataType::Struct(fields(&[("y", DataType::Utf8View), ("x", DataType::Int64)]))),
        ("array", list(DataType::Int64)),
        ("float", DataType::Float64),
        ("owned", DataType::Utf8),
        ("flag", DataType::Boolean),
    ]
}

/// The expected columns, by the other parser.
fn project(record: &Map<String, Value>, columns: &Fields) -> Value {
    let value = |field: &Arc<Field>| {
        let value = record.get(field.name()).cloned().unwrap_or(Value::Null);
        match (field.data_type(), value) {
            (DataType::Struct(fields), Value::Object(object)) => project(&object, fields),
            (DataType::Float64, Value::Number(number)) => {
                Value::Number(Number::from_f64(number.as_f64().unwrap()).unwrap())
            }
            (_, value) => value,
        }
    };
    Value::Object(columns.iter().map(|field| (field.name().clone(), value(field))).collect())
}

#[test]
fn random_records_agree_with_another_parser() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut generator = Generator { rng: Rng::new(seed) };
        let mut input = Vec::new();
        while input.len() < 300 {
            let shape = generator.shape();
            for _ in 0..=generator.below(20) {
                input.push(generator.record(&shape));
            }
        }
        // A random part of the columns in a random order, so that each is sometimes read and sometimes
        // skipped.
        let mut wanted = columns();
        wanted.retain(|_| generator.below(3) > 0);
        for i in (1..wanted.len()).rev() {
            wanted.swap(i, generator.below(i as u64 + 1) as usize);
        }
        let schema = schema(&wanted);
        let decoded = decode(&schema, &records(&input), &JsonOptions::default());
        assert_eq!(decoded.malformed, []);
        for (record, row) in input.iter().zip(rows(&decoded.batch)) {
            let oracle: Map<String, Value> = serde_json::from_str(record).unwrap();
            assert_eq!(row, project(&oracle, schema.fields()), "{record}");
        }
        assert_eq!(decoded.batch.num_rows(), input.len());
    }
}
