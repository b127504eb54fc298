//! The same events in records of many shapes, for streams whose records are not similar.

use std::io::Write as _;

use anabranch_model::Rng;

use super::Lines;

/// The shape of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// JSON: keys in one order, no white space.
    Compact,
    /// A blank after each colon and comma.
    Spaced,
    /// Blanks before the closing brace, up to a fixed length.
    Padded,
    /// Each of three fields is missing in one record of four.
    Optional,
    /// Keys in any order.
    Shuffled,
    /// Nested objects and arrays, with escapes, before and after the fields.
    Nested,
    /// Long strings with escapes.
    Escapes,
    /// Forty fields, of which five are read.
    ManyColumns,
    /// Numbers of many digits.
    WideNumbers,
    /// CSV without quotes.
    Csv,
    /// CSV with quoted texts, some of which contain quotes.
    QuotedCsv,
}

impl Shape {
    /// All of them.
    pub(crate) const ALL: [Shape; 11] = [
        Shape::Compact,
        Shape::Spaced,
        Shape::Padded,
        Shape::Optional,
        Shape::Shuffled,
        Shape::Nested,
        Shape::Escapes,
        Shape::ManyColumns,
        Shape::WideNumbers,
        Shape::Csv,
        Shape::QuotedCsv,
    ];

    /// The name in titles.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Shape::Compact => "JSON, keys in one order, compact",
            Shape::Spaced => "JSON, a blank after each colon and comma",
            Shape::Padded => "JSON, padded with blanks before the closing brace",
            Shape::Optional => "JSON, some fields missing in some records",
            Shape::Shuffled => "JSON, keys in any order",
            Shape::Nested => "JSON, nested objects and arrays before and after",
            Shape::Escapes => "JSON, long strings with escapes",
            Shape::ManyColumns => "JSON, many fields of which few are read",
            Shape::WideNumbers => "JSON, wide numbers",
            Shape::Csv => "CSV without quotes",
            Shape::QuotedCsv => "CSV with quotes",
        }
    }

    /// Whether the records are CSV.
    pub(crate) fn is_csv(self) -> bool {
        matches!(self, Shape::Csv | Shape::QuotedCsv)
    }
}

const KINDS: [&str; 6] = ["view", "click", "purchase", "refund", "search", "login"];
const START_MS: u64 = 1_760_000_003_217;
const EVENTS_PER_MS: u64 = 10;
const PADDED_LEN: usize = 240;

/// Generates `count` events with seven fields: `id`, `user_id`, `page`, `kind`, `price`, `time` and
/// `session`. The programs read all but `user_id` and `session`.
pub(crate) fn generate(shape: Shape, count: u64, seed: u64) -> Lines {
    let mut rng = Rng::new(seed);
    let mut text = Vec::with_capacity(usize::try_from(count).unwrap_or(0) * 200);
    for number in 0..count {
        let mut fields = fields(shape, number, &mut rng);
        if shape.is_csv() {
            let values: Vec<String> = fields.into_iter().map(|(_, value)| csv(shape, &value)).collect();
            text.extend_from_slice(values.join(",").as_bytes());
            text.push(b'\n');
            continue;
        }
        if shape == Shape::Shuffled {
            for i in (1..fields.len()).rev() {
                fields.swap(i, rng.below(i as u64 + 1) as usize);
            }
        }
        json(shape, &fields, &mut text);
    }
    Lines::new(text, count)
}

type Fields = Vec<(String, String)>;

