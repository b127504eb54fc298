-- Elements as rows, constant rows, and the names and types of columns.

--- unnest_texts
SELECT id, tag FROM nested CROSS JOIN UNNEST(tags) AS t (tag);
--: streaming, stays
--: id INT | tag STRING
--= 1 | 'a'
--= 1 | 'a'
--= 1 | 'b'
--= 4 | 'c'
--= 4 | NULL

--- unnest_with_ordinality
SELECT id, tag, pos FROM nested CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos);
--: streaming, stays
--: id INT | tag STRING | pos INT NOT NULL
--= 1 | 'a' | 1
--= 1 | 'a' | 3
--= 1 | 'b' | 2
--= 4 | 'c' | 2
--= 4 | NULL | 1

--- unnest_left
SELECT id, tag FROM nested LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;
--: streaming, stays
--: id INT | tag STRING
--= 1 | 'a'
--= 1 | 'a'
--= 1 | 'b'
--= 2 | NULL
--= 3 | NULL
--= 4 | 'c'
--= 4 | NULL

--- unnest_left_with_ordinality
SELECT id, tag, pos FROM nested LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, pos) ON TRUE;
--: streaming, stays
--: id INT | tag STRING | pos INT
--= 1 | 'a' | 1
--= 1 | 'a' | 3
--= 1 | 'b' | 2
--= 2 | NULL | NULL
--= 3 | NULL | NULL
--= 4 | 'c' | 2
--= 4 | NULL | 1

--- unnest_rows
SELECT id, name, qty FROM nested CROSS JOIN UNNEST(items) AS t (name, qty) WHERE id < 4;
--: streaming, stays
--: id INT | name STRING | qty INT
--= 1 | 'ink' | NULL
--= 1 | 'pen' | 2

--- unnest_rows_with_a_null
SELECT id, name, qty FROM nested CROSS JOIN UNNEST(items) AS t (name, qty);
--: streaming, stays
--: id INT | name STRING | qty INT
--= 1 | 'ink' | NULL
--= 1 | 'pen' | 2
--= 4 | 'pad' | 1

--- unnest_rows_left
SELECT id, name, qty FROM nested LEFT JOIN UNNEST(items) AS t (name, qty) ON TRUE WHERE id < 4;
--: streaming, stays
--: id INT | name STRING | qty INT
--= 1 | 'ink' | NULL
--= 1 | 'pen' | 2
--= 2 | NULL | NULL
--= 3 | NULL | NULL

--- unnest_map
SELECT id, k, v FROM nested CROSS JOIN UNNEST(attrs) AS t (k, v);
--: streaming, stays
--: id INT | k STRING | v INT
--= 1 | 'x' | 1
--= 1 | 'y' | NULL
--= 4 | 'z' | 3

--- unnest_map_left
SELECT id, k, v FROM nested LEFT JOIN UNNEST(attrs) AS t (k, v) ON TRUE;
--: streaming, stays
--: id INT | k STRING | v INT
--= 1 | 'x' | 1
--= 1 | 'y' | NULL
--= 2 | NULL | NULL
--= 3 | NULL | NULL
--= 4 | 'z' | 3

--- unnest_without_names
SELECT id, t.* FROM nested CROSS JOIN UNNEST(tags) AS t;
--: streaming, stays
--: id INT | t STRING
--= 1 | 'a'
--= 1 | 'a'
--= 1 | 'b'
--= 4 | 'c'
--= 4 | NULL

--- unnest_of_a_comma
SELECT id, tag FROM nested, UNNEST(tags) AS t (tag) WHERE tag <> 'a';
--: streaming, stays
--: id INT | tag STRING
--= 1 | 'b'
--= 4 | 'c'

--- unnest_constant
SELECT x FROM UNNEST(ARRAY[1, 2, 3]) AS t (x);
--: streaming, stays
--: x INT NOT NULL
--= 1
--= 2
--= 3

--- unnest_then_group
SELECT tag, COUNT(*) AS n FROM nested CROSS JOIN UNNEST(tags) AS t (tag) GROUP BY tag;
--: streaming, updates
--: tag STRING | n BIGINT NOT NULL
--= 'a' | 2
--= 'b' | 1
--= 'c' | 1
--= NULL | 1

