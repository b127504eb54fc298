//! Changes of a text.

use std::ops::Range;

/// Numbers by a seed (SplitMix64).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % (bound.max(1) as u64)).expect("below a usize")
    }

    pub(crate) fn choose<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Literals in the place of others.
const EXTREMES: [&str; 42] = [
    "0",
    "-1",
    "1",
    "127",
    "-128",
    "128",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
    "999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000000000000000001",
    "1e308",
    "1e400",
    "-1e-400",
    "0.1",
    "''",
    "' '",
    "'ÄÖ\u{1f980}\u{301}'",
    "'\u{0}'",
    "'%'",
    "'it''s'",
    "'['",
    "'2024-02-30'",
    "'0000-00-00 00:00:00'",
    "'9999-12-31 23:59:59.999'",
    "'-290000000-01-01 00:00:00'",
    "TIMESTAMP '9999-12-31 23:59:59.999999999'",
    "DATE '0001-01-01'",
    "TIME '24:00:00'",
    "INTERVAL '0' SECOND",
    "INTERVAL '-1' DAY",
    "INTERVAL '99999999999' YEAR",
    "INTERVAL '1-2' YEAR TO MONTH",
    "X'ff'",
    "NULL",
    "ARRAY[]",
];

/// Words and signs in any place.
const WORDS: [&str; 88] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "FULL",
    "CROSS",
    "ON",
    "USING",
    "UNION",
    "ALL",
    "INTERSECT",
    "EXCEPT",
    "DISTINCT",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXISTS",
    "BETWEEN",
    "LIKE",
    "SIMILAR",
    "TO",
    "ESCAPE",
    "IS",
    "NULL",
    "TRUE",
    "FALSE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "TRY_CAST",
    "INTERVAL",
    "OVER",
    "PARTITION",
    "ROWS",
    "RANGE",
    "PRECEDING",
    "UNBOUNDED",
    "CURRENT",
    "ROW",
    "WITH",
    "VALUES",
    "INSERT",
    "INTO",
    "SET",
    "FOR",
    "SYSTEM_TIME",
    "OF",
    "TABLE",
    "LATERAL",
    "UNNEST",
    "TUMBLE",
    "DESCRIPTOR",
    "GROUPING",
    "SETS",
    "CUBE",
    "ROLLUP",
    "FILTER",
    "WITHIN",
    "FETCH",
    "NATURAL",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ".",
    "*",
    "=>",
    "<>",
    "||",
    "-",
    "%",
    "::",
    "?",
    "$1",
];

/// What an expression is put into, again and again: what comes before and after it.
const NESTS: [(&str, &str); 37] = [
    ("(", ")"),
    ("NOT (", ")"),
    ("NOT ", ""),
    ("- ", ""),
    ("+ ", ""),
    ("~ ", ""),
    ("CAST(", " AS STRING)"),
    ("TRY_CAST(", " AS ARRAY<INT>)"),
    ("CEIL(", ")"),
    ("FLOOR(", " TO DAY)"),
    ("EXTRACT(DAY FROM ", ")"),
    ("SUBSTRING(", " FROM 1 FOR 2)"),
    ("SUBSTRING('a' FROM ", ")"),
    ("POSITION('a' IN ", ")"),
    ("POSITION(", " IN 'a')"),
    ("TRIM(", ")"),
    ("TRIM(BOTH 'a' FROM ", ")"),
    ("OVERLAY('a' PLACING ", " FROM 1)"),
    ("COALESCE(", ", NULL)"),
    ("UPPER(", ")"),
    ("CASE WHEN TRUE THEN ", " END"),
    ("CASE ", " WHEN 1 THEN 2 END"),
    ("ARRAY[", "]"),
    ("MAP['a', ", "]"),
    ("ROW(", ")"),
    ("JSON_VALUE(", ", '$.a')"),
    ("INTERVAL ", " DAY"),
    ("(SELECT ", ")"),
    ("EXISTS (SELECT ", ")"),
    ("1 IN (", ")"),
    ("1 IN (SELECT ", ")"),
    ("1 IN ((SELECT ", "))"),
    ("(1, ", ")"),
    ("1 BETWEEN 0 AND ", ""),
    ("a.", ""),
    ("(SELECT * FROM (", "))"),
    ("CONVERT(", ", INT)"),
];

