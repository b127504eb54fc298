-- Joins, subqueries and set operations.

--- inner_join
SELECT l.k, v, w FROM lefts AS l JOIN rights AS r ON l.k = r.k;
--: streaming, stays
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL

--- left_join
SELECT l.k, v, w FROM lefts AS l LEFT JOIN rights AS r ON l.k = r.k;
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL

--- right_join
SELECT r.k, v, w FROM lefts AS l RIGHT JOIN rights AS r ON l.k = r.k;
--: streaming, updates
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= 5 | NULL | 's'
--= NULL | NULL | 't'

--- full_join
SELECT l.k AS lk, r.k AS rk, v, w FROM lefts AS l FULL JOIN rights AS r ON l.k = r.k;
--: streaming, updates
--: lk INT | rk INT | v STRING | w STRING
--= 1 | NULL | 'a' | NULL
--= 2 | 2 | 'b' | 'p'
--= 2 | 2 | 'b' | 'p'
--= 2 | 2 | 'b' | 'q'
--= 2 | 2 | 'b' | 'q'
--= 2 | 2 | 'c' | 'p'
--= 2 | 2 | 'c' | 'q'
--= 3 | 3 | 'd' | 'r'
--= 3 | 3 | 'd' | 'r'
--= 4 | 4 | NULL | NULL
--= NULL | 5 | NULL | 's'
--= NULL | NULL | 'e' | NULL
--= NULL | NULL | 'e' | NULL
--= NULL | NULL | NULL | 't'

--- cross_join
SELECT v, w FROM lefts CROSS JOIN rights WHERE v = 'a' AND w < 'r';
--: streaming, stays
--: v STRING | w STRING
--= 'a' | 'p'
--= 'a' | 'q'

--- join_with_a_condition
SELECT l.k, v, w FROM lefts AS l JOIN rights AS r ON l.k = r.k AND v || w <> 'bp';
--: streaming, stays
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'

--- left_join_with_a_condition
SELECT l.k, v, w FROM lefts AS l LEFT JOIN rights AS r ON l.k = r.k AND w > 'p';
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL

--- left_join_condition_on_the_left
SELECT l.k, v, w FROM lefts AS l LEFT JOIN rights AS r ON l.k = r.k AND v = 'c';
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | NULL
--= 2 | 'b' | NULL
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | NULL
--= 4 | NULL | NULL
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL

--- full_join_with_a_condition
SELECT l.k AS lk, r.k AS rk, v, w FROM lefts AS l FULL JOIN rights AS r ON l.k = r.k AND v = 'c';
--: streaming, updates
--: lk INT | rk INT | v STRING | w STRING
--= 1 | NULL | 'a' | NULL
--= 2 | 2 | 'c' | 'p'
--= 2 | 2 | 'c' | 'q'
--= 2 | NULL | 'b' | NULL
--= 2 | NULL | 'b' | NULL
--= 3 | NULL | 'd' | NULL
--= 4 | NULL | NULL | NULL
--= NULL | 3 | NULL | 'r'
--= NULL | 3 | NULL | 'r'
--= NULL | 4 | NULL | NULL
--= NULL | 5 | NULL | 's'
--= NULL | NULL | 'e' | NULL
--= NULL | NULL | 'e' | NULL
--= NULL | NULL | NULL | 't'

--- join_without_equality
SELECT l.k AS lk, r.k AS rk FROM lefts AS l JOIN rights AS r ON l.k < r.k;
--: streaming, stays
--: lk INT | rk INT
--= 1 | 2
--= 1 | 2
--= 1 | 3
--= 1 | 3
--= 1 | 4
--= 1 | 5
--= 2 | 3
--= 2 | 3
--= 2 | 3
--= 2 | 3
--= 2 | 3
--= 2 | 3
--= 2 | 4
--= 2 | 4
--= 2 | 4
--= 2 | 5
--= 2 | 5
--= 2 | 5
--= 3 | 4
--= 3 | 5
--= 4 | 5

--- left_join_without_equality
SELECT l.k AS lk, r.k AS rk FROM lefts AS l LEFT JOIN rights AS r ON l.k > r.k + 1;
--: streaming, updates
--: lk INT | rk INT
--= 1 | NULL
--= 2 | NULL
--= 2 | NULL
--= 2 | NULL
--= 3 | NULL
--= 4 | 2
--= 4 | 2
--= NULL | NULL
--= NULL | NULL