--- nested_fields
SELECT id, r.x, nested.r.y AS y, r, tags[1] AS first_tag, items[1].name AS item, attrs['x'] AS x2 FROM nested;
--: streaming, stays
--: id INT | x INT | y STRING | r ROW<`x` INT, `y` STRING> | first_tag STRING | item STRING | x2 INT
--= 1 | 1 | 'one' | +I[1, one] | 'a' | 'pen' | 1
--= 2 | NULL | 'two' | +I[null, two] | NULL | NULL | NULL
--= 3 | NULL | NULL | NULL | NULL | NULL | NULL
--= 4 | 4 | NULL | +I[4, null] | NULL | 'pad' | NULL

--- nested_columns
SELECT * FROM nested;
--: streaming, stays
--: id INT | tags ARRAY<STRING> | items ARRAY<ROW<`name` STRING, `qty` INT>> | attrs MAP<STRING, INT> | r ROW<`x` INT, `y` STRING>
--= 1 | ['a', 'b', 'a'] | [+I[pen, 2], +I[ink, null]] | {'x'=1, 'y'=NULL} | +I[1, one]
--= 2 | [] | [] | {} | +I[null, two]
--= 3 | NULL | NULL | NULL | NULL
--= 4 | [NULL, 'c'] | [+I[pad, 1], NULL] | {'z'=3} | +I[4, null]

--- nested_nulls
SELECT id, r IS NULL AS a, r.x IS NULL AS b, CARDINALITY(tags) AS c, CARDINALITY(attrs) AS d, tags[5] AS e FROM nested;
--: streaming, stays
--: id INT | a BOOLEAN NOT NULL | b BOOLEAN NOT NULL | c INT | d INT | e STRING
--= 1 | false | false | 3 | 2 | NULL
--= 2 | false | true | 0 | 0 | NULL
--= 3 | true | true | NULL | NULL | NULL
--= 4 | false | false | 2 | 1 | NULL

--- row_constructor
SELECT id, ROW(id, 'x') AS r, ARRAY[id, 2] AS a, MAP['k', id] AS m FROM nested;
--: streaming, stays
--: id INT | r ROW<`EXPR$0` INT, `EXPR$1` CHAR(1) NOT NULL> NOT NULL | a ARRAY<INT> NOT NULL | m MAP<CHAR(1) NOT NULL, INT> NOT NULL
--= 1 | +I[1, x] | [1, 2] | {'k'=1}
--= 2 | +I[2, x] | [2, 2] | {'k'=2}
--= 3 | +I[3, x] | [3, 2] | {'k'=3}
--= 4 | +I[4, x] | [4, 2] | {'k'=4}

--- group_by_an_array
SELECT tags, COUNT(*) AS n FROM nested GROUP BY tags;
--: streaming, updates
--: tags ARRAY<STRING> | n BIGINT NOT NULL
--= NULL | 1
--= ['a', 'b', 'a'] | 1
--= [NULL, 'c'] | 1
--= [] | 1

--- group_by_a_row
SELECT r, COUNT(*) AS n FROM nested GROUP BY r;
--: streaming, updates
--: r ROW<`x` INT, `y` STRING> | n BIGINT NOT NULL
--= +I[1, one] | 1
--= +I[4, null] | 1
--= +I[null, two] | 1
--= NULL | 1

--- values
SELECT * FROM (VALUES (1, 'a', 1.5), (2, 'bc', CAST(NULL AS DECIMAL(2, 1)))) AS t (a, b, c);
--: streaming, stays
--: a INT NOT NULL | b VARCHAR(2) NOT NULL | c DECIMAL(2, 1)
--= 1 | 'a' | 1.5
--= 2 | 'bc' | NULL

--- values_of_types
SELECT * FROM (VALUES (1, 2.5, 'a'), (2.25, 3, 'long')) AS t (a, b, c);
--: streaming, stays
--: a DECIMAL(12, 2) NOT NULL | b DECIMAL(11, 1) NOT NULL | c VARCHAR(4) NOT NULL
--= 1.00 | 2.5 | 'a'
--= 2.25 | 3.0 | 'long'

--- values_of_times
SELECT * FROM (VALUES (DATE '2024-01-01', TIMESTAMP '2024-01-01 10:00:00', TIMESTAMP '2024-01-01 10:00:00.123')) AS t (a, b, c);
--: streaming, stays
--: a DATE NOT NULL | b TIMESTAMP(0) NOT NULL | c TIMESTAMP(3) NOT NULL
--= 2024-01-01 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:00.123000000

