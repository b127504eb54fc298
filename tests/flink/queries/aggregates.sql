-- Aggregates without windows.

--- count
SELECT COUNT(*) AS n FROM orders;
--: streaming, updates
--: n BIGINT NOT NULL
--= 18

--- counts_by_key
SELECT customer, COUNT(*) AS n, COUNT(qty) AS m, COUNT(DISTINCT item) AS items FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | n BIGINT NOT NULL | m BIGINT NOT NULL | items BIGINT NOT NULL
--= 'ann' | 7 | 7 | 5
--= 'bob' | 5 | 4 | 2
--= 'cid' | 3 | 3 | 2
--= 'dot' | 2 | 2 | 2
--= NULL | 1 | 1 | 1

--- counts_of_several_columns
SELECT COUNT(customer, item) AS n, COUNT(DISTINCT customer, item) AS m FROM orders;
--! refused: TableException: We now only support the count of one field.

--- count_by_no_key_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT COUNT(*) AS n, SUM(i) AS s, AVG(i) AS a, MIN(s) AS lo, MAX(d) AS hi FROM nothing;
--: streaming, updates
--: n BIGINT NOT NULL | s INT | a INT | lo STRING | hi DOUBLE

--- count_by_key_of_nothing
SELECT g, COUNT(*) AS n FROM nothing GROUP BY g;
--: streaming, updates
--: g STRING | n BIGINT NOT NULL

--- count_where_nothing_is_left
SET 'execution.runtime-mode' = 'streaming';
SELECT COUNT(*) AS n, SUM(qty) AS q FROM orders WHERE qty > 1000;
--: streaming, updates
--: n BIGINT NOT NULL | q INT

--- sums
SELECT g, SUM(ti) AS ti, SUM(si) AS si, SUM(i) AS i, SUM(f) AS f, SUM(d) AS d, SUM(dc) AS dc FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | ti TINYINT | si SMALLINT | i INT | f FLOAT | d DOUBLE | dc DECIMAL(38, 2)
--= 'a' | 0 | 0 | 0 | 3.5 | 4.5 | 30.45
--= 'b' | 127 | 32767 | 2147483647 | 1.0E30 | 1.0E300 | 99999999.99
--= 'c' | -2 | -2 | -2 | 0.3 | 0.30000000000000004 | 0.03
--= 'z' | NULL | NULL | NULL | NULL | NULL | NULL
--= NULL | 11 | 100 | 500 | 5.5 | 5.5 | 11.05

--- sum_of_bigint
SELECT g, SUM(l) AS l FROM numbers WHERE g <> 'b' GROUP BY g;
--: streaming, updates
--: g STRING | l BIGINT
--= 'a' | 0
--= 'c' | 3
--= 'z' | NULL

--- sum_overflow_of_int
SELECT SUM(i) AS i FROM numbers WHERE id IN (5, 6);
--: streaming, updates
--: i INT
--= -2

--- sum_overflow_of_bigint
SELECT SUM(l) AS l FROM numbers WHERE id IN (1, 4);
--: streaming, updates
--: l BIGINT
--= -9223372036854774809

--- averages
SELECT g, AVG(ti) AS ti, AVG(si) AS si, AVG(i) AS i, AVG(f) AS f, AVG(d) AS d, AVG(dc) AS dc FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | ti TINYINT | si SMALLINT | i INT | f FLOAT | d DOUBLE | dc DECIMAL(38, 6)
--= 'a' | 0 | 0 | 0 | 1.1666666 | 1.5 | 10.150000
--= 'b' | 127 | 32767 | 2147483647 | 1.0E30 | 1.0E300 | 99999999.990000
--= 'c' | 127 | 32767 | 2147483647 | 0.15 | 0.15000000000000002 | 0.015000
--= 'z' | NULL | NULL | NULL | NULL | NULL | NULL
--= NULL | 5 | 50 | 500 | 5.5 | 2.75 | 5.525000

--- average_of_bigint
SELECT g, AVG(l) AS l FROM numbers WHERE g <> 'b' GROUP BY g;
--: streaming, updates
--: g STRING | l BIGINT
--= 'a' | 0
--= 'c' | 1
--= 'z' | NULL

--- average_of_negative
SELECT AVG(i) AS i, AVG(ti) AS ti FROM (VALUES (-1, CAST(-3 AS TINYINT)), (-2, CAST(-4 AS TINYINT))) AS t (i, ti);
--: streaming, updates
--: i INT | ti TINYINT
--= -1 | -3

--- minima
SELECT g, MIN(ti) AS ti, MIN(i) AS i, MIN(f) AS f, MIN(d) AS d, MIN(dc) AS dc, MIN(s) AS s, MIN(b) AS b, MIN(dt) AS dt, MIN(ts) AS ts, MIN(p) AS p FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | ti TINYINT | i INT | f FLOAT | d DOUBLE | dc DECIMAL(10, 2) | s STRING | b BOOLEAN | dt DATE | ts TIMESTAMP(3) | p VARCHAR(5)
--= 'a' | -3 | -300 | -0.5 | -1.5 | -0.30 | 'x' | false | 2023-12-31 | 2024-01-01 09:59:59.999000000 | 'one'
--= 'b' | 127 | 2147483647 | 1.0E30 | 1.0E300 | 99999999.99 | 'Zed' | true | 1969-12-31 | 1969-12-31 23:59:59.500000000 | 'p'
--= 'c' | 127 | 2147483647 | 0.1 | 0.1 | 0.01 | '' | false | 2000-02-29 | 2000-02-29 00:00:00.000000000 | 'a'
--= 'z' | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL
--= NULL | 5 | 500 | 5.5 | -0.0 | 5.50 | 'n' | true | 2024-01-05 | 2024-01-01 10:00:05.000000000 | 'c'

--- maxima
SELECT g, MAX(si) AS si, MAX(l) AS l, MAX(f) AS f, MAX(d) AS d, MAX(dc) AS dc, MAX(s) AS s, MAX(b) AS b, MAX(dt) AS dt, MAX(ts) AS ts, MAX(p) AS p FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | si SMALLINT | l BIGINT | f FLOAT | d DOUBLE | dc DECIMAL(10, 2) | s STRING | b BOOLEAN | dt DATE | ts TIMESTAMP(3) | p VARCHAR(5)
--= 'a' | 20 | 2000 | 2.5 | 3.5 | 20.50 | 'y' | true | 2024-02-01 | 2024-01-01 10:00:01.000000000 | 'two'
--= 'b' | 32767 | 9223372036854775807 | 1.0E30 | 1.0E300 | 99999999.99 | 'Zed' | true | 1969-12-31 | 1969-12-31 23:59:59.500000000 | 'p'
--= 'c' | 32767 | 2 | 0.2 | 0.2 | 0.02 | 'é' | false | 2000-02-29 | 2000-02-29 00:00:00.000000000 | 'b'
--= 'z' | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL
--= NULL | 50 | 5001 | 5.5 | 5.5 | 5.55 | 'n' | true | 2024-01-05 | 2024-01-01 10:00:05.000000000 | 'd'

