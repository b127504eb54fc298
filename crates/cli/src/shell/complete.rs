//! Completion with the Tab key: keywords, and the tables, columns and functions that the session knows.

use anabranch_server::Vocabulary;

const KEYWORDS: [&str; 72] = [
    "ALL",
    "AND",
    "ARRAY",
    "AS",
    "BETWEEN",
    "BIGINT",
    "BOOLEAN",
    "BY",
    "BYTES",
    "CASE",
    "CAST",
    "CREATE",
    "DATE",
    "DECIMAL",
    "DESCRIBE",
    "DESCRIPTOR",
    "DISTINCT",
    "DOUBLE",
    "DROP",
    "ELSE",
    "END",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FILTER",
    "FLOAT",
    "FOR",
    "FROM",
    "FUNCTION",
    "FUNCTIONS",
    "GROUP",
    "HAVING",
    "HOP",
    "IN",
    "INNER",
    "INSERT",
    "INT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "ON",
    "OR",
    "PRIMARY",
    "REPLACE",
    "RESET",
    "RETURN",
    "RETURNS",
    "ROW",
    "SELECT",
    "SET",
    "SHOW",
    "STRING",
    "TABLE",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "TRUE",
    "TRY_CAST",
    "TUMBLE",
    "UNION",
    "VALUES",
    "VIEW",
    "WATERMARK",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Largest number of candidates: a longer list is of no use.
const CANDIDATES_MAX: usize = 200;

/// Completions at byte `cursor` of `line`: where the word begins that the candidates replace, and the candidates.
pub(crate) fn complete(vocabulary: &Vocabulary, line: &str, cursor: usize) -> (usize, Vec<String>) {
    let before = &line[..cursor];
    let start = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    let word = &before[start..];
    let mut candidates = match before[..start].strip_suffix('.').map(last_word) {
        // A column of the relation before the dot.
        Some(relation) => matching(columns(vocabulary, relation), word),
        // Without a first letter everything would match.
        None if word.is_empty() => Vec::new(),
        None => {
            let mut names = matching(vocabulary.relations.keys().map(String::as_str), word);
            names.extend(matching(vocabulary.relations.values().flatten().map(String::as_str), word));
            names.extend(matching(KEYWORDS.iter().copied(), word));
            let functions = matching(vocabulary.functions.iter().map(String::as_str), word);
            names.extend(functions.iter().map(|name| format!("{}(", name.to_uppercase())));
            names
        }
    };
    candidates.sort();
    candidates.dedup();
    candidates.truncate(CANDIDATES_MAX);
    (start, candidates)
}

fn columns<'a>(vocabulary: &'a Vocabulary, relation: &str) -> impl Iterator<Item = &'a str> {
    vocabulary.relations.get(relation).into_iter().flatten().map(String::as_str)
}

/// Names that begin with the word, in either case.
fn matching<'a>(names: impl Iterator<Item = &'a str>, word: &str) -> Vec<String> {
    let begins = |name: &&str| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    names.filter(begins).map(str::to_owned).collect()
}

fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_end(line: &str) -> (usize, Vec<String>) {
        let columns = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let vocabulary = Vocabulary {
            relations: [
                ("orders".to_owned(), columns(&["order_id", "price"])),
                ("people".to_owned(), columns(&["name", "größe"])),
            ]
            .into(),
            functions: columns(&["upper", "order_of"]),
        };
        complete(&vocabulary, line, line.len())
    }

    #[test]
    fn a_word_becomes_a_keyword_a_table_a_column_or_a_function() {
        assert_eq!(at_end("sel"), (0, vec!["SELECT".to_owned()]));
        assert_eq!(at_end("SELECT ord").1, ["ORDER_OF(", "order_id", "orders"]);
        assert_eq!(at_end("SELECT ord").0, 7);
        assert_eq!(at_end("SELECT UPP").1, ["UPPER("]);
        assert_eq!(at_end("SELECT grö").1, ["größe"]);
    }

    #[test]
    fn behind_a_dot_come_the_columns_of_that_table() {
        assert_eq!(at_end("SELECT orders.").1, ["order_id", "price"]);
        assert_eq!(at_end("SELECT f(people.N").1, ["name"]);
        assert!(at_end("SELECT nothing.").1.is_empty());
    }

    #[test]
    fn nothing_is_offered_where_nothing_was_begun() {
        assert!(at_end("SELECT ").1.is_empty());
        assert!(at_end("").1.is_empty());
        assert!(at_end("xyz").1.is_empty());
    }
}