--- values_without_names
VALUES (1, 'a'), (2, 'b');
--: streaming, stays
--: EXPR$0 INT NOT NULL | EXPR$1 CHAR(1) NOT NULL
--= 1 | 'a'
--= 2 | 'b'

--- select_without_from
SELECT 1 AS a, 'x' AS b, CAST(NULL AS INT) AS c, TRUE AS d, 1.50 AS e, 1e0 AS f;
--: streaming, stays
--: a INT NOT NULL | b CHAR(1) NOT NULL | c INT | d BOOLEAN NOT NULL | e DECIMAL(3, 2) NOT NULL | f DOUBLE NOT NULL
--= 1 | 'x' | NULL | true | 1.50 | 1.0

--- unnamed_columns
SELECT id + 1, qty * 2, 'x' FROM orders WHERE id < 3;
--: streaming, stays
--: EXPR$0 INT | EXPR$1 INT | EXPR$2 CHAR(1) NOT NULL
--= 2 | 4 | 'x'
--= 3 | 2 | 'x'

--- unnamed_aggregates
SELECT customer, COUNT(*), SUM(qty) FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | EXPR$1 BIGINT NOT NULL | EXPR$2 INT
--= 'ann' | 7 | 13
--= 'bob' | 5 | 13
--= 'cid' | 3 | 14
--= 'dot' | 2 | 3
--= NULL | 1 | 3

--- types_of_columns
SELECT * FROM numbers WHERE id < 3;
--: streaming, stays
--: id INT | g STRING | ti TINYINT | si SMALLINT | i INT | l BIGINT | f FLOAT | d DOUBLE | dc DECIMAL(10, 2) | s STRING | b BOOLEAN | dt DATE | ts TIMESTAMP(3) | p VARCHAR(5)
--= 1 | 'a' | 1 | 10 | 100 | 1000 | 1.5 | 2.5 | 10.25 | 'x' | true | 2024-01-01 | 2024-01-01 10:00:00.000000000 | 'one'
--= 2 | 'a' | 2 | 20 | 200 | 2000 | 2.5 | 3.5 | 20.50 | 'y' | false | 2024-02-01 | 2024-01-01 10:00:01.000000000 | 'two'

--- types_of_arithmetic
SELECT ti + si AS a, si + i AS b, i + l AS c, i + f AS d, i + d AS e, i * dc AS f, ti * ti AS g, f * f AS h, dc / dc AS j, -ti AS k FROM numbers WHERE id < 3;
--: streaming, stays
--: a SMALLINT | b INT | c BIGINT | d FLOAT | e DOUBLE | f DECIMAL(21, 2) | g TINYINT | h FLOAT | j DECIMAL(23, 13) | k TINYINT
--= 11 | 110 | 1100 | 101.5 | 102.5 | 1025.00 | 1 | 2.25 | 1.0000000000000 | -1
--= 22 | 220 | 2200 | 202.5 | 203.5 | 4100.00 | 4 | 6.25 | 1.0000000000000 | -2

--- types_of_literals
SELECT i + 1 AS a, ti + 1 AS b, l + 1 AS c, dc + 1 AS d, d + 1 AS e, f + 1.5 AS g, i / 2 AS h, i % 3 AS j FROM numbers WHERE id < 3;
--: streaming, stays
--: a INT | b INT | c BIGINT | d DECIMAL(13, 2) | e DOUBLE | g DOUBLE | h INT | j INT
--= 101 | 2 | 1001 | 11.25 | 3.5 | 3.0 | 50 | 1
--= 201 | 3 | 2001 | 21.50 | 4.5 | 4.0 | 100 | 2

--- compare_number_and_text
SELECT id FROM numbers WHERE id = '3' OR dc > '20';
--! refused: ValidationException: implicit type conversion between INTEGER and CHAR is not supported now

--- compare_date_and_text
SELECT id FROM numbers WHERE dt = '2024-01-01' OR ts > '2024-01-01 10:00:00';
--: streaming, stays
--: id INT
--= 1
--= 2
--= 7

--- compare_date_and_timestamp
SELECT id FROM numbers WHERE dt < ts AND ts < TIMESTAMP '2024-01-02 00:00:00';
--! refused: SqlValidatorException: Cannot apply '<' to arguments of type '<DATE> < <TIMESTAMP(3)>'. Supported form(s): '<COMPARABLE_TYPE> < <COMPARABLE_TYPE>'