--- deviations
SELECT g, STDDEV_POP(d) AS a, STDDEV_SAMP(d) AS b, VAR_POP(d) AS c, VAR_SAMP(d) AS e FROM numbers WHERE g <> 'b' GROUP BY g;
--: streaming, updates
--: g STRING | a DOUBLE | b DOUBLE | c DOUBLE | e DOUBLE
--= 'a' | 2.160246899469287 | 2.6457513110645907 | 4.666666666666667 | 7.0
--= 'c' | 0.049999999999999996 | 0.07071067811865475 | 0.0024999999999999996 | 0.004999999999999999
--= 'z' | NULL | NULL | NULL | NULL

--- deviations_of_int
SELECT g, STDDEV_POP(ti) AS a, STDDEV_SAMP(ti) AS b, VAR_POP(ti) AS c, VAR_SAMP(ti) AS e, STDDEV(ti) AS f, VARIANCE(ti) AS h FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | a TINYINT | b TINYINT | c TINYINT | e TINYINT | f TINYINT | h TINYINT
--= 'a' | 2 | 2 | 4 | 7 | 2 | 7
--= 'b' | 0 | NULL | 0 | NULL | NULL | NULL
--= 'c' | 0 | 0 | 0 | 0 | 0 | 0
--= 'z' | NULL | NULL | NULL | NULL | NULL | NULL
--= NULL | 0 | 0 | 0 | 0 | 0 | 0

--- deviations_of_decimal
SELECT STDDEV_POP(dc) AS a, VAR_SAMP(dc) AS b FROM numbers WHERE g = 'a';
--: streaming, updates
--: a DECIMAL(38, 6) | b DECIMAL(38, 6)
--= 8.491859 | 108.167500

--- deviation_of_one_row
SELECT STDDEV_POP(d) AS a, STDDEV_SAMP(d) AS b, VAR_POP(d) AS c, VAR_SAMP(d) AS e FROM numbers WHERE id = 1;
--: streaming, updates
--: a DOUBLE | b DOUBLE | c DOUBLE | e DOUBLE
--= 0.0 | NULL | 0.0 | NULL

--- filters
SELECT customer, COUNT(*) FILTER (WHERE qty > 2) AS a, SUM(qty) FILTER (WHERE item = 'pen') AS b, AVG(price) FILTER (WHERE FALSE) AS c FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a BIGINT NOT NULL | b INT | c DECIMAL(38, 6)
--= 'ann' | 1 | 6 | NULL
--= 'bob' | 2 | NULL | NULL
--= 'cid' | 2 | 1 | NULL
--= 'dot' | 1 | NULL | NULL
--= NULL | 1 | 3 | NULL

--- filter_that_is_null
SELECT COUNT(*) FILTER (WHERE qty > 2 OR CAST(NULL AS BOOLEAN)) AS a, COUNT(*) FILTER (WHERE CAST(NULL AS BOOLEAN)) AS b FROM orders;
--: streaming, updates
--: a BIGINT NOT NULL | b BIGINT NOT NULL
--= 7 | 0

--- distinct_aggregates
SELECT customer, SUM(DISTINCT qty) AS s, AVG(DISTINCT price) AS a, COUNT(DISTINCT price) AS c, MIN(DISTINCT item) AS m FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | s INT | a DECIMAL(38, 6) | c BIGINT NOT NULL | m STRING
--= 'ann' | 8 | 4.400000 | 6 | ''
--= 'bob' | 13 | 5.550000 | 4 | 'ink'
--= 'cid' | 14 | 5.833333 | 3 | 'ink'
--= 'dot' | 3 | 56.165000 | 2 | 'cap'
--= NULL | 3 | 1.500000 | 1 | 'pen'

--- distinct_with_filter
SELECT COUNT(DISTINCT customer) FILTER (WHERE qty > 2) AS a, COUNT(DISTINCT customer) AS b, SUM(DISTINCT qty) FILTER (WHERE qty < 0) AS c FROM orders;
--: streaming, updates
--: a BIGINT NOT NULL | b BIGINT NOT NULL | c INT
--= 4 | 4 | -3

--- having
SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING COUNT(*) > 2 AND MAX(price) < 10;
--: streaming, updates
--: customer STRING | n BIGINT NOT NULL
--= 'bob' | 5
--= 'cid' | 3

--- having_without_group_by
SET 'execution.runtime-mode' = 'streaming';
SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) > 100;
--: streaming, updates
--: n BIGINT NOT NULL

--- group_by_expression
SELECT qty / 2 AS half, COUNT(*) AS n FROM orders GROUP BY qty / 2;
--: streaming, updates
--: half INT | n BIGINT NOT NULL
--= -1 | 1
--= 0 | 5
--= 1 | 6
--= 2 | 2
--= 3 | 2
--= 4 | 1
--= NULL | 1

--- group_by_case
SELECT CASE WHEN qty > 2 THEN 'many' ELSE 'few' END AS size, SUM(qty) AS q FROM orders GROUP BY CASE WHEN qty > 2 THEN 'many' ELSE 'few' END;
--: streaming, updates
--: size VARCHAR(4) NOT NULL | q INT
--= 'few' | 9
--= 'many' | 37

--- group_by_alias
SELECT UPPER(item) AS what, COUNT(*) AS n FROM orders GROUP BY what;
--! refused: SqlValidatorException: Column 'what' not found in any table

--- group_by_position
SELECT item, COUNT(*) AS n FROM orders GROUP BY 1;
--! refused: SqlValidatorException: Expression 'item' is not being grouped

--- group_by_without_aggregates
SELECT customer, item FROM orders GROUP BY customer, item;
--: streaming, updates
--: customer STRING | item STRING
--= 'ann' | ''
--= 'ann' | 'cap'
--= 'ann' | 'ink'
--= 'ann' | 'pad'
--= 'ann' | 'pen'
--= 'bob' | 'ink'
--= 'bob' | 'pad'
--= 'bob' | NULL
--= 'cid' | 'ink'
--= 'cid' | 'pen'
--= 'dot' | 'cap'
--= 'dot' | 'pad'
--= NULL | 'pen'

--- group_by_several_types
SELECT b, dt, f, COUNT(*) AS n FROM numbers GROUP BY b, dt, f;
--: streaming, updates
--: b BOOLEAN | dt DATE | f FLOAT | n BIGINT NOT NULL
--= NULL | 2023-12-31 | -0.5 | 1
--= NULL | NULL | NULL | 2
--= false | 2000-02-29 | 0.1 | 1
--= false | 2000-02-29 | 0.2 | 1
--= false | 2024-02-01 | 2.5 | 1
--= true | 1969-12-31 | 1.0E30 | 1
--= true | 2024-01-01 | 1.5 | 1
--= true | 2024-01-05 | 5.5 | 1
--= true | NULL | NULL | 1

--- group_by_double_zero
SELECT d, COUNT(*) AS n FROM (VALUES (CAST(0.0 AS DOUBLE)), (-CAST(0.0 AS DOUBLE))) AS t (d) GROUP BY d;
--: streaming, updates
--: d DOUBLE NOT NULL | n BIGINT NOT NULL
--= 0.0 | 2