--- join_null_is_null
SELECT l.k AS lk, r.k AS rk, v, w FROM lefts AS l JOIN rights AS r ON l.k IS NOT DISTINCT FROM r.k;
--: streaming, stays
--: lk INT | rk INT | v STRING | w STRING
--= 2 | 2 | 'b' | 'p'
--= 2 | 2 | 'b' | 'p'
--= 2 | 2 | 'b' | 'q'
--= 2 | 2 | 'b' | 'q'
--= 2 | 2 | 'c' | 'p'
--= 2 | 2 | 'c' | 'q'
--= 3 | 3 | 'd' | 'r'
--= 3 | 3 | 'd' | 'r'
--= 4 | 4 | NULL | NULL
--= NULL | NULL | 'e' | 't'
--= NULL | NULL | 'e' | 't'

--- join_using
SELECT k, v, w FROM lefts JOIN rights USING (k);
--: streaming, stays
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL

--- join_using_all_columns
SELECT * FROM lefts JOIN rights USING (k) WHERE k = 3;
--! refused: SqlValidatorException: Column 'k' is ambiguous

--- full_join_using
SELECT k, v, w FROM lefts FULL JOIN rights USING (k);
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= 5 | NULL | 's'
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL
--= NULL | NULL | 't'

--- natural_join
SELECT * FROM lefts NATURAL JOIN rights WHERE w = 'p';
--: streaming, stays
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'c' | 'p'

--- join_all_columns
SELECT * FROM lefts AS l JOIN rights AS r ON l.k = r.k WHERE w = 'p';
--: streaming, stays
--: k INT | v STRING | k0 INT | w STRING
--= 2 | 'b' | 2 | 'p'
--= 2 | 'b' | 2 | 'p'
--= 2 | 'c' | 2 | 'p'

--- self_join
SELECT a.v AS av, b.v AS bv FROM lefts AS a JOIN lefts AS b ON a.k = b.k AND a.v < b.v;
--: streaming, stays
--: av STRING | bv STRING
--= 'b' | 'c'
--= 'b' | 'c'

--- join_three
SELECT l.v, r.w, s.k FROM lefts AS l JOIN rights AS r ON l.k = r.k LEFT JOIN some_keys AS s ON s.k = r.k;
--: streaming, updates
--: v STRING | w STRING | k INT
--= 'b' | 'p' | 2
--= 'b' | 'p' | 2
--= 'b' | 'q' | 2
--= 'b' | 'q' | 2
--= 'c' | 'p' | 2
--= 'c' | 'q' | 2
--= 'd' | 'r' | 3
--= 'd' | 'r' | 3
--= 'd' | 'r' | 3
--= 'd' | 'r' | 3
--= NULL | NULL | NULL

--- join_of_other_types
SELECT l.k, n.l FROM lefts AS l JOIN numbers AS n ON l.k = n.l WHERE n.g = 'c';
--: streaming, stays
--: k INT | l BIGINT
--= 1 | 1
--= 2 | 2
--= 2 | 2
--= 2 | 2

--- join_int_with_tinyint
SELECT l.v, n.id FROM lefts AS l JOIN numbers AS n ON l.k = n.ti;
--: streaming, stays
--: v STRING | id INT
--= 'a' | 1
--= 'b' | 2
--= 'b' | 2
--= 'c' | 2

--- join_of_text_and_number
SELECT l.k FROM lefts AS l JOIN (VALUES ('2'), ('x')) AS t (s) ON l.k = t.s;
--! refused: TableException: implicit type conversion between INTEGER and CHAR(1) is not supported on join's condition now

--- join_of_aggregates
SELECT a.k, n, m FROM (SELECT k, COUNT(*) AS n FROM lefts GROUP BY k) AS a
JOIN (SELECT k, COUNT(*) AS m FROM rights GROUP BY k) AS b ON a.k = b.k;
--: streaming, updates
--: k INT | n BIGINT NOT NULL | m BIGINT NOT NULL
--= 2 | 3 | 2
--= 3 | 1 | 2
--= 4 | 1 | 1