--- compare_int_and_decimal
SELECT id FROM numbers WHERE i > dc AND ti <= dc;
--: streaming, stays
--: id INT
--= 1
--= 2
--= 4
--= 7

--- compare_float_and_decimal
SELECT id FROM numbers WHERE f = 1.5 OR d = 0.1 OR f = 0.1;
--: streaming, stays
--: id INT
--= 1
--= 5

--- between_mixed
SELECT id FROM numbers WHERE i BETWEEN 99.5 AND 200;
--: streaming, stays
--: id INT
--= 1
--= 2

--- case_of_types
SELECT id, CASE WHEN id = 1 THEN ti WHEN id = 2 THEN l ELSE dc END AS x FROM numbers WHERE id < 4;
--: streaming, stays
--: id INT | x DECIMAL(21, 2)
--= 1 | 1.00
--= 2 | 2000.00
--= 3 | -0.30

--- coalesce_of_types
SELECT id, COALESCE(ti, l) AS a, COALESCE(i, 0.5) AS b, COALESCE(s, 'none') AS c FROM numbers WHERE id > 6;
--: streaming, stays
--: id INT | a BIGINT | b DECIMAL(11, 1) NOT NULL | c STRING NOT NULL
--= 10 | 6 | 0.5 | 'none'
--= 7 | 5 | 500.0 | 'n'
--= 8 | NULL | 0.5 | 'none'
--= 9 | NULL | 0.5 | 'none'

--- nullif_and_if
SELECT id, NULLIF(i, 100) AS a, IF(b, i, 0) AS c, IFNULL(s, '?') AS d FROM numbers WHERE id < 4 OR id = 8;
--: streaming, stays
--: id INT | a INT | c INT | d STRING NOT NULL
--= 1 | NULL | 100 | 'x'
--= 2 | 200 | 0 | 'y'
--= 3 | -300 | 0 | 'y'
--= 8 | NULL | 0 | '?'

--- three_valued_logic
SELECT id, b AND TRUE AS a, b OR TRUE AS c, NOT b AS d, b IS TRUE AS e, b IS NOT FALSE AS f, b IS UNKNOWN AS g, b = b AS h FROM numbers;
--: streaming, stays
--: id INT | a BOOLEAN | c BOOLEAN | d BOOLEAN | e BOOLEAN NOT NULL | f BOOLEAN NOT NULL | g BOOLEAN NOT NULL | h BOOLEAN
--= 1 | true | true | false | true | true | false | true
--= 10 | true | true | false | true | true | false | true
--= 2 | false | true | true | false | false | false | true
--= 3 | NULL | true | NULL | false | true | true | NULL
--= 4 | true | true | false | true | true | false | true
--= 5 | false | true | true | false | false | false | true
--= 6 | false | true | true | false | false | false | true
--= 7 | true | true | false | true | true | false | true
--= 8 | NULL | true | NULL | false | true | true | NULL
--= 9 | NULL | true | NULL | false | true | true | NULL

--- null_comparisons
SELECT id FROM numbers WHERE i <> 100;
--: streaming, stays
--: id INT
--= 2
--= 3
--= 4
--= 5
--= 6
--= 7

--- is_distinct
SELECT id FROM numbers WHERE g IS DISTINCT FROM 'a' AND i IS NOT DISTINCT FROM NULL;
--: streaming, stays
--: id INT
--= 10
--= 8
--= 9

--- like_and_similar
SELECT id, s LIKE 'Z%' AS a, s SIMILAR TO '[xy]' AS b, p LIKE '_n_' AS c FROM numbers;
--: streaming, stays
--: id INT | a BOOLEAN | b BOOLEAN | c BOOLEAN
--= 1 | false | true | true
--= 10 | NULL | NULL | false
--= 2 | false | true | false
--= 3 | false | true | false
--= 4 | true | false | false
--= 5 | false | false | false
--= 6 | false | false | false
--= 7 | false | false | false
--= 8 | NULL | NULL | NULL
--= 9 | NULL | NULL | NULL

