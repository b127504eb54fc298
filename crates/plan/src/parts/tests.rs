use super::*;

/// The parts of a text around these marks, which are no part of the text.
fn around(marked: &str) -> Vec<String> {
    let (mut text, mut places) = (String::new(), Vec::new());
    for piece in marked.split('^') {
        text.push_str(piece);
        let line = text.lines().count().max(1) + usize::from(text.ends_with('\n'));
        let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        places.push(Place { line: line as u32, column: column as u32 });
    }
    // No mark follows the last piece.
    places.pop();
    let parts = TextParts::of(&text).around(&places);
    parts.into_iter().map(|part| cut(&text, part)).collect()
}

fn cut(text: &str, TextPart { from, to }: TextPart) -> String {
    let byte = |place: Place| {
        let line: usize = text.split_inclusive('\n').take(place.line as usize - 1).map(str::len).sum();
        line + text[line..].chars().take(place.column as usize - 1).map(char::len_utf8).sum::<usize>()
    };
    text[byte(from)..byte(to)].to_owned()
}

#[test]
fn a_part_is_what_the_clause_has_between_two_commas_or_two_ands() {
    for (text, parts) in [
        ("SELECT a, ^b + 1 AS c FROM t", &["b + 1 AS c"][..]),
        ("SELECT DISTINCT ^a, b FROM t", &["a"]),
        ("SELECT CAST(^a AS INT), -b FROM t", &["CAST(a AS INT)"]),
        ("SELECT f(a, ^b), c FROM t", &["f(a, b)"]),
        ("SELECT COUNT(*) FROM ^t AS u, v", &["t AS u"]),
        ("SELECT 1 FROM t JOIN ^u AS v ON t.a = v.a", &["u AS v"]),
        ("SELECT 1 FROM ^t LEFT JOIN u ON TRUE", &["t"]),
        ("SELECT LEFT(^a, 2) FROM t", &["LEFT(a, 2)"]),
        ("SELECT 1 FROM t WHERE NOT ^a IS NULL AND b = 2 GROUP BY c", &["NOT a IS NULL"]),
        ("SELECT 1 FROM t WHERE a = 1 AND ^b BETWEEN 2 AND 3 AND c = 4", &["b BETWEEN 2 AND 3"]),
        ("SELECT 1 FROM t WHERE ^a = 1 AND b = 2 OR c = 3", &["a = 1 AND b = 2 OR c = 3"]),
        ("SELECT 1 FROM t WHERE ^a IS NOT DISTINCT FROM b AND c", &["a IS NOT DISTINCT FROM b"]),
        ("SELECT CASE WHEN a AND ^b THEN 1 END AS c, d FROM t", &["CASE WHEN a AND b THEN 1 END AS c"]),
        ("SELECT ^a AND b AS c FROM t", &["a AND b AS c"]),
        ("SELECT 1 FROM t JOIN u ON t.a = u.a AND ^t.b > 1 WHERE c", &["t.b > 1"]),
        ("SELECT 1 FROM t JOIN u ON t.a = u.a, ^v", &["v"]),
        ("SELECT 1 FROM t GROUP BY a, ^b HAVING c", &["b"]),
        ("SELECT 1 FROM t GROUP BY a HAVING ^COUNT(*) > 1 ORDER BY d", &["COUNT(*) > 1"]),
        ("SELECT a FROM t ORDER BY ^a DESC NULLS LAST LIMIT 3", &["a DESC NULLS LAST"]),
        ("SELECT LISTAGG(^a) WITHIN GROUP (ORDER BY b) FROM t", &["LISTAGG(a) WITHIN GROUP (ORDER BY b)"]),
        ("SELECT `from`, ^`a b` FROM t", &["`a b`"]),
    ] {
        assert_eq!(around(text), parts, "{text}");
    }
}

#[test]
fn neighbours_are_one_part() {
    assert_eq!(around("SELECT ^a, ^b, c, ^d FROM t"), ["a, b", "d"]);
    assert_eq!(around("SELECT ^a FROM t WHERE ^b = 1 AND ^c = 2"), ["a", "b = 1 AND c = 2"]);
    assert_eq!(around("SELECT ^a + ^b FROM t"), ["a + b"]);
}

#[test]
fn a_query_within_another_has_parts_of_its_own() {
    let text = "SELECT a FROM t WHERE ^a IN (SELECT b FROM u WHERE ^c = 1) AND d";
    assert_eq!(around(text), ["a IN (SELECT b FROM u WHERE c = 1)", "c = 1"]);
    assert_eq!(around("SELECT (^SELECT MAX(b) FROM u) + 1, c FROM t"), ["(SELECT MAX(b) FROM u) + 1"]);
    assert_eq!(around("WITH x AS (SELECT ^a, b FROM t) SELECT ^b FROM x"), ["a", "b"]);
    assert_eq!(around("SELECT a FROM t UNION ALL (SELECT ^b FROM u) ORDER BY a"), ["b"]);
}

#[test]
fn windows_and_arrays_of_from_are_tables() {
    let tumble = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))";
    let marked = tumble.replace("ts", "^ts");
    assert_eq!(around(&format!("SELECT 1 FROM {marked} AS w GROUP BY window_start")), [format!("{tumble} AS w")]);
    let text = "SELECT 1 FROM t CROSS JOIN UNNEST(^t.a) WITH ORDINALITY AS u (x, n)";
    assert_eq!(around(text), ["UNNEST(t.a) WITH ORDINALITY AS u (x, n)"]);
    let text = "SELECT 1 FROM o JOIN r FOR SYSTEM_TIME AS OF ^o.ts AS r ON o.c = r.c";
    assert_eq!(around(text), ["r FOR SYSTEM_TIME AS OF o.ts AS r"]);
}

#[test]
fn statements_are_apart() {
    let text = "CREATE TABLE t (a BIGINT, ts AS f(^a), WATERMARK FOR ts AS ts) WITH ('x' = 'y');
CREATE VIEW v AS SELECT ^a FROM t;
-- ünï, code
EXECUTE STATEMENT SET BEGIN
INSERT INTO ^r SELECT 'ä, ö', ^a FROM v;
INSERT INTO s (x, y) SELECT a, b FROM ^v; END;";
    assert_eq!(around(text), ["ts AS f(a)", "a", "r", "a", "v"]);
    assert_eq!(around("INSERT INTO ^s (x, y) SELECT a, b FROM v"), ["s (x, y)"]);
    assert_eq!(around("CREATE TABLE t AS SELECT f(^a, b) FROM u"), ["f(a, b)"]);
}

#[test]
fn a_text_that_cannot_be_read_has_no_parts() {
    assert_eq!(around("SELECT ^a FROM t WHERE b = 'c"), [""; 0]);
    assert_eq!(around("SELECT a) FROM ^t"), ["t"]);
}