--- aggregate_of_an_expression
SELECT SUM(qty * price) AS total, MAX(CHAR_LENGTH(item)) AS longest, COUNT(NULLIF(item, 'pen')) AS n FROM orders;
--: streaming, updates
--: total DECIMAL(38, 2) | longest INT | n BIGINT NOT NULL
--= -15.73 | 3 | 12

--- expression_of_aggregates
SELECT customer, SUM(qty) * 2 + COUNT(*) AS x, SUM(price) / COUNT(*) AS y, COALESCE(MAX(weight), 0) AS z FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | x BIGINT | y DECIMAL(38, 6) | z DOUBLE NOT NULL
--= 'ann' | 33 | 4.021429 | 3.25
--= 'bob' | 31 | 4.440000 | 2.5
--= 'cid' | 31 | 5.833333 | 1.25
--= 'dot' | 8 | 56.165000 | 1.0E10
--= NULL | 7 | 1.500000 | 0.5

--- select_distinct
SELECT DISTINCT customer, item FROM orders;
--: streaming, updates
--: customer STRING | item STRING
--= 'ann' | ''
--= 'ann' | 'cap'
--= 'ann' | 'ink'
--= 'ann' | 'pad'
--= 'ann' | 'pen'
--= 'bob' | 'ink'
--= 'bob' | 'pad'
--= 'bob' | NULL
--= 'cid' | 'ink'
--= 'cid' | 'pen'
--= 'dot' | 'cap'
--= 'dot' | 'pad'
--= NULL | 'pen'

--- select_distinct_of_an_expression
SELECT DISTINCT qty > 2 AS many FROM orders;
--: streaming, updates
--: many BOOLEAN
--= NULL
--= false
--= true

--- group_of_groups
SELECT n, COUNT(*) AS customers FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) GROUP BY n;
--: streaming, updates
--: n BIGINT NOT NULL | customers BIGINT NOT NULL
--= 1 | 1
--= 2 | 1
--= 3 | 1
--= 5 | 1
--= 7 | 1

--- minimum_of_updated_rows
SELECT MIN(n) AS lo, MAX(n) AS hi, SUM(n) AS s, AVG(n) AS a FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer);
--: streaming, updates
--: lo BIGINT | hi BIGINT | s BIGINT | a BIGINT
--= 1 | 7 | 18 | 3

--- distinct_of_updated_rows
SELECT COUNT(DISTINCT n) AS d FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer);
--: streaming, updates
--: d BIGINT NOT NULL
--= 5

--- grouping_sets
SELECT customer, item, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((customer, item), (customer), ());
--: streaming, updates
--: customer STRING | item STRING | n BIGINT NOT NULL
--= 'ann' | '' | 1
--= 'ann' | 'cap' | 1
--= 'ann' | 'ink' | 1
--= 'ann' | 'pad' | 1
--= 'ann' | 'pen' | 3
--= 'ann' | NULL | 7
--= 'bob' | 'ink' | 2
--= 'bob' | 'pad' | 2
--= 'bob' | NULL | 1
--= 'bob' | NULL | 5
--= 'cid' | 'ink' | 2
--= 'cid' | 'pen' | 1
--= 'cid' | NULL | 3
--= 'dot' | 'cap' | 1
--= 'dot' | 'pad' | 1
--= 'dot' | NULL | 2
--= NULL | 'pen' | 1
--= NULL | NULL | 1
--= NULL | NULL | 18

--- rollup
SELECT customer, item, SUM(qty) AS q FROM orders GROUP BY ROLLUP (customer, item);
--: streaming, updates
--: customer STRING | item STRING | q INT
--= 'ann' | '' | 0
--= 'ann' | 'cap' | 1
--= 'ann' | 'ink' | 1
--= 'ann' | 'pad' | 5
--= 'ann' | 'pen' | 6
--= 'ann' | NULL | 13
--= 'bob' | 'ink' | 3
--= 'bob' | 'pad' | 10
--= 'bob' | NULL | 13
--= 'bob' | NULL | NULL
--= 'cid' | 'ink' | 13
--= 'cid' | 'pen' | 1
--= 'cid' | NULL | 14
--= 'dot' | 'cap' | 6
--= 'dot' | 'pad' | -3
--= 'dot' | NULL | 3
--= NULL | 'pen' | 3
--= NULL | NULL | 3
--= NULL | NULL | 46

--- cube
SELECT customer, item, COUNT(*) AS n FROM orders GROUP BY CUBE (customer, item);
--: streaming, updates
--: customer STRING | item STRING | n BIGINT NOT NULL
--= 'ann' | '' | 1
--= 'ann' | 'cap' | 1
--= 'ann' | 'ink' | 1
--= 'ann' | 'pad' | 1
--= 'ann' | 'pen' | 3
--= 'ann' | NULL | 7
--= 'bob' | 'ink' | 2
--= 'bob' | 'pad' | 2
--= 'bob' | NULL | 1
--= 'bob' | NULL | 5
--= 'cid' | 'ink' | 2
--= 'cid' | 'pen' | 1
--= 'cid' | NULL | 3
--= 'dot' | 'cap' | 1
--= 'dot' | 'pad' | 1
--= 'dot' | NULL | 2
--= NULL | '' | 1
--= NULL | 'cap' | 2
--= NULL | 'ink' | 5
--= NULL | 'pad' | 4
--= NULL | 'pen' | 1
--= NULL | 'pen' | 5
--= NULL | NULL | 1
--= NULL | NULL | 1
--= NULL | NULL | 18

--- grouping_functions
SELECT customer, item, GROUPING(customer) AS a, GROUPING(item) AS b, GROUPING_ID(customer, item) AS c, GROUPING(customer, item) AS d, COUNT(*) AS n
FROM orders GROUP BY CUBE (customer, item);
--: streaming, updates
--: customer STRING | item STRING | a BIGINT NOT NULL | b BIGINT NOT NULL | c BIGINT NOT NULL | d BIGINT NOT NULL | n BIGINT NOT NULL
--= 'ann' | '' | 0 | 0 | 0 | 0 | 1
--= 'ann' | 'cap' | 0 | 0 | 0 | 0 | 1
--= 'ann' | 'ink' | 0 | 0 | 0 | 0 | 1
--= 'ann' | 'pad' | 0 | 0 | 0 | 0 | 1
--= 'ann' | 'pen' | 0 | 0 | 0 | 0 | 3
--= 'ann' | NULL | 0 | 1 | 1 | 1 | 7
--= 'bob' | 'ink' | 0 | 0 | 0 | 0 | 2
--= 'bob' | 'pad' | 0 | 0 | 0 | 0 | 2
--= 'bob' | NULL | 0 | 0 | 0 | 0 | 1
--= 'bob' | NULL | 0 | 1 | 1 | 1 | 5
--= 'cid' | 'ink' | 0 | 0 | 0 | 0 | 2
--= 'cid' | 'pen' | 0 | 0 | 0 | 0 | 1
--= 'cid' | NULL | 0 | 1 | 1 | 1 | 3
--= 'dot' | 'cap' | 0 | 0 | 0 | 0 | 1
--= 'dot' | 'pad' | 0 | 0 | 0 | 0 | 1
--= 'dot' | NULL | 0 | 1 | 1 | 1 | 2
--= NULL | '' | 1 | 0 | 2 | 2 | 1
--= NULL | 'cap' | 1 | 0 | 2 | 2 | 2
--= NULL | 'ink' | 1 | 0 | 2 | 2 | 5
--= NULL | 'pad' | 1 | 0 | 2 | 2 | 4
--= NULL | 'pen' | 0 | 0 | 0 | 0 | 1
--= NULL | 'pen' | 1 | 0 | 2 | 2 | 5
--= NULL | NULL | 0 | 1 | 1 | 1 | 1
--= NULL | NULL | 1 | 0 | 2 | 2 | 1
--= NULL | NULL | 1 | 1 | 3 | 3 | 18