--- left_join_of_aggregates
SELECT a.k, n, m FROM (SELECT k, COUNT(*) AS n FROM lefts GROUP BY k) AS a
LEFT JOIN (SELECT k, COUNT(*) AS m FROM rights GROUP BY k) AS b ON a.k = b.k;
--: streaming, updates
--: k INT | n BIGINT NOT NULL | m BIGINT
--= 1 | 1 | NULL
--= 2 | 3 | 2
--= 3 | 1 | 2
--= 4 | 1 | 1
--= NULL | 2 | NULL

--- aggregate_of_a_left_join
SELECT l.k, COUNT(*) AS n, COUNT(w) AS m, MAX(w) AS x FROM lefts AS l LEFT JOIN rights AS r ON l.k = r.k GROUP BY l.k;
--: streaming, updates
--: k INT | n BIGINT NOT NULL | m BIGINT NOT NULL | x STRING
--= 1 | 1 | 0 | NULL
--= 2 | 6 | 6 | 'q'
--= 3 | 2 | 2 | 'r'
--= 4 | 1 | 0 | NULL
--= NULL | 2 | 0 | NULL

--- left_join_of_nothing
SELECT l.k, v, n.s FROM lefts AS l LEFT JOIN nothing AS n ON l.k = n.id;
--: streaming, updates
--: k INT | v STRING | s STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | NULL
--= 2 | 'b' | NULL
--= 2 | 'c' | NULL
--= 3 | 'd' | NULL
--= 4 | NULL | NULL
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL

--- join_with_values
SELECT v, name FROM lefts JOIN (VALUES (2, 'two'), (3, 'three')) AS t (num, name) ON k = num;
--: streaming, stays
--: v STRING | name VARCHAR(5) NOT NULL
--= 'b' | 'two'
--= 'b' | 'two'
--= 'c' | 'two'
--= 'd' | 'three'

--- semi_join_in
SELECT k, v FROM lefts WHERE k IN (SELECT k FROM rights);
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'
--= 4 | NULL

--- semi_join_exists
SELECT k, v FROM lefts AS l WHERE EXISTS (SELECT 1 FROM rights AS r WHERE r.k = l.k AND r.w <> 'p');
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'

--- anti_join_not_exists
SELECT k, v FROM lefts AS l WHERE NOT EXISTS (SELECT 1 FROM rights AS r WHERE r.k = l.k);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= NULL | 'e'
--= NULL | 'e'

--- not_in_with_null
SELECT k, v FROM lefts WHERE k NOT IN (SELECT k FROM rights);
--: streaming, updates
--: k INT | v STRING

--- not_in_without_null
SELECT k, v FROM lefts WHERE k NOT IN (SELECT k FROM some_keys);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 4 | NULL

--- not_in_not_null
SELECT k, v FROM lefts WHERE k NOT IN (SELECT k FROM rights WHERE k IS NOT NULL);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'

--- not_in_nothing
SELECT k, v FROM lefts WHERE k NOT IN (SELECT id FROM nothing);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'
--= 4 | NULL
--= NULL | 'e'
--= NULL | 'e'

--- in_nothing
SELECT k, v FROM lefts WHERE k IN (SELECT id FROM nothing);
--: streaming, stays
--: k INT | v STRING

--- in_two_columns
SELECT k, v FROM lefts WHERE (k, v) IN (SELECT k, 'b' FROM rights);
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'

--- in_a_list_with_null
SELECT k, v FROM lefts WHERE k IN (2, NULL);
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'

--- not_in_a_list_with_null
SELECT k, v FROM lefts WHERE k NOT IN (2, NULL);
--: streaming, stays
--: k INT | v STRING

--- in_as_a_value
SELECT k, k IN (SELECT k FROM some_keys) AS there FROM lefts;
--: streaming, updates
--: k INT | there BOOLEAN
--= 1 | false
--= 2 | true
--= 2 | true
--= 2 | true
--= 3 | true
--= 4 | false
--= NULL | NULL
--= NULL | NULL

--- exists_uncorrelated
SELECT k FROM lefts WHERE EXISTS (SELECT 1 FROM rights WHERE w = 'zzz');
--: streaming, updates
--: k INT

--- in_of_another_type
SELECT id FROM numbers WHERE i IN (SELECT l FROM numbers);
--: streaming, stays
--: id INT

--- scalar_subquery
SELECT id, price FROM orders WHERE price > (SELECT AVG(price) FROM orders);
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 11 | 99.99
--= 15 | 12.00
--= NULL | 12.34

