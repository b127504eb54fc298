//! What may stand at a place of a statement.

use anabranch_plan::window_functions;

use crate::words::Word;

/// What may stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One of these keywords.
    Keywords(&'static [&'static str]),
    /// A table or a view, or one of these keywords.
    Relation(&'static [&'static str]),
    Function,
    WindowFunction,
    Job(&'static [&'static str]),
    /// A column of these tables and views, a function, or one of these keywords.
    Value(&'static [&'static str]),
    /// A column of these tables and views.
    Column,
    Type,
    /// An option in WITH, with the connector of its table.
    OptionName(Option<String>),
    /// The value of an option.
    OptionValue(Option<String>, String),
    Setting,
    Nothing,
}

const STATEMENTS: &[&str] = &[
    "SELECT",
    "INSERT INTO",
    "CREATE",
    "DROP",
    "ALTER",
    "SHOW",
    "DESCRIBE",
    "EXPLAIN",
    "SET",
    "RESET",
    "USE",
    "WITH",
    "EXECUTE STATEMENT SET BEGIN",
    "STOP JOB",
    "CANCEL JOB",
    "DRAIN WORKER",
    "ABORT CHANGE OF JOB",
];
const EXPLAINED: &[&str] = &[
    "SELECT",
    "INSERT INTO",
    "EXECUTE STATEMENT SET BEGIN",
    "PLAN FOR",
    "VERBOSE",
    "ALTER JOB",
    "CREATE OR REPLACE FUNCTION",
];
const SHOWN: &[&str] = &[
    "TABLES",
    "VIEWS",
    "FUNCTIONS",
    "USER FUNCTIONS",
    "CONNECTORS",
    "COLUMNS FROM",
    "CREATE TABLE",
    "CREATE VIEW",
    "CREATE FUNCTION",
    "CATALOGS",
    "DATABASES",
    "CURRENT CATALOG",
    "CURRENT DATABASE",
    "JOBS",
    "JOB",
    "CHANGES FOR JOB",
];
const CREATED: &[&str] = &["TABLE", "VIEW", "FUNCTION", "TEMPORARY", "OR REPLACE", "DATABASE", "CATALOG"];
const DROPPED: &[&str] = &["TABLE", "VIEW", "FUNCTION", "TEMPORARY", "DATABASE"];
const OF_JOB: &[&str] = &["RESCALE", "BALANCE", "MIGRATE TASK", "SET", "AS"];
/// Before an operand.
const OPERANDS: &[&str] =
    &["CASE", "CAST(", "TRY_CAST(", "NOT", "NULL", "TRUE", "FALSE", "INTERVAL", "EXISTS", "ARRAY", "MAP", "ROW"];
const SELECTED: &[&str] =
    &["DISTINCT", "CASE", "CAST(", "TRY_CAST(", "NOT", "NULL", "TRUE", "FALSE", "INTERVAL", "ARRAY", "MAP", "ROW"];
/// After an operand of a list of SELECT.
const AFTER_SELECTED: &[&str] =
    &["FROM", "AS", "AND", "OR", "IS", "IN", "LIKE", "BETWEEN", "NOT", "OVER", "FILTER", "THEN", "ELSE", "END", "WHEN"];
/// After an operand of a condition.
const AFTER_OPERAND: &[&str] = &[
    "AND",
    "OR",
    "IS",
    "IN",
    "LIKE",
    "BETWEEN",
    "NOT",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "UNION ALL",
    "WHERE",
    "JOIN",
    "LEFT JOIN",
    "INNER JOIN",
    "ASC",
    "DESC",
    "THEN",
    "ELSE",
    "END",
    "WHEN",
    "AS",
];
const AFTER_RELATION: &[&str] = &[
    "WHERE",
    "GROUP BY",
    "JOIN",
    "LEFT JOIN",
    "INNER JOIN",
    "FULL JOIN",
    "RIGHT JOIN",
    "CROSS JOIN",
    "ON",
    "ORDER BY",
    "LIMIT",
    "UNION ALL",
    "AS",
    "HAVING",
    "FOR SYSTEM_TIME AS OF",
];