--- group_id
SELECT item, GROUP_ID() AS g, COUNT(*) AS n FROM orders GROUP BY ROLLUP (item);
--: streaming, updates
--: item STRING | g BIGINT NOT NULL | n BIGINT NOT NULL
--= '' | 0 | 1
--= 'cap' | 0 | 2
--= 'ink' | 0 | 5
--= 'pad' | 0 | 4
--= 'pen' | 0 | 5
--= NULL | 0 | 1
--= NULL | 0 | 18

--- grouping_sets_of_nothing
SELECT g, COUNT(*) AS n FROM nothing GROUP BY GROUPING SETS ((g), ());
--: streaming, updates
--: g STRING | n BIGINT NOT NULL

--- grouping_sets_having
SELECT customer, COUNT(*) AS n FROM orders GROUP BY ROLLUP (customer) HAVING GROUPING(customer) = 1 OR COUNT(*) > 4;
--: streaming, updates
--: customer STRING | n BIGINT NOT NULL
--= 'ann' | 7
--= 'bob' | 5
--= NULL | 18

--- grouping_sets_with_distinct
SELECT customer, COUNT(DISTINCT item) AS items FROM orders GROUP BY ROLLUP (customer);
--: streaming, updates
--: customer STRING | items BIGINT NOT NULL
--= 'ann' | 5
--= 'bob' | 2
--= 'cid' | 2
--= 'dot' | 2
--= NULL | 1
--= NULL | 5

--- two_groupings
SELECT customer, item, COUNT(*) AS n FROM orders GROUP BY customer, ROLLUP (item);
--: streaming, updates
--: customer STRING | item STRING | n BIGINT NOT NULL
--= 'ann' | '' | 1
--= 'ann' | 'cap' | 1
--= 'ann' | 'ink' | 1
--= 'ann' | 'pad' | 1
--= 'ann' | 'pen' | 3
--= 'ann' | NULL | 7
--= 'bob' | 'ink' | 2
--= 'bob' | 'pad' | 2
--= 'bob' | NULL | 1
--= 'bob' | NULL | 5
--= 'cid' | 'ink' | 2
--= 'cid' | 'pen' | 1
--= 'cid' | NULL | 3
--= 'dot' | 'cap' | 1
--= 'dot' | 'pad' | 1
--= 'dot' | NULL | 2
--= NULL | 'pen' | 1
--= NULL | NULL | 1

--- text_list
SELECT customer, LISTAGG(item) AS a, LISTAGG(item, '; ') AS b FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a STRING | b STRING
--= 'ann' | 'pen,pad,pen,pen,,ink,cap' | 'pen; pad; pen; pen; ; ink; cap'
--= 'bob' | 'ink,pad,ink,pad' | 'ink; pad; ink; pad'
--= 'cid' | 'ink,pen,ink' | 'ink; pen; ink'
--= 'dot' | 'pad,cap' | 'pad; cap'
--= NULL | 'pen' | 'pen'

--- text_list_distinct
SELECT customer, LISTAGG(DISTINCT item) AS a FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a STRING
--= 'ann' | 'pen,pad,,ink,cap'
--= 'bob' | 'ink,pad'
--= 'cid' | 'ink,pen'
--= 'dot' | 'pad,cap'
--= NULL | 'pen'

--- text_list_with_filter
SELECT customer, LISTAGG(item, '+') FILTER (WHERE qty > 1) AS a FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a STRING
--= 'ann' | 'pen+pad+pen+pen'
--= 'bob' | 'pad+ink+pad'
--= 'cid' | 'ink+ink'
--= 'dot' | 'cap'
--= NULL | 'pen'

--- text_list_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT LISTAGG(s) AS a FROM nothing;
--: streaming, updates
--: a STRING

--- array_of_values
SELECT customer, ARRAY_AGG(qty) AS a FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a ARRAY<INT>
--= 'ann' | [2, 5, 2, 2, 0, 1, 1]
--= 'bob' | [1, NULL, 7, 2, 3]
--= 'cid' | [4, 1, 9]
--= 'dot' | [-3, 6]
--= NULL | [3]

--- array_of_distinct_values
SELECT customer, ARRAY_AGG(DISTINCT item) AS a FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a ARRAY<STRING>
--= 'ann' | ['pen', 'pad', '', 'ink', 'cap']
--= 'bob' | ['ink', NULL, 'pad']
--= 'cid' | ['ink', 'pen']
--= 'dot' | ['pad', 'cap']
--= NULL | ['pen']

--- array_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT ARRAY_AGG(i) AS a FROM nothing;
--: streaming, updates
--: a ARRAY<INT>

--- first_and_last
SELECT customer, FIRST_VALUE(qty) AS a, LAST_VALUE(qty) AS b, FIRST_VALUE(item) AS c, LAST_VALUE(price) AS d FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | a INT | b INT | c STRING | d DECIMAL(10, 2)
--= 'ann' | 2 | 1 | 'pen' | 12.00
--= 'bob' | 1 | 3 | 'ink' | 3.15
--= 'cid' | 4 | 9 | 'ink' | 7.90
--= 'dot' | -3 | 6 | 'pad' | 12.34
--= NULL | 3 | 3 | 'pen' | 1.50

--- first_of_only_null
SELECT g, FIRST_VALUE(s) AS a, LAST_VALUE(i) AS b FROM numbers GROUP BY g;
--: streaming, updates
--: g STRING | a STRING | b INT
--= 'a' | 'x' | -300
--= 'b' | 'Zed' | 2147483647
--= 'c' | '' | 2147483647
--= 'z' | NULL | NULL
--= NULL | 'n' | 500

--- last_of_updated_rows
SELECT LAST_VALUE(n) AS a FROM (SELECT COUNT(*) AS n FROM orders);
--: streaming, updates
--: a BIGINT
--= 18

--- collect
SELECT customer, COLLECT(qty) AS a FROM orders WHERE customer = 'bob' GROUP BY customer;
--: streaming, updates
--: customer STRING | a MULTISET<INT> NOT NULL
--= 'bob' | {1=1, 2=1, 3=1, 7=1}

--- json_array
SELECT JSON_ARRAYAGG(item) AS a FROM orders WHERE customer = 'bob';
--: streaming, updates
--: a VARCHAR(2000) NOT NULL
--= '["ink","pad","ink","pad"]'

--- any_and_every
SELECT BOOL_AND(b) AS a, BOOL_OR(b) AS c FROM numbers;
--! refused: SqlValidatorException: No match found for function signature BOOL_AND(<BOOLEAN>)