--- scalar_subquery_selected
SELECT k, (SELECT MAX(w) FROM rights) AS w FROM lefts;
--: streaming, updates
--: k INT | w STRING
--= 1 | 't'
--= 2 | 't'
--= 2 | 't'
--= 2 | 't'
--= 3 | 't'
--= 4 | 't'
--= NULL | 't'
--= NULL | 't'

--- scalar_subquery_of_nothing
SET 'execution.runtime-mode' = 'streaming';
SELECT k, (SELECT MAX(s) FROM nothing) AS s, (SELECT COUNT(*) FROM nothing) AS n FROM some_keys;
--: streaming, updates
--: k INT NOT NULL | s STRING | n BIGINT
--= 2 | NULL | NULL
--= 3 | NULL | NULL
--= 3 | NULL | NULL
--= 7 | NULL | NULL

--- scalar_subquery_without_rows
SELECT k, (SELECT id FROM nothing) AS n FROM some_keys;
--: streaming, updates
--: k INT NOT NULL | n INT
--= 2 | NULL
--= 3 | NULL
--= 3 | NULL
--= 7 | NULL

--- scalar_subquery_of_two_rows
SELECT k, (SELECT w FROM rights) AS w FROM some_keys;
--! failed: TableRuntimeException: SingleValueAggFunction received more than one element.

--- correlated_scalar_subquery
SELECT k, (SELECT MAX(w) FROM rights AS r WHERE r.k = s.k) AS w FROM some_keys AS s;
--: streaming, updates
--: k INT NOT NULL | w STRING
--= 2 | 'q'
--= 3 | 'r'
--= 3 | 'r'
--= 7 | NULL

--- correlated_count
SELECT k, (SELECT COUNT(*) FROM rights AS r WHERE r.k = s.k) AS n FROM some_keys AS s;
--: streaming, updates
--: k INT NOT NULL | n BIGINT
--= 2 | 2
--= 3 | 2
--= 3 | 2
--= 7 | 0

--- correlated_comparison
SELECT id FROM orders AS o WHERE price = (SELECT MAX(price) FROM orders AS p WHERE p.customer = o.customer);
--: streaming, updates
--: id INT
--= 11
--= 15
--= 2
--= 6

--- with_queries
WITH a AS (SELECT k, COUNT(*) AS n FROM lefts GROUP BY k), b AS (SELECT k FROM rights) SELECT a.k, n FROM a JOIN b ON a.k = b.k;
--: streaming, updates
--: k INT | n BIGINT NOT NULL
--= 2 | 3
--= 2 | 3
--= 3 | 1
--= 3 | 1
--= 4 | 1

--- union_all
SELECT k, v FROM lefts UNION ALL SELECT k, w FROM rights;
--: streaming, stays
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 2 | 'p'
--= 2 | 'q'
--= 3 | 'd'
--= 3 | 'r'
--= 3 | 'r'
--= 4 | NULL
--= 4 | NULL
--= 5 | 's'
--= NULL | 'e'
--= NULL | 'e'
--= NULL | 't'

--- union
SELECT k FROM lefts UNION SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 1
--= 2
--= 3
--= 4
--= 5
--= NULL

--- union_of_types
SELECT ti AS x FROM numbers WHERE id < 4 UNION ALL SELECT l FROM numbers WHERE id < 4;
--: streaming, stays
--: x BIGINT
--= -3
--= -3000
--= 1
--= 1000
--= 2
--= 2000

--- union_of_int_and_decimal
SELECT i AS x FROM numbers WHERE id < 4 UNION ALL SELECT dc FROM numbers WHERE id < 4;
--: streaming, stays
--: x DECIMAL(12, 2)
--= -0.30
--= -300.00
--= 10.25
--= 100.00
--= 20.50
--= 200.00

--- union_of_int_and_double
SELECT i AS x FROM numbers WHERE id < 4 UNION ALL SELECT d FROM numbers WHERE id < 4;
--: streaming, stays
--: x DOUBLE
--= -1.5
--= -300.0
--= 100.0
--= 2.5
--= 200.0
--= 3.5