/// The place after these words of a statement.
pub(super) fn place(words: &[Word]) -> Place {
    let word = |at: usize| words.get(at);
    let is = |at: usize, keyword: &str| word(at).is_some_and(|word| word.is(keyword));
    let Some(first) = words.first() else { return Place::Keywords(STATEMENTS) };
    let upper = if first.is_quoted() { String::new() } else { first.text.to_uppercase() };
    match (upper.as_str(), words.len()) {
        ("EXPLAIN", 1) => Place::Keywords(EXPLAINED),
        ("EXPLAIN", _) => {
            let skipped = match is(1, "PLAN") {
                true => 3,
                false if is(1, "VERBOSE") => 2,
                false => 1,
            };
            place(&words[skipped.min(words.len())..])
        }
        ("SHOW", 1) => Place::Keywords(SHOWN),
        ("DESCRIBE" | "DESC", 1) => Place::Relation(&["JOB"]),
        ("DROP", 1) => Place::Keywords(DROPPED),
        ("CREATE", 1) => Place::Keywords(CREATED),
        ("ALTER", 1) => Place::Keywords(&["TABLE", "JOB"]),
        ("INSERT", 1) => Place::Keywords(&["INTO"]),
        ("STOP" | "CANCEL", 1) => Place::Keywords(&["JOB"]),
        ("USE", 1) => Place::Keywords(&["CATALOG"]),
        ("SET" | "RESET", 1) => Place::Setting,
        _ if words.last().is_some_and(|word| word.is("JOB")) => Place::Job(&[]),
        ("ALTER", 3) if is(1, "JOB") => Place::Keywords(OF_JOB),
        ("ALTER", _) if is(1, "JOB") && is(3, "AS") => place(&words[4..]),
        ("ALTER", _) if is(1, "JOB") => Place::Setting,
        ("SHOW" | "DESCRIBE" | "DESC" | "DROP", _) if words.last().is_some_and(|word| word.is("FUNCTION")) => {
            Place::Function
        }
        ("SHOW" | "DESCRIBE" | "DESC" | "DROP" | "ALTER", _) if is_before_relation(words) => Place::Relation(&[]),
        ("INSERT", 2) => Place::Relation(&[]),
        ("INSERT", 3) => Place::Keywords(&["SELECT", "VALUES"]),
        ("CREATE", _) => created(words),
        ("SELECT" | "WITH" | "INSERT" | "(", _) => query(words),
        _ => Place::Nothing,
    }
}

fn is_before_relation(words: &[Word]) -> bool {
    let before = ["TABLE", "VIEW", "FROM", "IN", "EXISTS"];
    words.last().is_some_and(|last| before.iter().any(|keyword| last.is(keyword)))
}

/// In a CREATE statement.
fn created(words: &[Word]) -> Place {
    let last = &words[words.len() - 1];
    let of = |keyword: &str| words.iter().any(|word| word.is(keyword));
    if let Some(open) = innermost(words)
        && open.checked_sub(1).is_some_and(|before| words[before].is("WITH"))
    {
        return option(words, open);
    }
    if words.iter().any(|word| word.is("SELECT")) {
        let begin = words.iter().position(|word| word.is("SELECT")).unwrap_or(0);
        return query(&words[begin..]);
    }
    if of("FUNCTION") {
        return match () {
            () if last.is("RETURNS") => Place::Type,
            () if of("RETURN") => Place::Value(OPERANDS),
            () if innermost(words).is_some() && last.is_name() => Place::Type,
            () => Place::Keywords(&["RETURNS", "RETURN", "AS", "LANGUAGE", "IF NOT EXISTS"]),
        };
    }
    if of("VIEW") {
        return Place::Keywords(&["AS", "SELECT", "IF NOT EXISTS"]);
    }
    if !of("TABLE") {
        return Place::Keywords(&["REPLACE", "TABLE", "VIEW", "FUNCTION", "TEMPORARY"]);
    }
    match innermost(words) {
        Some(_) if last.is("(") || last.is(",") => Place::Keywords(&["WATERMARK FOR", "PRIMARY KEY ("]),
        Some(open) if words[open..].iter().rev().take_while(|word| !word.is(",")).any(|word| word.is("AS")) => {
            Place::Value(OPERANDS)
        }
        Some(_) if last.is("FOR") => Place::Nothing,
        Some(_) if last.is_name() && !is_type(last) => Place::Type,
        Some(_) => Place::Keywords(&["NOT NULL", "METADATA FROM", "AS", "PRIMARY KEY NOT ENFORCED"]),
        None if last.is(")") => Place::Keywords(&["WITH (", "PARTITIONED BY (", "LIKE"]),
        None if last.is("LIKE") => Place::Relation(&[]),
        None if last.is("TABLE") => Place::Keywords(&["IF NOT EXISTS"]),
        None => Place::Keywords(&["WITH (", "AS SELECT", "LIKE"]),
    }
}

fn is_type(word: &Word) -> bool {
    super::TYPES.iter().any(|name| word.is(name.trim_end_matches(['(', '<'])))
}