--- casts
SELECT id, CAST(i AS STRING) AS a, CAST(dc AS INT) AS b, CAST(d AS DECIMAL(10, 1)) AS c, CAST(ts AS DATE) AS e, CAST(dt AS TIMESTAMP(3)) AS f, CAST(b AS INT) AS g, CAST(b AS STRING) AS h
FROM numbers WHERE id < 4;
--: streaming, stays
--: id INT | a STRING | b INT | c DECIMAL(10, 1) | e DATE | f TIMESTAMP(3) | g INT | h STRING
--= 1 | '100' | 10 | 2.5 | 2024-01-01 | 2024-01-01 00:00:00.000000000 | 1 | 'TRUE'
--= 2 | '200' | 20 | 3.5 | 2024-01-01 | 2024-02-01 00:00:00.000000000 | 0 | 'FALSE'
--= 3 | '-300' | 0 | -1.5 | 2024-01-01 | 2023-12-31 00:00:00.000000000 | NULL | NULL

--- texts_of_values
SELECT id, CAST(f AS STRING) AS a, CAST(d AS STRING) AS b, CAST(dc AS STRING) AS c, CAST(ts AS STRING) AS e, CAST(dt AS STRING) AS g FROM numbers;
--: streaming, stays
--: id INT | a STRING | b STRING | c STRING | e STRING | g STRING
--= 1 | '1.5' | '2.5' | '10.25' | '2024-01-01 10:00:00.000' | '2024-01-01'
--= 10 | NULL | '-0.0' | '5.55' | NULL | NULL
--= 2 | '2.5' | '3.5' | '20.50' | '2024-01-01 10:00:01.000' | '2024-02-01'
--= 3 | '-0.5' | '-1.5' | '-0.30' | '2024-01-01 09:59:59.999' | '2023-12-31'
--= 4 | '1.0E30' | '1.0E300' | '99999999.99' | '1969-12-31 23:59:59.500' | '1969-12-31'
--= 5 | '0.1' | '0.1' | '0.01' | '2000-02-29 00:00:00.000' | '2000-02-29'
--= 6 | '0.2' | '0.2' | '0.02' | '2000-02-29 00:00:00.000' | '2000-02-29'
--= 7 | '5.5' | '5.5' | '5.50' | '2024-01-01 10:00:05.000' | '2024-01-05'
--= 8 | NULL | NULL | NULL | NULL | NULL
--= 9 | NULL | NULL | NULL | NULL | NULL

--- texts_of_nested_values
SELECT id, CAST(tags AS STRING) AS a, CAST(attrs AS STRING) AS b, CAST(r AS STRING) AS c, CAST(items AS STRING) AS d FROM nested;
--: streaming, stays
--: id INT | a STRING | b STRING | c STRING | d STRING
--= 1 | '[a, b, a]' | '{x=1, y=NULL}' | '(1, one)' | '[(pen, 2), (ink, NULL)]'
--= 2 | '[]' | '{}' | '(NULL, two)' | '[]'
--= 3 | NULL | NULL | NULL | NULL
--= 4 | '[NULL, c]' | '{z=3}' | '(4, NULL)' | '[(pad, 1), NULL]'

--- concatenation
SELECT id, g || s AS a, CONCAT(g, '-', p) AS b, CONCAT_WS('-', g, s, p) AS c FROM numbers;
--: streaming, stays
--: id INT | a STRING | b STRING | c STRING
--= 1 | 'ax' | 'a-one' | 'a-x-one'
--= 10 | NULL | NULL | 'd'
--= 2 | 'ay' | 'a-two' | 'a-y-two'
--= 3 | 'ay' | 'a-three' | 'a-y-three'
--= 4 | 'bZed' | 'b-p' | 'b-Zed-p'
--= 5 | 'c' | 'c-a' | 'c--a'
--= 6 | 'cé' | 'c-b' | 'c-é-b'
--= 7 | NULL | NULL | 'n-c'
--= 8 | NULL | NULL | 'z'
--= 9 | NULL | NULL | 'z'