--- percentiles
SELECT PERCENTILE(d, 0.5) AS a, PERCENTILE(i, 0.25) AS b FROM numbers WHERE g = 'a';
--: streaming, updates
--: a DOUBLE | b DOUBLE
--= 2.5 | -100.0

--- approximate_count
SELECT APPROX_COUNT_DISTINCT(customer) AS n FROM orders;
--: batch
--: n BIGINT NOT NULL
--= 4

--- single_value
SELECT SINGLE_VALUE(item) AS a FROM orders WHERE id = 1;
--: streaming, updates
--: a STRING
--= 'pen'

--- sum_zero
SELECT SUM(CAST(NULL AS INT)) AS a, COUNT(CAST(NULL AS INT)) AS b, AVG(CAST(NULL AS DOUBLE)) AS c FROM orders;
--: streaming, updates
--: a INT | b BIGINT NOT NULL | c DOUBLE
--= NULL | 0 | NULL

--- aggregate_of_a_constant
SELECT SUM(1) AS a, MAX('x') AS b, COUNT(1) AS c, AVG(2) AS d, SUM(1.5) AS e FROM orders;
--: streaming, updates
--: a INT | b CHAR(1) | c BIGINT NOT NULL | d INT | e DECIMAL(38, 1)
--= 18 | 'x' | 18 | 2 | 27.0

--- maximum_of_decimals_of_a_sum
SELECT SUM(price) AS a, SUM(price) * 1.1 AS b, AVG(price) * 2 AS c FROM orders;
--: streaming, updates
--: a DECIMAL(38, 2) | b DECIMAL(38, 3) | c DECIMAL(38, 6)
--= 181.68 | 199.848 | 21.374118

--- count_of_true
SELECT COUNT(b) AS a, SUM(CASE WHEN b THEN 1 ELSE 0 END) AS c FROM numbers;
--: streaming, updates
--: a BIGINT NOT NULL | c INT
--= 7 | 4

--- count_by_no_key_of_nothing_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT COUNT(*) AS n, SUM(i) AS s, AVG(i) AS a, MIN(s) AS lo, MAX(d) AS hi, LISTAGG(s) AS l FROM nothing;
--: batch
--: n BIGINT NOT NULL | s INT | a INT | lo STRING | hi DOUBLE | l STRING
--= 0 | NULL | NULL | NULL | NULL | NULL

--- array_of_nothing_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT ARRAY_AGG(i) AS a FROM nothing;
--: batch
--: a ARRAY<INT>
--= NULL

--- grouping_sets_of_nothing_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT g, COUNT(*) AS n FROM nothing GROUP BY GROUPING SETS ((g), ());
--: batch
--: g STRING | n BIGINT NOT NULL

--- having_without_group_by_of_nothing_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT COUNT(*) AS n FROM nothing HAVING COUNT(*) = 0;
--: batch
--: n BIGINT NOT NULL
--= 0

--- count_distinct_of_two_columns
SELECT COUNT(DISTINCT customer, qty) AS n FROM orders;
--! refused: TableException: We now only support the count of one field.

--- count_of_two_columns
SELECT COUNT(customer, qty) AS n FROM orders;
--! refused: TableException: We now only support the count of one field.

--- count_distinct_of_two_columns_by_key
SELECT customer, COUNT(DISTINCT id, qty) AS n, COUNT(DISTINCT qty) AS m FROM orders GROUP BY customer;
--! refused: TableException: We now only support the count of one field.

--- distinct_on
SELECT DISTINCT ON (customer) id FROM orders;
--! refused: ParseException: Incorrect syntax near the keyword 'ON' at line 1, column 17.

--- listagg_within_group
SELECT LISTAGG(customer) WITHIN GROUP (ORDER BY id) AS l FROM orders;
--! refused: SqlValidatorException: Aggregate expression 'LISTAGG' must not contain a WITHIN GROUP clause

--- json_objects_of_groups
SELECT JSON_OBJECTAGG(KEY customer VALUE qty) AS j FROM orders WHERE customer IS NOT NULL AND ts < TIMESTAMP '2024-01-01 10:00:40';
--! failed: TableException: Key 'ann' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure that keys are unique.

--- json_arrays_of_groups
SELECT customer, JSON_ARRAYAGG(id) AS j FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | j VARCHAR(2000) NOT NULL
--= 'ann' | '[1,3,7,7,9,13,15]'
--= 'bob' | '[2,5,8,14,17]'
--= 'cid' | '[6,10,16]'
--= 'dot' | '[11]'
--= NULL | '[4]'

--- json_arrays_with_null
SELECT customer, JSON_ARRAYAGG(id NULL ON NULL) AS j FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | j VARCHAR(2000) NOT NULL
--= 'ann' | '[1,3,7,7,9,13,15]'
--= 'bob' | '[2,5,8,14,17]'
--= 'cid' | '[6,10,16]'
--= 'dot' | '[11,null]'
--= NULL | '[4]'

--- percentile
SELECT customer, PERCENTILE(qty, 0.5) AS p, PERCENTILE(qty, ARRAY[0.25, 1]) AS q FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | p DOUBLE | q ARRAY<DOUBLE>
--= 'ann' | 2.0 | [1.0, 5.0]
--= 'bob' | 2.5 | [1.75, 7.0]
--= 'cid' | 4.0 | [2.5, 9.0]
--= 'dot' | 1.5 | [-0.75, 6.0]
--= NULL | 3.0 | [3.0, 3.0]

--- percentile_with_frequency
SELECT PERCENTILE(qty, 0.5, 2) AS p, PERCENTILE(qty, 0) AS l FROM orders;
--: streaming, updates
--: p DOUBLE | l DOUBLE
--= 2.0 | -3.0

--- group_by_a_cast_of_a_key
SELECT customer, CAST(customer AS VARCHAR(3)) AS c, COUNT(*) AS n FROM orders GROUP BY customer, CAST(customer AS VARCHAR(3));
--: streaming, updates
--: customer STRING | c VARCHAR(3) | n BIGINT NOT NULL
--= 'ann' | 'ann' | 7
--= 'bob' | 'bob' | 5
--= 'cid' | 'cid' | 3
--= 'dot' | 'dot' | 2
--= NULL | NULL | 1

--- group_by_two_casts
SELECT CAST(qty AS BIGINT) AS b, CAST(qty AS DOUBLE) AS d, COUNT(*) AS n FROM orders GROUP BY qty, CAST(qty AS BIGINT), CAST(qty AS DOUBLE);
--: streaming, updates
--: b BIGINT | d DOUBLE | n BIGINT NOT NULL
--= -3 | -3.0 | 1
--= 0 | 0.0 | 1
--= 1 | 1.0 | 4
--= 2 | 2.0 | 4
--= 3 | 3.0 | 2
--= 4 | 4.0 | 1
--= 5 | 5.0 | 1
--= 6 | 6.0 | 1
--= 7 | 7.0 | 1
--= 9 | 9.0 | 1
--= NULL | NULL | 1

--- json_objects_by_key
SELECT qty, JSON_OBJECTAGG(KEY CONCAT('k', CAST(id AS STRING)) VALUE customer ABSENT ON NULL) AS a, JSON_OBJECTAGG(CONCAT('k', CAST(id AS STRING)) VALUE customer) AS b FROM orders WHERE id IS NOT NULL GROUP BY qty;
--! failed: TableException: Key 'k7' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure that keys are unique.