--- union_of_decimals
SELECT dc AS x FROM numbers WHERE id < 3 UNION ALL SELECT CAST(1.23456 AS DECIMAL(8, 5)) FROM some_keys;
--: streaming, stays
--: x DECIMAL(13, 5)
--= 1.23456
--= 1.23456
--= 1.23456
--= 1.23456
--= 10.25000
--= 20.50000

--- union_of_texts
SELECT p AS x FROM numbers WHERE id < 3 UNION ALL SELECT 'a longer text' FROM some_keys;
--: streaming, stays
--: x VARCHAR(13)
--= 'a longer text'
--= 'a longer text'
--= 'a longer text'
--= 'a longer text'
--= 'one'
--= 'two'

--- union_with_null
SELECT i AS x FROM numbers WHERE id < 3 UNION ALL SELECT NULL FROM some_keys;
--! refused: SqlValidatorException: Illegal use of 'NULL'

--- union_of_date_and_timestamp
SELECT dt AS x FROM numbers WHERE id < 3 UNION ALL SELECT ts FROM numbers WHERE id < 3;
--! refused: SqlValidatorException: Type mismatch in column 1 of UNION ALL

--- intersect
SELECT k FROM lefts INTERSECT SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 2
--= 3
--= 4
--= NULL

--- intersect_all
SELECT k FROM lefts INTERSECT ALL SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 2
--= 2
--= 3
--= 4
--= NULL

--- except
SELECT k FROM lefts EXCEPT SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 1

--- except_all
SELECT k FROM lefts EXCEPT ALL SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 1
--= 2
--= NULL

--- union_names
SELECT k AS a, v AS b FROM lefts WHERE k = 1 UNION ALL SELECT k AS c, w AS d FROM rights WHERE k = 5;
--: streaming, stays
--: a INT | b STRING
--= 1 | 'a'
--= 5 | 's'

--- union_of_groups
SELECT 'l' AS side, COUNT(*) AS n FROM lefts UNION ALL SELECT 'r', COUNT(*) FROM rights;
--: streaming, updates
--: side CHAR(1) NOT NULL | n BIGINT NOT NULL
--= 'l' | 8
--= 'r' | 7

--- set_precedence
SELECT k FROM lefts UNION SELECT k FROM some_keys INTERSECT SELECT k FROM rights;
--: streaming, updates
--: k INT
--= 1
--= 2
--= 3
--= 4
--= NULL

--- scalar_subquery_of_nothing_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT k, (SELECT MAX(s) FROM nothing) AS s, (SELECT COUNT(*) FROM nothing) AS n FROM some_keys;
--: batch
--: k INT NOT NULL | s STRING | n BIGINT
--= 2 | NULL | 0
--= 3 | NULL | 0
--= 3 | NULL | 0
--= 7 | NULL | 0

--- right_join_using
SELECT k, v, w FROM lefts RIGHT JOIN rights USING (k);
--: streaming, updates
--: k INT | v STRING | w STRING
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= 5 | NULL | 's'
--= NULL | NULL | 't'

--- full_join_using_twice
SELECT k, v, w FROM lefts FULL JOIN rights USING (k) FULL JOIN some_keys USING (k);
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= 5 | NULL | 's'
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL
--= NULL | NULL | 't'
--= NULL | NULL | NULL

--- left_join_using_twice
SELECT k, v, w, s.k AS sk FROM lefts LEFT JOIN rights USING (k) LEFT JOIN some_keys AS s USING (k);
--: streaming, updates
--: k INT | v STRING | w STRING | sk INT
--= 1 | 'a' | NULL | NULL
--= 2 | 'b' | 'p' | 2
--= 2 | 'b' | 'p' | 2
--= 2 | 'b' | 'q' | 2
--= 2 | 'b' | 'q' | 2
--= 2 | 'c' | 'p' | 2
--= 2 | 'c' | 'q' | 2
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 4 | NULL | NULL | NULL
--= NULL | 'e' | NULL | NULL
--= NULL | 'e' | NULL | NULL

--- all_columns_of_joins_using_twice
SELECT * FROM lefts LEFT JOIN rights USING (k) LEFT JOIN (SELECT k, k AS x FROM some_keys) AS s USING (k);
--: streaming, updates
--: k INT | v STRING | w STRING | x INT
--= 1 | 'a' | NULL | NULL
--= 2 | 'b' | 'p' | 2
--= 2 | 'b' | 'p' | 2
--= 2 | 'b' | 'q' | 2
--= 2 | 'b' | 'q' | 2
--= 2 | 'c' | 'p' | 2
--= 2 | 'c' | 'q' | 2
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 3 | 'd' | 'r' | 3
--= 4 | NULL | NULL | NULL
--= NULL | 'e' | NULL | NULL
--= NULL | 'e' | NULL | NULL

