use super::*;

fn vocabulary() -> Vocabulary {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let relations = [
        ("orders".to_owned(), names(&["amount", "order_id", "price"])),
        ("people".to_owned(), names(&["name", "größe"])),
    ];
    Vocabulary {
        relations: relations.into(),
        functions: names(&["abs", "avg", "second", "upper", "order_of"]),
        connectors: [
            ("kafka".to_owned(), names(&["topic", "properties.*"])),
            ("print".to_owned(), names(&["print-identifier"])),
        ]
        .into(),
        settings: names(&["parallelism", "job-name"]),
        jobs: names(&["ads", "bids"]),
    }
}

/// The place of `|` is the cursor's; without one it is at the end.
fn at(text: &str) -> (usize, Vec<String>) {
    let cursor = text.find('|').unwrap_or(text.len());
    complete(&vocabulary(), &text.replace('|', ""), cursor)
}

fn of(text: &str) -> Vec<String> {
    at(text).1
}

#[test]
fn a_statement_begins_with_a_keyword() {
    assert_eq!(at("sel"), (0, vec!["SELECT".to_owned()]));
    assert_eq!(of("EXPLAIN S"), ["SELECT"]);
    assert_eq!(of("SELECT 1; ins"), ["INSERT INTO"]);
    assert_eq!(of("explain plan for sel"), ["SELECT"]);
    assert_eq!(of("SHOW CONN"), ["CONNECTORS"]);
    assert!(of("").contains(&"SELECT".to_owned()) && of("xyz").is_empty());
}

#[test]
fn a_value_is_a_column_or_a_function() {
    assert_eq!(of("SELECT a"), ["amount", "ABS(", "AVG(", "ARRAY"]);
    assert_eq!(at("SELECT ord"), (7, vec!["order_id".to_owned(), "ORDER_OF(".to_owned()]));
    assert_eq!(of("SELECT UPP"), ["UPPER("]);
    assert_eq!(of("SELECT grö"), ["größe"]);
    // Of the tables that the statement names, also behind the cursor.
    assert_eq!(of("SELECT n| FROM orders"), ["NOT", "NULL"]);
    assert_eq!(of("SELECT | FROM people"), ["größe", "name"]);
    assert_eq!(of("SELECT * FROM orders WHERE pr"), ["price"]);
    assert_eq!(of("SELECT * FROM orders WHERE price > am"), ["amount"]);
    assert_eq!(of("SELECT 1 FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(am"), ["amount"]);
    assert_eq!(
        of("SELECT window_s| FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(amount), INTERVAL '1' DAY))"),
        ["window_start"]
    );
}

#[test]
fn after_an_operand_comes_no_other() {
    assert_eq!(of("SELECT amount F"), ["FROM", "FILTER"]);
    assert_eq!(of("SELECT * FR"), ["FROM"]);
    assert_eq!(of("SELECT * FROM orders GR"), ["GROUP BY"]);
    assert_eq!(of("SELECT * FROM orders o WHERE price > 1 GR"), ["GROUP BY"]);
    assert_eq!(of("SELECT * FROM orders ORDER BY amount DE"), ["DESC"]);
}

#[test]
fn tables_come_where_tables_are_named() {
    for text in ["SELECT * FROM o", "SELECT * FROM people JOIN o", "INSERT INTO o", "DESCRIBE o", "DROP TABLE o"] {
        assert_eq!(of(text), ["orders"], "{text}");
    }
    assert_eq!(of("SELECT * FROM people, o"), ["orders"]);
    assert_eq!(of("SELECT * FROM TABLE(TUMBLE(TABLE o"), ["orders"]);
    assert_eq!(of("SELECT * FROM "), ["orders", "people", "TABLE(", "LATERAL TABLE("]);
    assert_eq!(of("INSERT INTO orders (or"), ["order_id"]);
    assert_eq!(of("DROP FUNCTION UP"), ["upper"]);
}

#[test]
fn behind_a_dot_come_the_columns_of_that_table() {
    assert_eq!(of("SELECT orders."), ["amount", "order_id", "price"]);
    assert_eq!(of("SELECT UPPER(people.N"), ["name"]);
    assert_eq!(of("SELECT p.n| FROM people p"), ["name"]);
    assert_eq!(of("SELECT p.n| FROM people AS p"), ["name"]);
    assert!(of("SELECT nothing.").is_empty());
}

#[test]
fn options_are_those_of_the_connector() {
    assert_eq!(of("CREATE TABLE t (a INT) WITH ("), ["'connector' = '"]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('conn"), ["connector' = '"]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('connector' = '"), ["kafka'", "print'"]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('connector' = 'k|'"), ["kafka"]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'to"), ["topic' = '"]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'prop"), ["properties."]);
    assert_eq!(of("CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'format' = 'deb"), ["debezium-json'"]);
    let print = of("CREATE TABLE t WITH ('connector' = 'print', '");
    assert_eq!(print[0], "print-identifier' = '");
    assert!(!print.iter().any(|name| name.starts_with("connector")), "it is given: {print:?}");
    assert_eq!(of("CREATE TABLE t (a B"), ["BIGINT", "BOOLEAN", "BYTES"]);
}

#[test]
fn settings_and_jobs_are_named() {
    assert_eq!(of("SET 'par"), ["parallelism'"]);
    assert_eq!(of("STOP JOB "), ["ads", "bids"]);
    assert_eq!(of("DESCRIBE JOB 'b"), ["bids'"]);
    assert_eq!(of("ALTER JOB ads RES"), ["RESCALE"]);
    assert_eq!(of("ALTER JOB ads AS INSERT INTO pe"), ["people"]);
}