--- json_objects_with_a_null_key
SELECT JSON_OBJECTAGG(KEY customer VALUE qty) AS j FROM orders;
--! failed: TableException: Key 'ann' is already present. Duplicate keys are not allowed in JSON_OBJECTAGG. Please ensure that keys are unique.

--- json_arrays_of_built_values
SELECT customer, JSON_ARRAYAGG(JSON_OBJECT('id' VALUE id, 'qty' VALUE qty)) AS j FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | j VARCHAR(2000) NOT NULL
--= 'ann' | '[{"id":1,"qty":2},{"id":3,"qty":5},{"id":7,"qty":2},{"id":7,"qty":2},{"id":9,"qty":0},{"id":13,"qty":1},{"id":15,"qty":1}]'
--= 'bob' | '[{"id":2,"qty":1},{"id":5,"qty":null},{"id":8,"qty":7},{"id":14,"qty":2},{"id":17,"qty":3}]'
--= 'cid' | '[{"id":6,"qty":4},{"id":10,"qty":1},{"id":16,"qty":9}]'
--= 'dot' | '[{"id":11,"qty":-3},{"id":null,"qty":6}]'
--= NULL | '[{"id":4,"qty":3}]'

--- json_arrays_in_objects
SELECT JSON_OBJECT('n' VALUE COUNT(*), 'all' VALUE JSON_ARRAYAGG(qty)) AS j FROM orders;
--: streaming, updates
--: j STRING NOT NULL
--= '{"all":"[2,1,5,3,4,2,2,7,0,1,-3,6,1,2,1,9,3]","n":18}'

--- json_arrays_filtered
SELECT customer, JSON_ARRAYAGG(qty) FILTER (WHERE qty > 3) AS j FROM orders GROUP BY customer;
--! refused: ParseException: Incorrect syntax near the keyword 'FILTER' at line 1, column 37.

--- json_arrays_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT JSON_ARRAYAGG(id) AS j FROM orders WHERE id > 100;
--: streaming, updates
--: j VARCHAR(2000) NOT NULL

--- json_arrays_of_texts
SELECT JSON_ARRAYAGG(s) AS j FROM (VALUES ('a"b'), ('ü'), ('')) AS t (s);
--: streaming, updates
--: j VARCHAR(2000) NOT NULL
--= '["a\\"b","ü",""]'

--- json_arrays_in_windows
SELECT window_start, JSON_ARRAYAGG(qty) AS j, PERCENTILE(qty, 0.25) AS p FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | j VARCHAR(2000) NOT NULL | p DOUBLE
--= 2024-01-01 10:00:00.000000000 | '[2,1,5,3,4]' | 2.0
--= 2024-01-01 10:00:10.000000000 | '[2,2,0]' | 1.0
--= 2024-01-01 10:00:20.000000000 | '[7,-3]' | -0.5
--= 2024-01-01 10:00:30.000000000 | '[1,6]' | 2.25
--= 2024-01-01 10:00:40.000000000 | '[1]' | 1.0
--= 2024-01-01 10:01:00.000000000 | '[2,1]' | 1.25
--= 2024-01-01 10:01:50.000000000 | '[9]' | 9.0
--= 2024-01-01 10:02:00.000000000 | '[3]' | 3.0

--- percentile_of_texts
SELECT PERCENTILE(customer, 0.5) AS p FROM orders;
--! refused: ValidationException: Invalid input arguments.

--- percentile_beyond_one
SELECT PERCENTILE(qty, 1.5) AS p FROM orders;
--! refused: ValidationException: Invalid input arguments.

--- percentile_distinct
SELECT PERCENTILE(DISTINCT qty, 0.5) AS p FROM orders;
--: streaming, updates
--: p DOUBLE
--= 3.5

--- percentile_filtered
SELECT customer, PERCENTILE(qty, 0.5) FILTER (WHERE qty > 2) AS p FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | p DOUBLE
--= 'ann' | 5.0
--= 'bob' | 5.0
--= 'cid' | 6.5
--= 'dot' | 6.0
--= NULL | 3.0

--- percentile_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT PERCENTILE(qty, 0.5) AS p, PERCENTILE(qty, ARRAY[0.5]) AS q FROM orders WHERE id > 100;
--: streaming, updates
--: p DOUBLE | q ARRAY<DOUBLE>

--- percentile_of_doubles
SELECT PERCENTILE(CAST(qty AS DOUBLE) / 4, ARRAY[0, 0.1, 0.9, 1]) AS p FROM orders;
--: streaming, updates
--: p ARRAY<DOUBLE>
--= [-0.75, 0.15000000000000002, 1.6, 2.25]

--- group_by_a_cast_within
SELECT UPPER(item) AS a, UPPER(CAST(item AS VARCHAR(2))) AS b, COUNT(*) AS n FROM orders GROUP BY UPPER(item), UPPER(CAST(item AS VARCHAR(2)));
--: streaming, updates
--: a STRING | b VARCHAR(2) | n BIGINT NOT NULL
--= '' | '' | 1
--= 'CAP' | 'CA' | 2
--= 'INK' | 'IN' | 5
--= 'PAD' | 'PA' | 4
--= 'PEN' | 'PE' | 5
--= NULL | NULL | 1

--- group_by_a_cast_having
SELECT COUNT(*) AS n, CAST(o.qty AS STRING) || 'x' AS t FROM orders o GROUP BY qty, CAST(o.qty AS STRING) HAVING CAST(o.qty AS STRING) <> '1';
--: streaming, updates
--: n BIGINT NOT NULL | t STRING
--= 1 | '-3x'
--= 1 | '0x'
--= 1 | '4x'
--= 1 | '5x'
--= 1 | '6x'
--= 1 | '7x'
--= 1 | '9x'
--= 2 | '3x'
--= 4 | '2x'

--- group_by_a_cast_in_windows
SELECT window_start, CAST(qty AS DOUBLE) AS d, qty, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, qty, CAST(qty AS DOUBLE);
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | d DOUBLE | qty INT | n BIGINT NOT NULL
--= 2024-01-01 10:00:00.000000000 | -3.0 | -3 | 1
--= 2024-01-01 10:00:00.000000000 | 0.0 | 0 | 1
--= 2024-01-01 10:00:00.000000000 | 1.0 | 1 | 3
--= 2024-01-01 10:00:00.000000000 | 2.0 | 2 | 3
--= 2024-01-01 10:00:00.000000000 | 3.0 | 3 | 1
--= 2024-01-01 10:00:00.000000000 | 4.0 | 4 | 1
--= 2024-01-01 10:00:00.000000000 | 5.0 | 5 | 1
--= 2024-01-01 10:00:00.000000000 | 6.0 | 6 | 1
--= 2024-01-01 10:00:00.000000000 | 7.0 | 7 | 1
--= 2024-01-01 10:00:00.000000000 | NULL | NULL | 1
--= 2024-01-01 10:01:00.000000000 | 1.0 | 1 | 1
--= 2024-01-01 10:01:00.000000000 | 2.0 | 2 | 1
--= 2024-01-01 10:01:00.000000000 | 9.0 | 9 | 1
--= 2024-01-01 10:02:00.000000000 | 3.0 | 3 | 1