/// What a table is put into.
const NESTED_TABLES: [(&str, &str); 7] = [
    ("(", ")"),
    ("(SELECT * FROM ", ")"),
    ("((SELECT * FROM ", ") AS x CROSS JOIN (SELECT 1) AS y)"),
    ("TABLE(TUMBLE(TABLE ", ", DESCRIPTOR(ts), INTERVAL '1' SECOND))"),
    ("LATERAL (SELECT * FROM ", ")"),
    ("UNNEST(", ")"),
    ("(VALUES (1)) AS v JOIN ", " ON TRUE"),
];

/// What a type is put into.
const NESTED_TYPES: [(&str, &str); 4] = [("ARRAY<", ">"), ("ROW<a ", ">"), ("MAP<STRING, ", ">"), ("MULTISET<", ">")];

const DEPTHS: [usize; 7] = [1, 3, 12, 25, 45, 70, 400];

/// Tokens, each a piece of the text; together they are the text.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let quoted =
            |quote: char| rest.char_indices().skip(1).find(|(_, c)| *c == quote).map_or(rest.len(), |(at, _)| at + 1);
        let until = |ends: &dyn Fn(char) -> bool| rest.find(ends).unwrap_or(rest.len());
        let length = match first {
            '\'' | '"' | '`' => quoted(first),
            c if c.is_whitespace() => until(&|c| !c.is_whitespace()),
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                until(&|c| !(c.is_alphanumeric() || c == '_' || c == '$'))
            }
            '-' if rest.starts_with("--") => until(&|c| c == '\n'),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length.max(first.len_utf8()));
        tokens.push(token.to_owned());
        rest = after;
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '`')
}

fn is_value(token: &str) -> bool {
    is_word(token) || is_literal(token)
}

fn is_literal(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit() || c == '\'')
}

/// The words of a text.
pub(crate) fn words(text: &str) -> Vec<String> {
    tokens(text).into_iter().filter(|token| is_word(token)).collect()
}

/// A few changes of a text. Pieces come from `other`, words from `words`.
pub(crate) fn change(text: &str, other: &str, words: &[String], rng: &mut Rng) -> String {
    let mut tokens = tokens(text);
    for _ in 0..1 + rng.below(3) {
        if tokens.is_empty() {
            break;
        }
        one(&mut tokens, other, words, rng);
    }
    tokens.concat()
}

/// A range of tokens with something in it: a statement, more often one with a query.
fn region(tokens: &[String], rng: &mut Rng) -> Range<usize> {
    let ends: Vec<usize> = (0..tokens.len()).filter(|at| tokens[*at] == ";").chain([tokens.len()]).collect();
    let mut start = 0;
    let mut statements: Vec<Range<usize>> = Vec::new();
    for end in ends {
        statements.push(std::mem::replace(&mut start, end + 1)..end);
    }
    statements.retain(|of| tokens[of.clone()].iter().filter(|token| is_word(token)).count() > 1);
    let has_query = |of: &Range<usize>| tokens[of.clone()].iter().any(|token| token.eq_ignore_ascii_case("SELECT"));
    if rng.below(5) > 0 && statements.iter().any(has_query) {
        statements.retain(has_query);
    }
    if statements.is_empty() { 0..tokens.len() } else { rng.choose(&statements).clone() }
}

/// A place in a range whose token is one of these; any place if there is none.
fn place(tokens: &[String], region: &Range<usize>, is: fn(&str) -> bool, rng: &mut Rng) -> usize {
    let places: Vec<usize> = region.clone().filter(|at| is(&tokens[*at])).collect();
    if places.is_empty() { region.start + rng.below(region.len()) } else { *rng.choose(&places) }
}