--- natural_full_join
SELECT k, v, w FROM lefts NATURAL FULL JOIN rights;
--! refused: SqlValidatorException: Column 'k' is ambiguous

--- in_two_columns_not_null
SELECT k FROM some_keys WHERE (k, 'p') IN (SELECT k, w FROM rights);
--: streaming, stays
--: k INT NOT NULL
--= 2

--- union_of_floats
SELECT f AS x FROM numbers WHERE id < 4 UNION ALL SELECT dc FROM numbers WHERE id < 4;
--: streaming, stays
--: x DOUBLE
--= -0.3
--= -0.5
--= 1.5
--= 10.25
--= 2.5
--= 20.5

--- except_of_two_columns
SELECT k, v FROM lefts EXCEPT SELECT k, 'b' FROM rights;
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'c'
--= 3 | 'd'
--= 4 | NULL
--= NULL | 'e'

--- union_with_duplicates_of_null
SELECT k, v FROM lefts UNION SELECT k, v FROM lefts;
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'
--= 4 | NULL
--= NULL | 'e'


--- right_join_on_and_coalesce
SELECT COALESCE(lefts.k, rights.k) AS k, v, w FROM lefts FULL JOIN rights ON lefts.k = rights.k;
--: streaming, updates
--: k INT | v STRING | w STRING
--= 1 | 'a' | NULL
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'p'
--= 2 | 'b' | 'q'
--= 2 | 'b' | 'q'
--= 2 | 'c' | 'p'
--= 2 | 'c' | 'q'
--= 3 | 'd' | 'r'
--= 3 | 'd' | 'r'
--= 4 | NULL | NULL
--= 5 | NULL | 's'
--= NULL | 'e' | NULL
--= NULL | 'e' | NULL
--= NULL | NULL | 't'

--- union_of_three_types
SELECT ti AS x FROM numbers WHERE id < 3 UNION ALL SELECT dc FROM numbers WHERE id < 3 UNION ALL SELECT d FROM numbers WHERE id < 3;
--: streaming, stays
--: x DOUBLE
--= 1.0
--= 10.25
--= 2.0
--= 2.5
--= 20.5
--= 3.5


--- full_join_using_grouped
SELECT k, COUNT(*) AS n, COUNT(v) AS vs FROM lefts FULL JOIN rights USING (k) GROUP BY k HAVING COUNT(*) > 0 AND (k IS NULL OR k > 0);
--! refused: SqlValidatorException: Column 'k' is ambiguous

--- full_join_using_in_where
SELECT k + 0.5 AS k2, l.k AS lk, r.k AS rk FROM lefts AS l FULL OUTER JOIN rights AS r USING (k) WHERE k > 3;
--! refused: SqlValidatorException: Column 'k' is ambiguous

--- right_join_using_all_columns
SELECT * FROM lefts RIGHT JOIN rights USING (k) WHERE w = 's';
--: streaming, updates
--: k INT | v STRING | w STRING
--= 5 | NULL | 's'

--- full_join_using_ordered
SELECT k, w FROM lefts FULL JOIN rights USING (k) ORDER BY k DESC, w DESC LIMIT 2;
--: streaming, updates
--: k INT | w STRING
--= 4 | NULL
--= 5 | 's'

--- in_two_columns_and_more
SELECT id FROM orders AS o WHERE qty > 0 AND (customer, item) IN (SELECT customer, item FROM orders WHERE id = 14 OR id = 5 OR id = 4);
--: streaming, stays
--: id INT
--= 14
--= 2

--- in_two_columns_of_groups
SELECT id, customer, price FROM orders WHERE (customer, price) IN (SELECT customer, MAX(price) FROM orders GROUP BY customer);
--: streaming, updates
--: id INT | customer STRING | price DECIMAL(10, 2)
--= 11 | 'dot' | 99.99
--= 15 | 'ann' | 12.00
--= 2 | 'bob' | 8.00
--= 6 | 'cid' | 8.00