--- extracts
SELECT id, EXTRACT(YEAR FROM ts) AS a, EXTRACT(DOW FROM dt) AS b, HOUR(ts) AS c, FLOOR(ts TO HOUR) AS d, CEIL(ts TO DAY) AS e, DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm') AS f FROM numbers;
--: streaming, stays
--: id INT | a BIGINT | b BIGINT | c BIGINT | d TIMESTAMP(3) | e TIMESTAMP(3) | f STRING
--= 1 | 2024 | 2 | 10 | 2024-01-01 10:00:00.000000000 | 2024-01-02 00:00:00.000000000 | '2024-01-01 10:00'
--= 10 | NULL | NULL | NULL | NULL | NULL | NULL
--= 2 | 2024 | 5 | 10 | 2024-01-01 10:00:00.000000000 | 2024-01-02 00:00:00.000000000 | '2024-01-01 10:00'
--= 3 | 2024 | 1 | 9 | 2024-01-01 09:00:00.000000000 | 2024-01-02 00:00:00.000000000 | '2024-01-01 09:59'
--= 4 | 1970 | 4 | 0 | 1969-12-31 23:00:00.000000000 | 1970-01-01 00:00:00.000000000 | '1969-12-31 23:59'
--= 5 | 2000 | 3 | 0 | 2000-02-29 00:00:00.000000000 | 2000-02-29 00:00:00.000000000 | '2000-02-29 00:00'
--= 6 | 2000 | 3 | 0 | 2000-02-29 00:00:00.000000000 | 2000-02-29 00:00:00.000000000 | '2000-02-29 00:00'
--= 7 | 2024 | 6 | 10 | 2024-01-01 10:00:00.000000000 | 2024-01-02 00:00:00.000000000 | '2024-01-01 10:00'
--= 8 | NULL | NULL | NULL | NULL | NULL | NULL
--= 9 | NULL | NULL | NULL | NULL | NULL | NULL

--- timestamp_arithmetic
SELECT id, ts + INTERVAL '1' DAY AS a, dt + INTERVAL '1' MONTH AS b, ts - INTERVAL '0.5' SECOND AS c, TIMESTAMPDIFF(MINUTE, ts, TIMESTAMP '2024-01-01 12:00:00') AS d FROM numbers WHERE id < 4;
--: streaming, stays
--: id INT | a TIMESTAMP(3) | b DATE | c TIMESTAMP(3) | d INT
--= 1 | 2024-01-02 10:00:00.000000000 | 2024-02-01 | 2024-01-01 09:59:59.500000000 | 120
--= 2 | 2024-01-02 10:00:01.000000000 | 2024-03-01 | 2024-01-01 10:00:00.500000000 | 119
--= 3 | 2024-01-02 09:59:59.999000000 | 2024-01-31 | 2024-01-01 09:59:59.499000000 | 120

--- star_and_more
SELECT *, k + 1 AS next_k FROM lefts WHERE k = 1;
--: streaming, stays
--: k INT | v STRING | next_k INT
--= 1 | 'a' | 2

--- table_star
SELECT l.*, l.k AS again FROM lefts AS l WHERE k = 1;
--: streaming, stays
--: k INT | v STRING | again INT
--= 1 | 'a' | 1

--- same_name_twice
SELECT k, k FROM lefts WHERE k = 1;
--: streaming, stays
--: k INT | k0 INT
--= 1 | 1

--- reserved_names
SELECT k AS `select`, v AS `a b` FROM lefts WHERE k = 1;
--: streaming, stays
--: select INT | a b STRING
--= 1 | 'a'

--- case_of_names
SELECT K FROM lefts WHERE k = 1;
--! refused: SqlValidatorException: Column 'K' not found in any table; did you mean 'k'?

--- view_with_names
CREATE TEMPORARY VIEW renamed (a, b) AS SELECT k, v FROM lefts;
SELECT b, a FROM renamed WHERE a = 1;
--: streaming, stays
--: b STRING | a INT
--= 'a' | 1

--- csv_rows
SELECT * FROM lines_of_csv;
--: streaming, stays
--: id INT | name STRING | amount DECIMAL(6, 2) | ok BOOLEAN | ts TIMESTAMP(3) | day_of DATE
--= 1 | 'pen' | 1.50 | true | 2024-01-01 10:00:00.000000000 | 2024-01-01
--= 2 | 'ink, blue' | -3.25 | false | 2024-01-01 10:00:01.500000000 | 2024-02-29
--= 3 | 'say "hi"' | 0.00 | true | 2024-01-01 10:00:02.000000000 | 1969-12-31
--= 4 | 'é' | 9999.99 | false | 2024-01-01 10:00:03.000000000 | 2000-01-01

--- csv_filter
SELECT UPPER(name) AS n, amount * 2 AS a FROM lines_of_csv WHERE ok AND day_of > DATE '2000-01-01';
--: streaming, stays
--: n STRING | a DECIMAL(17, 2)
--= 'PEN' | 3.00