--- group_by_a_cast_in_rollup
SELECT qty, CAST(qty AS STRING) AS t, COUNT(*) AS n FROM orders GROUP BY ROLLUP (qty, CAST(qty AS STRING));
--: streaming, updates
--: qty INT | t STRING | n BIGINT NOT NULL
--= -3 | '-3' | 1
--= -3 | NULL | 1
--= 0 | '0' | 1
--= 0 | NULL | 1
--= 1 | '1' | 4
--= 1 | NULL | 4
--= 2 | '2' | 4
--= 2 | NULL | 4
--= 3 | '3' | 2
--= 3 | NULL | 2
--= 4 | '4' | 1
--= 4 | NULL | 1
--= 5 | '5' | 1
--= 5 | NULL | 1
--= 6 | '6' | 1
--= 6 | NULL | 1
--= 7 | '7' | 1
--= 7 | NULL | 1
--= 9 | '9' | 1
--= 9 | NULL | 1
--= NULL | NULL | 1
--= NULL | NULL | 1
--= NULL | NULL | 18

--- distinct_casts
SELECT DISTINCT qty, CAST(qty AS DOUBLE) AS d FROM orders WHERE qty > 3;
--: streaming, updates
--: qty INT | d DOUBLE
--= 4 | 4.0
--= 5 | 5.0
--= 6 | 6.0
--= 7 | 7.0
--= 9 | 9.0

--- group_by_a_cast_and_order
SELECT qty, CAST(qty AS STRING) AS t, COUNT(*) AS n FROM orders WHERE qty > 2 GROUP BY qty, CAST(qty AS STRING) ORDER BY CAST(qty AS STRING) LIMIT 3;
--: streaming, updates
--: qty INT | t STRING | n BIGINT NOT NULL
--= 3 | '3' | 2
--= 4 | '4' | 1
--= 5 | '5' | 1

--- group_by_a_cast_in_sets_with_others
SELECT item, qty, CAST(qty AS STRING) AS t, COUNT(*) AS n FROM orders WHERE qty > 4 GROUP BY item, ROLLUP (qty, CAST(qty AS STRING));
--: streaming, updates
--: item STRING | qty INT | t STRING | n BIGINT NOT NULL
--= 'cap' | 6 | '6' | 1
--= 'cap' | 6 | NULL | 1
--= 'cap' | NULL | NULL | 1
--= 'ink' | 9 | '9' | 1
--= 'ink' | 9 | NULL | 1
--= 'ink' | NULL | NULL | 1
--= 'pad' | 5 | '5' | 1
--= 'pad' | 5 | NULL | 1
--= 'pad' | 7 | '7' | 1
--= 'pad' | 7 | NULL | 1
--= 'pad' | NULL | NULL | 2

--- group_by_a_cast_of_a_cast
SELECT qty, CAST(CAST(qty AS DOUBLE) AS STRING) AS t, CAST(qty AS DOUBLE) AS d, COUNT(*) AS n FROM orders GROUP BY qty, CAST(CAST(qty AS DOUBLE) AS STRING), CAST(qty AS DOUBLE);
--: streaming, updates
--: qty INT | t STRING | d DOUBLE | n BIGINT NOT NULL
--= -3 | '-3.0' | -3.0 | 1
--= 0 | '0.0' | 0.0 | 1
--= 1 | '1.0' | 1.0 | 4
--= 2 | '2.0' | 2.0 | 4
--= 3 | '3.0' | 3.0 | 2
--= 4 | '4.0' | 4.0 | 1
--= 5 | '5.0' | 5.0 | 1
--= 6 | '6.0' | 6.0 | 1
--= 7 | '7.0' | 7.0 | 1
--= 9 | '9.0' | 9.0 | 1
--= NULL | NULL | NULL | 1

--- group_by_two_casts_only
SELECT CAST(o.qty AS BIGINT) AS b, CAST(qty AS INTEGER) AS i, COUNT(*) AS n FROM orders o GROUP BY CAST(qty AS INT), CAST(qty AS BIGINT);
--: streaming, updates
--: b BIGINT | i INT | n BIGINT NOT NULL
--= -3 | -3 | 1
--= 0 | 0 | 1
--= 1 | 1 | 4
--= 2 | 2 | 4
--= 3 | 3 | 2
--= 4 | 4 | 1
--= 5 | 5 | 1
--= 6 | 6 | 1
--= 7 | 7 | 1
--= 9 | 9 | 1
--= NULL | NULL | 1

--- json_objects_with_null_documents
SELECT JSON_OBJECTAGG(CONCAT('k', CAST(id AS STRING)) VALUE customer ABSENT ON NULL) AS j FROM orders WHERE id < 7;
--: streaming, updates
--: j VARCHAR(2000) NOT NULL
--= '{"k1":"ann","k2":"bob","k3":"ann","k5":"bob","k6":"cid"}'

--- json_objects_with_numbers_as_keys
SELECT JSON_OBJECTAGG(id VALUE customer) AS j FROM orders WHERE id < 7;
--! refused: SqlValidatorException: Cannot apply 'JSON_OBJECTAGG_NULL_ON_NULL' to arguments of type 'JSON_OBJECTAGG_NULL_ON_NULL(<INTEGER>, <VARCHAR(2147483647)>)'. Supported form(s): 'JSON_OBJECT

--- json_arrays_distinct
SELECT JSON_ARRAYAGG(DISTINCT customer) AS j FROM orders WHERE customer = 'ann';
--! refused: ParseException: Incorrect syntax near the keyword 'DISTINCT' at line 1, column 22.

--- calls_that_differ_by_a_cast
SELECT customer, AVG(qty) AS a, AVG(CAST(qty AS DOUBLE)) AS b, COUNT(DISTINCT id) AS c, COUNT(DISTINCT CAST(id AS STRING)) AS d, SUM(1) AS e,
  SUM(CAST(1 AS BIGINT)) AS f, SUM(CASE WHEN qty > 2 THEN 1 ELSE 0 END) AS g, SUM(CASE WHEN qty > 2 THEN CAST(1 AS BIGINT) ELSE 0 END) AS h
FROM orders GROUP BY customer HAVING MAX(CAST(qty AS STRING)) > '1' AND MAX(qty) > 1;
--: streaming, updates
--: customer STRING | a INT | b DOUBLE | c BIGINT NOT NULL | d BIGINT NOT NULL | e INT NOT NULL | f BIGINT NOT NULL | g INT NOT NULL | h BIGINT NOT NULL
--= 'ann' | 1 | 1.8571428571428572 | 6 | 6 | 7 | 7 | 1 | 1
--= 'bob' | 3 | 3.25 | 5 | 5 | 5 | 5 | 2 | 2
--= 'cid' | 4 | 4.666666666666667 | 3 | 3 | 3 | 3 | 2 | 2
--= 'dot' | 1 | 1.5 | 1 | 1 | 2 | 2 | 1 | 1
--= NULL | 3 | 3.0 | 1 | 1 | 1 | 1 | 1 | 1