--- not_in_two_columns
SELECT k, v FROM lefts WHERE (k, v) NOT IN (SELECT k, w FROM rights);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'

--- in_a_list_of_pairs
SELECT k, v FROM lefts WHERE (k, v) IN ((2, 'b'), (3, 'x'), (4, 'y'));
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'

--- equal_to_any
SELECT k, v FROM lefts WHERE k = ANY (SELECT k FROM some_keys);
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'
--= 3 | 'd'

--- equal_to_some
SELECT k, v FROM lefts WHERE k = SOME (SELECT k FROM some_keys) AND v <> 'c';
--: streaming, stays
--: k INT | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 3 | 'd'

--- unequal_to_all
SELECT k, v FROM some_keys AS s JOIN lefts USING (k) WHERE s.k <> ALL (SELECT k FROM some_keys WHERE k > 2);
--: streaming, updates
--: k INT NOT NULL | v STRING
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'

--- greater_than_all
SELECT k, v FROM lefts WHERE k > ALL (SELECT k FROM some_keys);
--: streaming, updates
--: k INT | v STRING

--- greater_than_any
SELECT k, v FROM lefts WHERE k > ANY (SELECT k FROM some_keys);
--: streaming, updates
--: k INT | v STRING
--= 3 | 'd'
--= 4 | NULL

--- equal_to_any_of_values
SELECT k, v FROM lefts WHERE k = ANY (VALUES (1), (3));
--: streaming, stays
--: k INT | v STRING
--= 1 | 'a'
--= 3 | 'd'

--- greater_than_all_of_a_key
SELECT id, customer FROM orders AS o WHERE qty > ALL (SELECT qty FROM late_orders AS l WHERE l.customer = o.customer);
--: streaming, updates
--: id INT | customer STRING
--= 10 | 'cid'
--= 11 | 'dot'
--= 16 | 'cid'
--= 4 | NULL
--= 6 | 'cid'
--= NULL | 'dot'

--- less_than_any_of_a_group
SELECT k, v FROM lefts WHERE k < ANY (SELECT COUNT(*) + 1 FROM rights GROUP BY w);
--: streaming, updates
--: k INT | v STRING
--= 1 | 'a'
--= 2 | 'b'
--= 2 | 'b'
--= 2 | 'c'

--- equal_to_all_of_nothing
SELECT k, v FROM some_keys AS s JOIN lefts USING (k) WHERE s.k = ALL (SELECT k FROM rights WHERE k > 100);
--: streaming, updates
--: k INT NOT NULL | v STRING

--- greater_than_all_with_null
SELECT k, v FROM some_keys AS s JOIN lefts USING (k) WHERE s.k > ALL (SELECT k FROM rights);
--: streaming, updates
--: k INT NOT NULL | v STRING


--- lateral_rows_of_each
SELECT c.customer, o.id FROM (SELECT DISTINCT customer FROM orders) AS c, LATERAL (SELECT id, price FROM orders WHERE customer = c.customer) AS o;
--: streaming, updates
--: customer STRING | id INT
--= 'ann' | 1
--= 'ann' | 13
--= 'ann' | 15
--= 'ann' | 3
--= 'ann' | 7
--= 'ann' | 7
--= 'ann' | 9
--= 'bob' | 14
--= 'bob' | 17
--= 'bob' | 2
--= 'bob' | 5
--= 'bob' | 8
--= 'cid' | 10
--= 'cid' | 16
--= 'cid' | 6
--= 'dot' | 11
--= 'dot' | NULL

--- lateral_first_rows_of_each
SELECT c.customer, o.id, o.price FROM (SELECT DISTINCT customer FROM orders) AS c,
  LATERAL (SELECT id, price FROM orders WHERE customer = c.customer ORDER BY price DESC, id LIMIT 2) AS o;
--: streaming, updates
--: customer STRING | id INT | price DECIMAL(10, 2)
--= 'ann' | 13 | 7.95
--= 'ann' | 15 | 12.00
--= 'bob' | 14 | 7.95
--= 'bob' | 2 | 8.00
--= 'cid' | 16 | 7.90
--= 'cid' | 6 | 8.00
--= 'dot' | 11 | 99.99
--= 'dot' | NULL | 12.34
--= NULL | 4 | 1.50
