//! Formats constants and types of a logical plan for `EXPLAIN`, as users write them.

use anabranch_dataflow::sql_names;

/// DataFusion's notation around a constant, and the quotes that replace it.
const AROUND: [(&str, &str); 13] = [
    ("Utf8View(\"", "'"),
    ("LargeUtf8(\"", "'"),
    ("Utf8(\"", "'"),
    ("UInt64(", ""),
    ("UInt32(", ""),
    ("Int64(", ""),
    ("Int32(", ""),
    ("Int16(", ""),
    ("Int8(", ""),
    ("Float64(", ""),
    ("Float32(", ""),
    ("Boolean(", ""),
    ("Date32(\"", "'"),
];

/// Replaces DataFusion's notation of constants: `'a'` for `Utf8("a")`, `3` for `Int64(3)`.
pub(crate) fn with_plain_constants(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_word = false;
    while let Some(first) = rest.chars().next() {
        let constant = AROUND.iter().filter(|_| !in_word).find_map(|(begin, quote)| {
            let end = if quote.is_empty() { ")" } else { "\")" };
            let (value, after) = rest.strip_prefix(begin)?.split_once(end)?;
            Some((value, *quote, after))
        });
        if let Some((value, quote, after)) = constant {
            plain.extend([quote, value, quote]);
            rest = after;
            continue;
        }
        in_word = first.is_alphanumeric() || first == '_';
        plain.push(first);
        rest = &rest[first.len_utf8()..];
    }
    sql_names(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_those_of_users() {
        for (text, shown) in [
            ("Filter: t.id > Int64(3) AND k = Utf8(\"a\")", "Filter: t.id > 3 AND k = 'a'"),
            ("aggr=[[count(Int64(1))]]", "aggr=[[count(1)]]"),
            ("CAST(a AS Utf8View) = MyInt64(3)", "CAST(a AS STRING) = MyInt64(3)"),
        ] {
            assert_eq!(with_plain_constants(text), shown);
        }
    }
}