--- integer_division_by_zero
SELECT id / (id - 1) AS x FROM numbers WHERE id < 3;
--! failed: ArithmeticException: / by zero

--- decimal_division_by_zero
SELECT dc / (id - 1) AS x FROM numbers WHERE id < 3;
--! failed: ArithmeticException: Division by zero

--- double_division_by_zero
SELECT d / (id - 1) AS x FROM numbers WHERE id < 3;
--: streaming, stays
--: x DOUBLE
--= 3.5
--= Infinity

--- cast_that_fails
SELECT CAST(s AS INT) AS x FROM numbers WHERE id = 1;
--! failed: NumberFormatException: For input string: 'x'. Invalid character found.

--- try_cast_that_fails
SELECT TRY_CAST(s AS INT) AS x, TRY_CAST(p AS DOUBLE) AS y FROM numbers WHERE id = 1;
--: streaming, stays
--: x INT | y DOUBLE
--= NULL | NULL

--- element_of_two
SELECT ELEMENT(tags) AS x FROM nested WHERE id = 1;
--! failed: TableRuntimeException: Array has more than one element.

--- unknown_column
SELECT nope FROM lefts;
--! refused: SqlValidatorException: Column 'nope' not found in any table

--- unknown_function
SELECT NOPE(k) FROM lefts;
--! refused: SqlValidatorException: No match found for function signature NOPE(<NUMERIC>)

--- wrong_types
SELECT k + v FROM lefts;
--! refused: SqlValidatorException: Cannot apply '+' to arguments of type '<INTEGER> + <VARCHAR(2147483647)>'. Supported form(s): '<NUMERIC> + <NUMERIC>'

--- unnest_rows_with_a_null_left
SELECT id, name, qty FROM nested LEFT JOIN UNNEST(items) AS t (name, qty) ON TRUE;
--: streaming, stays
--: id INT | name STRING | qty INT
--= 1 | 'ink' | NULL
--= 1 | 'pen' | 2
--= 2 | NULL | NULL
--= 3 | NULL | NULL
--= 4 | 'pad' | 1

--- is_distinct_of_booleans
SELECT id FROM numbers WHERE b IS NOT DISTINCT FROM (id = 1) OR id = 8;
--: streaming, stays
--: id INT
--= 1
--= 2
--= 5
--= 6
--= 8

--- is_distinct_and_more
SELECT id FROM numbers WHERE b IS DISTINCT FROM TRUE AND id < 4;
--: streaming, stays
--: id INT
--= 2
--= 3

--- is_distinct_of_a_sum
SELECT id FROM numbers WHERE id IS NOT DISTINCT FROM ti + 0 OR id = 10;
--: streaming, stays
--: id INT
--= 1
--= 10
--= 2

--- float_and_literal
SELECT f + 0.1 AS a, f * 0.1 AS b, f > 0.1 AS h, f + dc AS j FROM numbers WHERE id < 6;
--: streaming, stays
--: a DOUBLE | b DOUBLE | h BOOLEAN | j DOUBLE
--= -0.4 | -0.05 | false | -0.8
--= 0.20000000149011612 | 0.010000000149011612 | true | 0.11000000149011611
--= 1.0000000150474662E30 | 1.0000000150474662E29 | true | 1.0000000150474662E30
--= 1.6 | 0.15000000000000002 | true | 11.75
--= 2.6 | 0.25 | true | 23.0


--- unnest_only_null_rows_left
SELECT id, name, qty FROM (VALUES (1, ARRAY[CAST(NULL AS ROW<a STRING, b INT>)]), (2, ARRAY[CAST(ROW('x', 2) AS ROW<a STRING, b INT>)])) AS v (id, items)
LEFT JOIN UNNEST(items) AS t (name, qty) ON TRUE;
--: streaming, stays
--: id INT NOT NULL | name STRING | qty INT
--= 1 | NULL | NULL
--= 2 | 'x' | 2

--- unnest_named_by_its_table
SELECT id, t FROM nested CROSS JOIN UNNEST(tags) AS t WHERE t = 'a';
--: streaming, stays
--: id INT | t STRING
--= 1 | 'a'
--= 1 | 'a'


--- fields_beside_computed_columns
SELECT id, y, r.x, r.y AS z FROM (SELECT id, UPPER(r.y) AS y, r, tags FROM nested);
--: streaming, stays
--: id INT | y STRING | x INT | z STRING
--= 1 | 'ONE' | 1 | 'one'
--= 2 | 'TWO' | NULL | 'two'
--= 3 | NULL | NULL | NULL
--= 4 | NULL | 4 | NULL