--- a_call_beside_itself_in_a_subquery
SELECT customer, MAX(qty) AS most FROM orders GROUP BY customer HAVING MAX(qty) = (SELECT MAX(qty) FROM orders);
--: streaming, updates
--: customer STRING | most INT
--= 'cid' | 9

--- share_of_all
SELECT customer, CAST(SUM(qty) * 100.0 / (SELECT SUM(qty) FROM orders) AS DECIMAL(10, 3)) AS share FROM orders GROUP BY customer;
--: streaming, updates
--: customer STRING | share DECIMAL(10, 3)
--= 'ann' | 28.261
--= 'bob' | 28.261
--= 'cid' | 30.435
--= 'dot' | 6.522
--= NULL | 6.522

--- decimals_of_a_correlated_subquery
SELECT id FROM orders AS o WHERE price > (SELECT 0.9 * AVG(price) FROM orders AS p WHERE p.customer = o.customer);
--: streaming, updates
--: id INT
--= 11
--= 13
--= 14
--= 15
--= 16
--= 2
--= 6

--- floating_point_beside_decimals
SELECT customer, ROUND(SUM(COALESCE(CAST(qty AS DOUBLE), 0.0)) / COUNT(*) * 100, 3) AS a, ROUND(SUM(x * 2.5), 3) AS b
FROM (SELECT customer, qty, COALESCE(CAST(price AS DOUBLE), 0.0) AS x FROM orders) GROUP BY customer;
--: streaming, updates
--: customer STRING | a DOUBLE NOT NULL | b DOUBLE NOT NULL
--= 'ann' | 185.714 | 70.375
--= 'bob' | 260.0 | 55.5
--= 'cid' | 466.667 | 43.75
--= 'dot' | 150.0 | 280.825
--= NULL | 300.0 | 3.75

--- union_of_floating_point_computed_with_decimals
SELECT v * 2 AS v FROM (SELECT COALESCE(CAST(qty AS DOUBLE), 0.0) * 100 AS v FROM orders
  UNION ALL SELECT COALESCE(CAST(id AS DOUBLE) / 1000000000, 0.0) * 100 FROM orders WHERE id = 3);
--: streaming, stays
--: v DOUBLE NOT NULL
--= -600.0
--= 0.0
--= 0.0
--= 1000.0
--= 1200.0
--= 1400.0
--= 1800.0
--= 200.0
--= 200.0
--= 200.0
--= 200.0
--= 400.0
--= 400.0
--= 400.0
--= 400.0
--= 6.0E-7
--= 600.0
--= 600.0
--= 800.0


--- lists_and_percentiles_that_differ_by_a_cast
SELECT LISTAGG(customer, '+') AS a, LISTAGG(CAST(`customer` AS VARCHAR(2)), '+') AS b, PERCENTILE(qty, 0.5) AS c, PERCENTILE(CAST(qty AS BIGINT), 0.5) AS d,
  APPROX_COUNT_DISTINCT(`qty`) AS e, APPROX_COUNT_DISTINCT(CAST(qty AS STRING)) AS f FROM orders WHERE id < 6;
--: batch
--: a STRING | b VARCHAR(2) | c DOUBLE | d DOUBLE | e BIGINT NOT NULL | f BIGINT NOT NULL
--= 'ann+bob+ann+bob' | 'an+bo+an+bo' | 2.5 | 2.5 | 4 | 4

--- quoted_columns_that_differ_by_a_cast
SELECT `customer`, AVG(`qty`) AS a, AVG(CAST(qty AS DOUBLE)) AS b FROM orders GROUP BY customer, CAST(`customer` AS STRING);
--: streaming, updates
--: customer STRING | a INT | b DOUBLE
--= 'ann' | 1 | 1.8571428571428572
--= 'bob' | 3 | 3.25
--= 'cid' | 4 | 4.666666666666667
--= 'dot' | 1 | 1.5
--= NULL | 3 | 3.0

--- sum_beyond_38_digits
SELECT SUM(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)))) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 0)
--= NULL

--- sum_beyond_38_digits_and_back
SELECT SUM(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (3, -CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (4, -CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)))) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 0)
--= NULL

--- sum_beyond_38_digits_by_key
SELECT id, SUM(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (9, CAST(NULL AS DECIMAL(38, 0)))) AS v (id, x) GROUP BY id;
--: streaming, updates
--: id INT NOT NULL | s DECIMAL(38, 0)
--= 1 | NULL
--= 2 | 99999999999999999999999999999999999999
--= 9 | NULL

--- sum_with_a_fraction_beyond_38_digits
SELECT SUM(x) AS s FROM (VALUES (1, CAST('999999999999999999999999999999.12345678' AS DECIMAL(38, 8))), (2, CAST('999999999999999999999999999999.12345678' AS DECIMAL(38, 8)))) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 8)
--= NULL

--- avg_beyond_38_digits
SELECT AVG(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)))) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 6)
--= NULL

--- sum_of_a_sum_beyond_38_digits
SELECT SUM(s) AS s FROM (SELECT id, SUM(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)))) AS v (id, x) GROUP BY id);
--: streaming, updates
--: s DECIMAL(38, 0)
--= NULL

--- plus_beyond_38_digits
SELECT x + x AS p, x * x AS m, x - -x AS d FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (9, CAST(NULL AS DECIMAL(38, 0)))) AS v (id, x);
--: streaming, stays
--: p DECIMAL(38, 0) | m DECIMAL(38, 0) | d DECIMAL(38, 0)
--= NULL | NULL | NULL
--= NULL | NULL | NULL

--- sum_beyond_38_digits_and_smaller_ones
SELECT SUM(x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (3, CAST(5 AS DECIMAL(38, 0)))) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 0)
--= 5

--- sum_beyond_38_digits_in_a_window
SELECT window_start, SUM(CASE WHEN qty > 0 THEN CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) END) AS s, AVG(CASE WHEN qty > 0 THEN CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) END) AS a FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | s DECIMAL(38, 0) | a DECIMAL(38, 6)
--= 2024-01-01 10:00:00.000000000 | 99999999999999999999999999999999999999 | NULL
--= 2024-01-01 10:01:00.000000000 | 99999999999999999999999999999999999999 | NULL
--= 2024-01-01 10:02:00.000000000 | 99999999999999999999999999999999999999 | NULL

--- sum_over_beyond_38_digits
SELECT id, SUM(CASE WHEN qty > 0 THEN CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) END) OVER (ORDER BY ts) AS s FROM orders;
--: streaming, stays
--: id INT | s DECIMAL(38, 0)
--= 1 | 99999999999999999999999999999999999999
--= 10 | NULL
--= 11 | NULL
--= 13 | NULL
--= 14 | NULL
--= 15 | NULL
--= 16 | NULL
--= 17 | NULL
--= 2 | NULL
--= 3 | NULL
--= 4 | NULL
--= 5 | NULL
--= 6 | NULL
--= 7 | NULL
--= 7 | NULL
--= 8 | NULL
--= 9 | NULL
--= NULL | NULL

--- sum_distinct_beyond_38_digits
SELECT SUM(DISTINCT x) AS s FROM (VALUES (1, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))), (2, CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0)) - 1)) AS v (id, x);
--: streaming, updates
--: s DECIMAL(38, 0)
--= NULL