/// From an opening parenthesis to the one that closes it.
fn group(tokens: &[String], region: &Range<usize>, rng: &mut Rng) -> Range<usize> {
    let start = place(tokens, region, |token| token == "(", rng);
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().take(region.end).skip(start) {
        depth += i32::from(token == "(") - i32::from(token == ")");
        if depth == 0 {
            return start..at + 1;
        }
    }
    start..(start + 1).min(tokens.len())
}

fn one(tokens: &mut Vec<String>, other: &str, words: &[String], rng: &mut Rng) {
    let region = region(tokens, rng);
    if region.is_empty() {
        return;
    }
    let (begin, length) = (region.start + rng.below(region.len()), 1 + rng.below(4));
    let end = (begin + length).min(region.end);
    match rng.below(16) {
        0 => drop(tokens.drain(begin..end)),
        1 => {
            let again = tokens[begin..end].to_vec();
            let times = 1 + rng.below(3);
            tokens.splice(end..end, std::iter::repeat_n(again, times).flatten());
        }
        2 => tokens.swap(begin, region.start + rng.below(region.len())),
        3 | 4 => {
            let at = place(tokens, &region, is_literal, rng);
            tokens[at] = rng.choose(&EXTREMES).to_string();
        }
        5 => {
            let at = place(tokens, &region, is_value, rng);
            tokens[at] = rng.choose(&EXTREMES).to_string();
        }
        6 => {
            let at = place(tokens, &region, is_word, rng);
            tokens[at] = tokens[place(tokens, &(0..tokens.len()), is_value, rng)].clone();
        }
        7 => {
            let at = place(tokens, &region, is_word, rng);
            tokens[at] = rng.choose(words).clone();
        }
        8 => tokens[begin] = rng.choose(&WORDS).to_string(),
        9 => tokens.insert(begin, format!(" {} ", rng.choose(&WORDS))),
        10 => nest(tokens, &region, rng),
        11 => splice(tokens, region, other, rng),
        12 => {
            let mut text = tokens.concat();
            let cut = rng.below(text.len());
            text.truncate((0..=cut).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
            *tokens = self::tokens(&text);
        }
        13 => {
            let (from, to) = (group(tokens, &(0..tokens.len()), rng), group(tokens, &region, rng));
            let piece = tokens[from].to_vec();
            tokens.splice(to, piece);
        }
        14 => {
            let other = self::tokens(other);
            let from = group(&other, &(0..other.len()), rng);
            let to = group(tokens, &region, rng);
            tokens.splice(to, other[from].to_vec());
        }
        _ => {
            // Line ends and characters of several bytes move places.
            let mark = rng.choose(&["\n", "\r\n", "\t", "/* \u{1f980} */", "\u{a0}", "\u{feff}", "\u{0}", "-- ü\n"]);
            tokens.insert(begin, mark.to_string());
        }
    }
}

/// Puts a value, a table or a type into something, many times; sometimes without its end.
fn nest(tokens: &mut [String], region: &Range<usize>, rng: &mut Rng) {
    let nests: &[(&str, &str)] = match rng.below(6) {
        0 => &NESTED_TABLES,
        1 => &NESTED_TYPES,
        _ => &NESTS,
    };
    let (before, after) = *rng.choose(nests);
    let at = place(tokens, region, is_value, rng);
    let depth = *rng.choose(&DEPTHS);
    let inner = match rng.below(3) {
        // Something wrong in the innermost place.
        0 => " 1 1 ",
        _ => &tokens[at],
    };
    let after = if rng.below(4) == 0 { String::new() } else { after.repeat(depth) };
    tokens[at] = format!("{}{inner}{after}", before.repeat(depth));
}

/// The first part of a statement, and the last part of another one.
fn splice(tokens: &mut Vec<String>, region: Range<usize>, other: &str, rng: &mut Rng) {
    let other = self::tokens(other);
    if other.is_empty() {
        return;
    }
    let from = self::region(&other, rng);
    let cut = region.start + rng.below(region.len());
    let start = from.start + rng.below(from.len());
    tokens.splice(cut..region.end, other[start..from.end].to_vec());
}