--- fields_beside_renamed_columns
SELECT id, k.r.x AS x, n FROM (SELECT CAST(id AS STRING) AS id, r, id AS n FROM nested) AS k WHERE id <> '2';
--: streaming, stays
--: id STRING | x INT | n INT
--= '1' | 1 | 1
--= '3' | NULL | 3
--= '4' | 4 | 4


--- rows_cast_by_place
SELECT id, q.b, q.a FROM (SELECT id, CAST(r AS ROW<b STRING, a STRING>) AS q FROM nested);
--: streaming, stays
--: id INT | b STRING | a STRING
--= 1 | '1' | 'one'
--= 2 | NULL | 'two'
--= 3 | NULL | NULL
--= 4 | '4' | NULL

--- constructed_rows_cast
SELECT id, CAST(ROW(r.y, id) AS ROW<y STRING, n BIGINT>) AS q FROM nested;
--: streaming, stays
--: id INT | q ROW<`y` STRING, `n` BIGINT> NOT NULL
--= 1 | +I[one, 1]
--= 2 | +I[two, 2]
--= 3 | +I[null, 3]
--= 4 | +I[null, 4]

--- all_fields_of_a_row
SELECT nested.r.* FROM nested;
--: streaming, stays
--: x INT | y STRING
--= 1 | 'one'
--= 4 | NULL
--= NULL | 'two'
--= NULL | NULL

--- all_fields_of_a_row_of_an_alias
SELECT id, t.r.* FROM nested AS t WHERE id < 4;
--: streaming, stays
--: id INT | x INT | y STRING
--= 1 | 1 | 'one'
--= 2 | NULL | 'two'
--= 3 | NULL | NULL

--- all_fields_of_a_column
SELECT r.*, id FROM nested;
--: streaming, stays
--: x INT | y STRING | id INT
--= 1 | 'one' | 1
--= 4 | NULL | 4
--= NULL | 'two' | 2
--= NULL | NULL | 3

--- all_fields_of_a_row_grouped
SELECT q.r.x, COUNT(*) AS n FROM (SELECT r, id FROM nested) AS q GROUP BY q.r.x;
--: streaming, updates
--: x INT | n BIGINT NOT NULL
--= 1 | 1
--= 4 | 1
--= NULL | 2

--- all_fields_of_deeper_rows
SELECT t.o.i.* FROM (SELECT CAST(ROW(ROW(id, 'a'), 1) AS ROW<i ROW<p INT, q STRING>, k INT>) AS o FROM nested) AS t;
--: streaming, stays
--: p INT | q STRING
--= 1 | 'a'
--= 2 | 'a'
--= 3 | 'a'
--= 4 | 'a'

--- all_fields_beside_columns_of_their_names
SELECT r.*, id AS x, t.r.x AS z FROM nested AS t;
--: streaming, stays
--: x INT | y STRING | x0 INT | z INT
--= 1 | 'one' | 1 | 1
--= 4 | NULL | 4 | 4
--= NULL | 'two' | 2 | NULL
--= NULL | NULL | 3 | NULL

--- array_type_after_its_element
SELECT id, CAST(tags AS STRING ARRAY) AS t, CAST(ARRAY[id] AS BIGINT ARRAY) AS n FROM nested;
--: streaming, stays
--: id INT | t ARRAY<STRING NOT NULL> | n ARRAY<BIGINT NOT NULL> NOT NULL
--= 1 | ['a', 'b', 'a'] | [1]
--= 2 | [] | [2]
--= 3 | NULL | [3]
--= 4 | [NULL, 'c'] | [4]

--- all_fields_of_a_row_of_a_named_query
WITH a AS (SELECT t.r.*, id FROM nested AS t), b AS (SELECT CAST(ROW(id, y) AS ROW<p INT, q STRING>) AS w FROM a) SELECT b.w.*, p.w.q AS z FROM b, (SELECT * FROM b) AS p WHERE b.w.p = p.w.p;
--: streaming, stays
--: p INT | q STRING | z STRING
--= 1 | 'one' | 'one'
--= 2 | 'two' | 'two'
--= 3 | NULL | NULL
--= 4 | NULL | NULL