fn fields(shape: Shape, number: u64, rng: &mut Rng) -> Fields {
    let page = rng.below(40);
    let (mut id, mut user) = (rng.below(1 << 40).to_string(), format!("\"user-{:08}\"", rng.below(1_000_000)));
    let mut price = format!("{}.{:02}", rng.below(10_000), rng.below(100));
    let mut page_text = format!("\"/catalog/items/{page:04}\"");
    let mut session = format!("\"{:016x}{:016x}\"", rng.next_u64(), rng.next_u64());
    match shape {
        Shape::WideNumbers => {
            id = (1_000_000_000_000_000_000 + rng.below(8_000_000_000_000_000_000)).to_string();
            price = format!("{}.{:06}", 10_000_000 + rng.below(80_000_000), rng.below(1_000_000));
            user = format!("{}.{:09}", rng.below(1 << 50), rng.below(1_000_000_000));
            session = format!("-{}e-{}", rng.below(1 << 60), rng.below(30));
        }
        Shape::Escapes => {
            page_text = format!(
                "\"/caf\\u00e9/{page:04}?q=\\\"r\\u00f6sti\\\"&path=C:\\\\shop\\\\items\\\\and a longer rest\""
            );
            session = "\"".to_owned();
            for _ in 0..rng.below(6) {
                session
                    .push_str("Line one\\nline two\\t\\\"quoted text\\\" and then some more words without escapes; ");
            }
            session.push('"');
        }
        _ => {}
    }
    let kind = KINDS[rng.below(KINDS.len() as u64) as usize];
    let mut fields = vec![
        ("id", id),
        ("user_id", user),
        ("page", page_text),
        ("kind", format!("\"{kind}\"")),
        ("price", price),
        ("time", (START_MS + number / EVENTS_PER_MS).to_string()),
        ("session", session),
    ];
    if shape == Shape::Optional {
        fields.retain(|(name, _)| !matches!(*name, "user_id" | "price" | "session") || rng.below(4) > 0);
    }
    let mut fields: Fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    match shape {
        Shape::Nested => nested(&mut fields, rng),
        Shape::ManyColumns => {
            for i in 0..33 {
                let value =
                    if i % 2 == 0 { format!("\"value {}\"", rng.below(1000)) } else { rng.below(1 << 30).to_string() };
                fields.insert(place(i, fields.len()), (format!("attribute_{i:02}"), value));
            }
        }
        _ => {}
    }
    fields
}

/// Spreads further fields between the others, in the same way in each record.
fn place(i: usize, len: usize) -> usize {
    i * 7 % (len + 1)
}

fn nested(fields: &mut Fields, rng: &mut Rng) {
    let tags: Vec<String> = (0..rng.below(4)).map(|i| format!("\"tag-{i}\"")).collect();
    let before = format!(
        "{{\"source\":{{\"ip\":\"10.0.{}.{}\",\"agent\":\"Mozilla \\\"5.0\\\"\"}},\"tags\":[{}]}}",
        rng.below(256),
        rng.below(256),
        tags.join(",")
    );
    let items: Vec<String> =
        (0..rng.below(3)).map(|i| format!("{{\"k\":{i},\"v\":[1,2.5,null,true,{{\"w\":\"x\"}}]}}")).collect();
    fields.insert(0, ("meta".to_owned(), before));
    fields.push(("items".to_owned(), format!("[{}]", items.join(","))));
}

fn json(shape: Shape, fields: &Fields, text: &mut Vec<u8>) {
    let start = text.len();
    let blank = if shape == Shape::Spaced { " " } else { "" };
    for (i, (name, value)) in fields.iter().enumerate() {
        let open = if i == 0 { "{" } else { "," };
        let space = if i == 0 { "" } else { blank };
        // Writing to a vector cannot fail.
        let _ = write!(text, "{open}{space}\"{name}\":{blank}{value}");
    }
    if shape == Shape::Padded {
        text.resize((start + PADDED_LEN).max(text.len()), b' ');
    }
    text.extend_from_slice(b"}\n");
}

/// The value of a JSON field as a field of CSV.
fn csv(shape: Shape, value: &str) -> String {
    match value.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) if shape == Shape::Csv => text.to_owned(),
        Some(text) if text.starts_with("/catalog/items/0007") => format!("\"{text} \"\"seven\"\"\""),
        Some(text) => format!("\"{text}\""),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_valid_and_have_their_shape() {
        for shape in Shape::ALL {
            let lines = generate(shape, 200, 1);
            let text = std::str::from_utf8(lines.bytes()).unwrap();
            assert_eq!(text.lines().count(), 200);
            if shape.is_csv() {
                continue;
            }
            let records: Vec<serde_json::Map<_, _>> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let fields = |len: usize| records.iter().all(|record| record.len() == len);
            let alike = text.lines().all(|line| line.starts_with("{\"id\":"));
            assert_eq!(alike, !matches!(shape, Shape::Shuffled | Shape::Nested | Shape::ManyColumns));
            match shape {
                Shape::Optional => assert!(!fields(7)),
                Shape::Nested => assert!(fields(9)),
                Shape::ManyColumns => assert!(fields(40)),
                _ => assert!(fields(7), "{shape:?}"),
            }
        }
    }
}