/// Within the list of WITH.
fn option(words: &[Word], open: usize) -> Place {
    let inside = &words[open + 1..];
    let connector = inside.windows(3).find(|of| of[0].text == "connector" && of[1].is("=") && of[2].is_quoted());
    let connector = connector.map(|of| of[2].text.clone());
    match inside {
        [.., name, equals] if equals.is("=") => Place::OptionValue(connector, name.text.clone()),
        [.., last] if last.is(",") => Place::OptionName(connector),
        [] => Place::OptionName(None),
        _ => Place::Nothing,
    }
}

/// The innermost parenthesis that is open at the end.
fn innermost(words: &[Word]) -> Option<usize> {
    let mut open = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if word.is("(") {
            open.push(at);
        } else if word.is(")") {
            open.pop();
        }
    }
    open.pop()
}

const CLAUSES: [&str; 13] =
    ["SELECT", "FROM", "JOIN", "WHERE", "ON", "BY", "HAVING", "LIMIT", "INTO", "VALUES", "USING", "WITH", "UNION"];

/// In a query.
fn query(words: &[Word]) -> Place {
    let Some(last) = words.last() else { return Place::Keywords(&["SELECT"]) };
    if let Some(open) = innermost(words) {
        let before = open.checked_sub(1).map(|at| &words[at]);
        if last.is("(") && before.is_some_and(|before| before.is("TABLE")) {
            return Place::WindowFunction;
        }
        if before.is_some_and(|before| before.is("DESCRIPTOR")) {
            return Place::Column;
        }
        if before.is_some_and(|before| window_functions().any(|window| before.is(window))) {
            return match () {
                () if last.is("TABLE") => Place::Relation(&[]),
                () if last.is("(") => Place::Keywords(&["TABLE"]),
                () => Place::Keywords(&["DESCRIPTOR(", "INTERVAL"]),
            };
        }
        // `INSERT INTO t (`.
        if open >= 2 && words[open - 2].is("INTO") {
            return Place::Column;
        }
    }
    let Some(clause) = clause(words) else { return Place::Value(OPERANDS) };
    let keyword = words[clause].text.to_uppercase();
    let is_operand = is_operand(last) || is_all_columns(words);
    match keyword.as_str() {
        "FROM" | "JOIN" if last.is(",") || clause == words.len() - 1 => Place::Relation(&["TABLE(", "LATERAL TABLE("]),
        "FROM" | "JOIN" => Place::Keywords(AFTER_RELATION),
        "INTO" => Place::Keywords(&["SELECT", "VALUES"]),
        "UNION" => Place::Keywords(&["ALL", "SELECT"]),
        "WITH" => Place::Keywords(&["AS", "SELECT"]),
        "SELECT" if is_operand => Place::Keywords(AFTER_SELECTED),
        "SELECT" if clause == words.len() - 1 => Place::Value(SELECTED),
        "LIMIT" => Place::Nothing,
        _ if is_operand => Place::Keywords(AFTER_OPERAND),
        _ if innermost(words) == Some(words.len() - 1) && clause < words.len() - 1 => {
            Place::Value(&["SELECT", "CASE", "CAST(", "TRY_CAST(", "DISTINCT", "NULL", "TRUE", "FALSE", "INTERVAL"])
        }
        _ => Place::Value(OPERANDS),
    }
}

/// The last clause that begins at the depth of the end, or around it.
fn clause(words: &[Word]) -> Option<usize> {
    let mut closed = 0_usize;
    for (at, word) in words.iter().enumerate().rev() {
        if word.is(")") {
            closed += 1;
        } else if word.is("(") {
            closed = closed.saturating_sub(1);
        } else if closed == 0 && CLAUSES.iter().any(|clause| word.is(clause)) {
            return Some(at);
        }
    }
    None
}

/// Whether the words end with the `*` of all columns.
fn is_all_columns(words: &[Word]) -> bool {
    let before = ["SELECT", "DISTINCT", ",", "ALL"];
    matches!(words, [.., word, star] if star.is("*") && before.iter().any(|keyword| word.is(keyword)))
}

/// Whether an operand ends with this word, so that an operator or a clause follows.
fn is_operand(word: &Word) -> bool {
    let before = [
        "SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "ON", "BY", "HAVING", "CASE", "WHEN", "THEN", "ELSE",
        "IN", "LIKE", "BETWEEN", "IS", "INTERVAL", "AS", "FILTER", "OVER", "VALUES", "EXISTS",
    ];
    word.is(")") || word.quote == Some('\'') || (word.is_name() && !before.iter().any(|keyword| word.is(keyword)))
}
