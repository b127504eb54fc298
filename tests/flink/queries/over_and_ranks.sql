-- Functions with OVER, first rows, and the latest row of a key.

--- over_rows
SELECT id, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
  COUNT(*) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM orders;
--: streaming, stays
--: id INT | s INT | n BIGINT NOT NULL
--= 1 | 2 | 1
--= 10 | 5 | 2
--= 11 | -3 | 1
--= 13 | 1 | 2
--= 14 | 9 | 2
--= 15 | 2 | 2
--= 16 | 10 | 2
--= 17 | 5 | 2
--= 2 | 1 | 1
--= 3 | 7 | 2
--= 4 | 3 | 1
--= 5 | 1 | 2
--= 6 | 4 | 1
--= 7 | 4 | 2
--= 7 | 7 | 2
--= 8 | 7 | 2
--= 9 | 2 | 2
--= NULL | 3 | 2

--- over_rows_unbounded
SELECT id, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM orders;
--: streaming, stays
--: id INT | s INT
--= 1 | 2
--= 10 | 5
--= 11 | -3
--= 13 | 12
--= 14 | 10
--= 15 | 13
--= 16 | 14
--= 17 | 13
--= 2 | 1
--= 3 | 7
--= 4 | 3
--= 5 | 1
--= 6 | 4
--= 7 | 11
--= 7 | 9
--= 8 | 8
--= 9 | 11
--= NULL | 3

--- over_range
SELECT id, ts, SUM(qty) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS s FROM orders;
--: streaming, stays
--: id INT | ts TIMESTAMP(3) | s INT
--= 1 | 2024-01-01 10:00:00.000000000 | 2
--= 10 | 2024-01-01 10:00:30.000000000 | 1
--= 11 | 2024-01-01 10:00:28.001000000 | -3
--= 13 | 2024-01-01 10:00:40.000000000 | 1
--= 14 | 2024-01-01 10:01:05.000000000 | 2
--= 15 | 2024-01-01 10:01:06.000000000 | 1
--= 16 | 2024-01-01 10:01:59.999000000 | 9
--= 17 | 2024-01-01 10:02:00.000000000 | 3
--= 2 | 2024-01-01 10:00:03.000000000 | 1
--= 3 | 2024-01-01 10:00:01.000000000 | 7
--= 4 | 2024-01-01 10:00:07.000000000 | 3
--= 5 | 2024-01-01 10:00:12.000000000 | 1
--= 6 | 2024-01-01 10:00:09.500000000 | 4
--= 7 | 2024-01-01 10:00:12.000000000 | 4
--= 7 | 2024-01-01 10:00:12.000000000 | 4
--= 8 | 2024-01-01 10:00:21.000000000 | 7
--= 9 | 2024-01-01 10:00:17.000000000 | 4
--= NULL | 2024-01-01 10:00:34.999000000 | 3

--- over_range_unbounded
SELECT id, COUNT(*) OVER (PARTITION BY customer ORDER BY ts RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM orders;
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 4
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- over_without_a_frame
SELECT id, COUNT(*) OVER (PARTITION BY customer ORDER BY ts) AS n, MAX(price) OVER (PARTITION BY customer ORDER BY ts) AS m FROM orders;
--: streaming, stays
--: id INT | n BIGINT NOT NULL | m DECIMAL(10, 2)
--= 1 | 1 | 1.50
--= 10 | 2 | 8.00
--= 11 | 1 | 99.99
--= 13 | 6 | 7.95
--= 14 | 4 | 8.00
--= 15 | 7 | 12.00
--= 16 | 3 | 8.00
--= 17 | 5 | 8.00
--= 2 | 1 | 8.00
--= 3 | 2 | 3.20
--= 4 | 1 | 1.50
--= 5 | 2 | 8.00
--= 6 | 1 | 8.00
--= 7 | 4 | 3.20
--= 7 | 4 | 3.20
--= 8 | 3 | 8.00
--= 9 | 5 | 3.20
--= NULL | 2 | 99.99

--- over_without_a_partition
SELECT id, AVG(qty) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a FROM orders;
--: streaming, stays
--: id INT | a INT
--= 1 | 2
--= 10 | 1
--= 11 | 1
--= 13 | 2
--= 14 | 3
--= 15 | 1
--= 16 | 4
--= 17 | 4
--= 2 | 2
--= 3 | 3
--= 4 | 3
--= 5 | 3
--= 6 | 2
--= 7 | 2
--= 7 | 3
--= 8 | 3
--= 9 | 1
--= NULL | 1

--- over_named_window
SELECT id, SUM(qty) OVER w AS s, COUNT(qty) OVER w AS n, MIN(price) OVER w AS lo FROM orders
WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
--: streaming, stays
--: id INT | s INT | n BIGINT NOT NULL | lo DECIMAL(10, 2)
--= 1 | 2 | 1 | 1.50
--= 10 | 5 | 2 | 1.60
--= 11 | -3 | 1 | 99.99
--= 13 | 3 | 3 | 0.00
--= 14 | 9 | 2 | 3.10
--= 15 | 2 | 3 | 0.00
--= 16 | 14 | 3 | 1.60
--= 17 | 12 | 3 | 3.10
--= 2 | 1 | 1 | 8.00
--= 3 | 7 | 2 | 1.50
--= 4 | 3 | 1 | 1.50
--= 5 | 1 | 1 | 8.00
--= 6 | 4 | 1 | 8.00
--= 7 | 9 | 3 | 1.50
--= 7 | 9 | 3 | 1.75
--= 8 | 8 | 2 | 3.10
--= 9 | 4 | 3 | 0.00
--= NULL | 3 | 2 | 12.34

--- over_averages
SELECT id, AVG(qty) OVER w AS a, AVG(price) OVER w AS b, AVG(weight) OVER w AS c, SUM(price) OVER w AS d FROM orders
WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW);
--: streaming, stays
--: id INT | a INT | b DECIMAL(38, 6) | c DOUBLE | d DECIMAL(38, 2)
--= 1 | 2 | 1.500000 | 0.5 | 1.50
--= 10 | 2 | 4.800000 | -0.375 | 9.60
--= 11 | -3 | 99.990000 | 1.0E10 | 99.99
--= 13 | 0 | 3.975000 | 0.6 | 7.95
--= 14 | 4 | 5.525000 | 1.85 | 11.05
--= 15 | 1 | 9.975000 | 2.225 | 19.95
--= 16 | 5 | 4.750000 | 1.0 | 9.50
--= 17 | 2 | 5.550000 | 1.85 | 11.10
--= 2 | 1 | 8.000000 | 1.25 | 8.00
--= 3 | 3 | 2.350000 | 1.25 | 4.70
--= 4 | 3 | 1.500000 | 0.5 | 1.50
--= 5 | 1 | 8.000000 | 1.25 | 8.00
--= 6 | 4 | 8.000000 | -1.5 | 8.00
--= 7 | 2 | 1.750000 | 0.5 | 3.50
--= 7 | 3 | 2.475000 | 1.25 | 4.95
--= 8 | 7 | 3.100000 | 2.5 | 3.10
--= 9 | 1 | 0.875000 | 0.25 | 1.75
--= NULL | 1 | 56.165000 | 5.00000000175E9 | 112.33

--- over_first_and_last
SELECT id, FIRST_VALUE(item) OVER w AS a, LAST_VALUE(item) OVER w AS b FROM orders
WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
--: streaming, stays
--: id INT | a STRING | b STRING
--= 1 | 'pen' | 'pen'
--= 10 | 'ink' | 'pen'
--= 11 | 'pad' | 'pad'
--= 13 | 'pen' | 'ink'
--= 14 | 'pad' | 'ink'
--= 15 | '' | 'cap'
--= 16 | 'ink' | 'ink'
--= 17 | 'pad' | 'pad'
--= 2 | 'ink' | 'ink'
--= 3 | 'pen' | 'pad'
--= 4 | 'pen' | 'pen'
--= 5 | 'ink' | 'ink'
--= 6 | 'ink' | 'ink'
--= 7 | 'pad' | 'pen'
--= 7 | 'pen' | 'pen'
--= 8 | 'ink' | 'pad'
--= 9 | 'pen' | ''
--= NULL | 'pad' | 'cap'

--- over_row_number
SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM orders;
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 3
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- over_lag
SELECT id, LAG(qty) OVER (PARTITION BY customer ORDER BY ts) AS a, LAG(qty, 2) OVER (PARTITION BY customer ORDER BY ts) AS b FROM orders;
--: streaming, stays
--: id INT | a INT | b INT
--= 1 | NULL | NULL
--= 10 | 4 | NULL
--= 11 | NULL | NULL
--= 13 | 0 | 2
--= 14 | 7 | NULL
--= 15 | 1 | 0
--= 16 | 1 | 4
--= 17 | 2 | 7
--= 2 | NULL | NULL
--= 3 | 2 | NULL
--= 4 | NULL | NULL
--= 5 | 1 | NULL
--= 6 | NULL | NULL
--= 7 | 2 | 5
--= 7 | 2 | 5
--= 8 | NULL | 1
--= 9 | 2 | 2
--= NULL | -3 | NULL

--- over_lag_with_a_default
SELECT id, LAG(qty, 1, -1) OVER (PARTITION BY customer ORDER BY ts) AS a FROM orders;
--: streaming, stays
--: id INT | a INT NOT NULL
--= 1 | -1
--= 10 | 4
--= 11 | -1
--= 13 | 0
--= 14 | 7
--= 15 | 1
--= 16 | 1
--= 17 | 2
--= 2 | -1
--= 3 | 2
--= 4 | -1
--= 5 | 1
--= 6 | -1
--= 7 | 2
--= 7 | 2
--= 8 | -1
--= 9 | 2
--= NULL | -3

--- over_lag_of_text
SELECT id, LAG(item) OVER (PARTITION BY customer ORDER BY ts) AS a FROM orders;
--: streaming, stays
--: id INT | a STRING
--= 1 | NULL
--= 10 | 'ink'
--= 11 | NULL
--= 13 | ''
--= 14 | 'pad'
--= 15 | 'ink'
--= 16 | 'pen'
--= 17 | 'ink'
--= 2 | NULL
--= 3 | 'pen'
--= 4 | NULL
--= 5 | 'ink'
--= 6 | NULL
--= 7 | 'pen'
--= 7 | 'pen'
--= 8 | NULL
--= 9 | 'pen'
--= NULL | 'pad'

--- over_lead
SELECT id, LEAD(qty) OVER (PARTITION BY customer ORDER BY ts) AS a FROM orders;
--: batch
--: id INT | a INT
--= 1 | 5
--= 10 | 9
--= 11 | 6
--= 13 | 1
--= 14 | 3
--= 15 | NULL
--= 16 | NULL
--= 17 | NULL
--= 2 | NULL
--= 3 | 2
--= 4 | NULL
--= 5 | 7
--= 6 | 1
--= 7 | 0
--= 7 | 2
--= 8 | 2
--= 9 | 1
--= NULL | NULL

--- over_count_distinct
SELECT id, COUNT(DISTINCT item) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM orders;
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 4
--= 14 | 2
--= 15 | 5
--= 16 | 2
--= 17 | 2
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 1
--= 6 | 1
--= 7 | 2
--= 7 | 2
--= 8 | 2
--= 9 | 3
--= NULL | 2

--- over_deviation
SELECT id, STDDEV_POP(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM orders;
--: streaming, stays
--: id INT | n INT
--= 1 | 0
--= 10 | 1
--= 11 | 0
--= 13 | 0
--= 14 | 2
--= 15 | 0
--= 16 | 3
--= 17 | 2
--= 2 | 0
--= 3 | 1
--= 4 | 0
--= 5 | 0
--= 6 | 0
--= 7 | 1
--= 7 | 1
--= 8 | 3
--= 9 | 1
--= NULL | 4

--- over_late_rows
SET 'execution.runtime-mode' = 'streaming';
SELECT id, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM late_orders;
--: streaming, stays
--: id INT | s INT
--= 1 | 1
--= 10 | 544
--= 2 | 2
--= 3 | 12
--= 4 | 9
--= 5 | 18
--= 6 | 48
--= 7 | 320
--= 9 | 260

--- over_then_filter
SELECT id, s FROM (SELECT id, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders) WHERE s > 5;
--: streaming, stays
--: id INT | s INT
--= 14 | 9
--= 16 | 10
--= 3 | 7
--= 7 | 7
--= 8 | 7

--- over_expression
SELECT id, price - AVG(price) OVER (PARTITION BY item ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS d FROM orders;
--: streaming, stays
--: id INT | d DECIMAL(38, 6)
--= 1 | 0.000000
--= 10 | -0.075000
--= 11 | 48.445000
--= 13 | -0.025000
--= 14 | 0.000000
--= 15 | -0.170000
--= 16 | -0.025000
--= 17 | -48.420000
--= 2 | 0.000000
--= 3 | 0.000000
--= 4 | 0.000000
--= 5 | NULL
--= 6 | 0.000000
--= 7 | 0.000000
--= 7 | 0.125000
--= 8 | -0.050000
--= 9 | 0.000000
--= NULL | 0.000000

--- over_without_order
SELECT id, COUNT(*) OVER (PARTITION BY customer) AS n FROM orders;
--: batch
--: id INT | n BIGINT NOT NULL
--= 1 | 7
--= 10 | 3
--= 11 | 2
--= 13 | 7
--= 14 | 5
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 5
--= 3 | 7
--= 4 | 1
--= 5 | 5
--= 6 | 3
--= 7 | 7
--= 7 | 7
--= 8 | 5
--= 9 | 7
--= NULL | 2

--- over_several_windows
SELECT id, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a,
  SUM(qty) OVER (PARTITION BY item ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM orders;
--: batch
--: id INT | a INT | b INT
--= 1 | 2 | 2
--= 10 | 5 | 3
--= 11 | -3 | 4
--= 13 | 1 | 5
--= 14 | 9 | 3
--= 15 | 2 | 7
--= 16 | 10 | 11
--= 17 | 5 | 0
--= 2 | 1 | 1
--= 3 | 7 | 5
--= 4 | 3 | 5
--= 5 | 1 | NULL
--= 6 | 4 | 5
--= 7 | 4 | 5
--= 7 | 7 | 4
--= 8 | 7 | 12
--= 9 | 2 | 0
--= NULL | 3 | 6

--- over_then_window
CREATE TEMPORARY VIEW sums_so_far AS SELECT id, ts, SUM(qty) OVER (PARTITION BY customer ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders;
SELECT window_start, window_end, MAX(s) AS m FROM TABLE(TUMBLE(TABLE sums_so_far, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | window_end TIMESTAMP(3) NOT NULL | m INT
--= 2024-01-01 10:00:00.000000000 | 2024-01-01 10:01:00.000000000 | 7
--= 2024-01-01 10:01:00.000000000 | 2024-01-01 10:02:00.000000000 | 10
--= 2024-01-01 10:02:00.000000000 | 2024-01-01 10:03:00.000000000 | 5

--- top_two
SELECT customer, price, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders WHERE price IS NOT NULL) WHERE n <= 2;
--: streaming, updates
--: customer STRING | price DECIMAL(10, 2) | n BIGINT NOT NULL
--= 'ann' | 12.00 | 1
--= 'ann' | 7.95 | 2
--= 'bob' | 7.95 | 2
--= 'bob' | 8.00 | 1
--= 'cid' | 7.90 | 2
--= 'cid' | 8.00 | 1
--= 'dot' | 12.34 | 2
--= 'dot' | 99.99 | 1
--= NULL | 1.50 | 1

--- top_two_without_the_number
SELECT customer, price FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC) AS n FROM orders WHERE price IS NOT NULL) WHERE n <= 2;
--: streaming, updates
--: customer STRING | price DECIMAL(10, 2)
--= 'ann' | 12.00
--= 'ann' | 7.95
--= 'bob' | 7.95
--= 'bob' | 8.00
--= 'cid' | 7.90
--= 'cid' | 8.00
--= 'dot' | 12.34
--= 'dot' | 99.99
--= NULL | 1.50

--- top_of_all
SELECT id, price FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY price DESC) AS n FROM orders) WHERE n <= 3;
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 11 | 99.99
--= 15 | 12.00
--= NULL | 12.34

--- top_with_nulls_descending
SELECT g, id, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY d DESC, id) AS n FROM numbers) WHERE n <= 2;
--: streaming, updates
--: g STRING | id INT | d DOUBLE
--= 'a' | 2 | 3.5
--= 'a' | 3 | -1.5
--= 'b' | 4 | 1.0E300
--= 'c' | 6 | 0.2
--= 'z' | 8 | NULL
--= NULL | 7 | 5.5

--- top_with_nulls_ascending
SELECT g, id, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY d, id) AS n FROM numbers) WHERE n <= 2;
--: streaming, updates
--: g STRING | id INT | d DOUBLE
--= 'a' | 1 | 2.5
--= 'c' | 5 | 0.1
--= 'c' | 6 | 0.2
--= 'z' | 8 | NULL
--= 'z' | 9 | NULL
--= NULL | 10 | -0.0

--- top_nulls_last
SELECT id, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY d ASC NULLS LAST, id) AS n FROM numbers) WHERE n <= 2;
--: streaming, updates
--: id INT | d DOUBLE
--= 1 | 2.5
--= 10 | -0.0
--= 3 | -1.5
--= 5 | 0.1
--= 6 | 0.2
--= 8 | NULL

--- top_from_two_to_three
SELECT customer, id, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders WHERE price IS NOT NULL) WHERE n BETWEEN 2 AND 3;
--: streaming, updates
--: customer STRING | id INT | n BIGINT NOT NULL
--= 'ann' | 13 | 2
--= 'ann' | 3 | 3
--= 'bob' | 14 | 2
--= 'bob' | 17 | 3
--= 'cid' | 10 | 3
--= 'cid' | 16 | 2
--= 'dot' | NULL | 2

--- top_by_rank
SELECT customer, item, qty, r FROM (
  SELECT customer, item, qty, RANK() OVER (PARTITION BY item ORDER BY qty DESC) AS r FROM orders WHERE qty IS NOT NULL) WHERE r <= 2;
--: batch
--: customer STRING | item STRING | qty INT | r BIGINT NOT NULL
--= 'ann' | '' | 0 | 1
--= 'ann' | 'cap' | 1 | 2
--= 'ann' | 'pad' | 5 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'bob' | 'pad' | 7 | 1
--= 'cid' | 'ink' | 4 | 2
--= 'cid' | 'ink' | 9 | 1
--= 'dot' | 'cap' | 6 | 1
--= NULL | 'pen' | 3 | 1

--- top_by_dense_rank
SELECT customer, item, qty, r FROM (
  SELECT customer, item, qty, DENSE_RANK() OVER (PARTITION BY item ORDER BY qty DESC) AS r FROM orders WHERE qty IS NOT NULL) WHERE r <= 2;
--: batch
--: customer STRING | item STRING | qty INT | r BIGINT NOT NULL
--= 'ann' | '' | 0 | 1
--= 'ann' | 'cap' | 1 | 2
--= 'ann' | 'pad' | 5 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'ann' | 'pen' | 2 | 2
--= 'bob' | 'pad' | 7 | 1
--= 'cid' | 'ink' | 4 | 2
--= 'cid' | 'ink' | 9 | 1
--= 'dot' | 'cap' | 6 | 1
--= NULL | 'pen' | 3 | 1

--- top_of_groups
SELECT customer, n FROM (
  SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, customer) AS place FROM (SELECT customer, COUNT(*) AS n FROM orders WHERE customer IS NOT NULL GROUP BY customer))
WHERE place <= 2;
--: streaming, updates
--: customer STRING | n BIGINT NOT NULL
--= 'ann' | 7
--= 'bob' | 5

--- latest_row
SELECT customer, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS n FROM orders) WHERE n = 1;
--: streaming, updates
--: customer STRING | id INT | ts TIMESTAMP(3)
--= 'ann' | 15 | 2024-01-01 10:01:06.000000000
--= 'bob' | 17 | 2024-01-01 10:02:00.000000000
--= 'cid' | 16 | 2024-01-01 10:01:59.999000000
--= 'dot' | NULL | 2024-01-01 10:00:34.999000000
--= NULL | 4 | 2024-01-01 10:00:07.000000000

--- first_row
SELECT customer, id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM orders) WHERE n = 1;
--: streaming, stays
--: customer STRING | id INT | ts TIMESTAMP(3)
--= 'ann' | 1 | 2024-01-01 10:00:00.000000000
--= 'bob' | 2 | 2024-01-01 10:00:03.000000000
--= 'cid' | 6 | 2024-01-01 10:00:09.500000000
--= 'dot' | 11 | 2024-01-01 10:00:28.001000000
--= NULL | 4 | 2024-01-01 10:00:07.000000000

--- first_row_with_its_number
SELECT customer, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM orders) WHERE n <= 1;
--: streaming, stays
--: customer STRING | id INT | n BIGINT NOT NULL
--= 'ann' | 1 | 1
--= 'bob' | 2 | 1
--= 'cid' | 6 | 1
--= 'dot' | 11 | 1
--= NULL | 4 | 1

--- first_row_of_all
SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts) AS n FROM orders) WHERE n = 1;
--: streaming, stays
--: id INT | ts TIMESTAMP(3)
--= 1 | 2024-01-01 10:00:00.000000000

--- first_row_of_two_columns
SELECT customer, item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer, item ORDER BY ts ASC) AS n FROM orders) WHERE n = 1 AND id > 3;
--: streaming, stays
--: customer STRING | item STRING | id INT
--= 'ann' | '' | 9
--= 'ann' | 'cap' | 15
--= 'ann' | 'ink' | 13
--= 'bob' | 'pad' | 8
--= 'bob' | NULL | 5
--= 'cid' | 'ink' | 6
--= 'cid' | 'pen' | 10
--= 'dot' | 'pad' | 11
--= NULL | 'pen' | 4

--- first_row_by_two_columns
SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts, id) AS n FROM orders) WHERE n = 1;
--: streaming, stays
--: customer STRING | id INT
--= 'ann' | 1
--= 'bob' | 2
--= 'cid' | 6
--= 'dot' | 11
--= NULL | 4

--- first_row_of_an_expression
SELECT q, id FROM (SELECT id, qty > 2 AS q, ROW_NUMBER() OVER (PARTITION BY qty > 2 ORDER BY ts) AS n FROM orders) WHERE n < 2;
--: streaming, stays
--: q BOOLEAN | id INT
--= NULL | 5
--= false | 1
--= true | 3

--- first_row_late
SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM late_orders) WHERE n = 1;
--: streaming, stays
--: customer STRING | id INT
--= 'ann' | 1
--= 'bob' | 2

--- first_row_late_of_numbers
SELECT q, id FROM (SELECT id, qty > 8 AS q, ROW_NUMBER() OVER (PARTITION BY qty > 8 ORDER BY ts) AS n FROM late_orders) WHERE n = 1;
--: streaming, stays
--: q BOOLEAN | id INT
--= false | 1
--= true | 6

--- first_row_by_an_instant
SELECT visitor, url FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY visitor ORDER BY ts) AS n FROM clicks) WHERE n = 1;
--: streaming, stays
--: visitor STRING | url STRING
--= 'u' | '/a'
--= 'v' | '/a'
--= NULL | '/a'

--- first_row_aggregated
SELECT COUNT(*) AS n, SUM(qty) AS q FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM orders) WHERE n = 1;
--: streaming, updates
--: n BIGINT NOT NULL | q INT
--= 5 | 7

--- first_row_then_window
CREATE TEMPORARY VIEW firsts AS SELECT id, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM orders) WHERE n = 1;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE firsts, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | n BIGINT NOT NULL
--= 2024-01-01 10:00:00.000000000 | 4
--= 2024-01-01 10:00:20.000000000 | 1

--- first_row_of_processing_time
SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY PROCTIME()) AS n FROM orders) WHERE n = 1;
--: streaming, stays
--: customer STRING | id INT
--= 'ann' | 1
--= 'bob' | 2
--= 'cid' | 6
--= 'dot' | 11
--= NULL | 4

--- first_row_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts) AS n FROM late_orders) WHERE n = 1;
--: batch
--: customer STRING | id INT
--= 'ann' | 1
--= 'bob' | 8

--- first_row_of_updates
SELECT n, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY total) AS place FROM (SELECT customer, COUNT(*) AS n, SUM(qty) AS total FROM orders GROUP BY customer)) WHERE place = 1;
--: streaming, updates
--: n BIGINT NOT NULL | total INT
--= 1 | 3
--= 2 | 3
--= 3 | 14
--= 5 | 13
--= 7 | 13

--- latest_row_of_two_columns
SELECT customer, item, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer, item ORDER BY ts DESC) AS n FROM orders) WHERE n = 1;
--: streaming, updates
--: customer STRING | item STRING | id INT
--= 'ann' | '' | 9
--= 'ann' | 'cap' | 15
--= 'ann' | 'ink' | 13
--= 'ann' | 'pad' | 3
--= 'ann' | 'pen' | 7
--= 'bob' | 'ink' | 14
--= 'bob' | 'pad' | 17
--= 'bob' | NULL | 5
--= 'cid' | 'ink' | 16
--= 'cid' | 'pen' | 10
--= 'dot' | 'cap' | NULL
--= 'dot' | 'pad' | 11
--= NULL | 'pen' | 4

--- latest_row_aggregated
SELECT COUNT(*) AS n, SUM(qty) AS q FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) AS n FROM orders) WHERE n = 1;
--: streaming, updates
--: n BIGINT NOT NULL | q INT
--= 5 | 22

--- qualify
SELECT customer, id FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts DESC) = 1;
--: streaming, updates
--: customer STRING | id INT
--= 'ann' | 15
--= 'bob' | 17
--= 'cid' | 16
--= 'dot' | NULL
--= NULL | 4

--- order_by_limit
SELECT id, price FROM orders ORDER BY price DESC, id LIMIT 3;
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 11 | 99.99
--= 15 | 12.00
--= NULL | 12.34

--- order_by_limit_offset
SELECT id, price FROM orders WHERE price IS NOT NULL ORDER BY price DESC, id LIMIT 3 OFFSET 2;
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 15 | 12.00
--= 2 | 8.00
--= 6 | 8.00

--- order_by_time
SELECT id, ts FROM orders ORDER BY ts;
--: streaming, stays
--: id INT | ts TIMESTAMP(3)
--= 1 | 2024-01-01 10:00:00.000000000
--= 10 | 2024-01-01 10:00:30.000000000
--= 11 | 2024-01-01 10:00:28.001000000
--= 13 | 2024-01-01 10:00:40.000000000
--= 14 | 2024-01-01 10:01:05.000000000
--= 15 | 2024-01-01 10:01:06.000000000
--= 16 | 2024-01-01 10:01:59.999000000
--= 17 | 2024-01-01 10:02:00.000000000
--= 2 | 2024-01-01 10:00:03.000000000
--= 3 | 2024-01-01 10:00:01.000000000
--= 4 | 2024-01-01 10:00:07.000000000
--= 5 | 2024-01-01 10:00:12.000000000
--= 6 | 2024-01-01 10:00:09.500000000
--= 7 | 2024-01-01 10:00:12.000000000
--= 7 | 2024-01-01 10:00:12.000000000
--= 8 | 2024-01-01 10:00:21.000000000
--= 9 | 2024-01-01 10:00:17.000000000
--= NULL | 2024-01-01 10:00:34.999000000

--- limit
SELECT COUNT(*) AS n FROM (SELECT id FROM orders LIMIT 4);
--: streaming, updates
--: n BIGINT NOT NULL
--= 4

--- top_nulls_first
SELECT id, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY d DESC NULLS FIRST, id) AS n FROM numbers) WHERE n <= 2;
--: streaming, updates
--: id INT | d DOUBLE
--= 2 | 3.5
--= 4 | 1.0E300
--= 6 | 0.2
--= 7 | 5.5
--= 8 | NULL
--= 9 | NULL

--- top_one_by_a_value
SELECT customer, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders) WHERE n = 1;
--: streaming, stays
--: customer STRING | price DECIMAL(10, 2)
--= 'ann' | 1.50
--= 'ann' | 12.00
--= 'ann' | 3.20
--= 'ann' | 7.95
--= 'bob' | 8.00
--= 'cid' | 8.00
--= 'dot' | 99.99
--= NULL | 1.50

--- top_one_by_a_value_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT customer, price FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders) WHERE n = 1;
--: batch
--: customer STRING | price DECIMAL(10, 2)
--= 'ann' | 12.00
--= 'bob' | 8.00
--= 'cid' | 8.00
--= 'dot' | 99.99
--= NULL | 1.50

--- top_by_two_directions
SELECT item, customer, qty FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY customer DESC, qty) AS n FROM orders) WHERE n <= 2;
--: streaming, updates
--: item STRING | customer STRING | qty INT
--= '' | 'ann' | 0
--= 'cap' | 'ann' | 1
--= 'cap' | 'dot' | 6
--= 'ink' | 'cid' | 4
--= 'ink' | 'cid' | 9
--= 'pad' | 'bob' | 3
--= 'pad' | 'dot' | -3
--= 'pen' | 'ann' | 2
--= 'pen' | 'cid' | 1
--= NULL | 'bob' | NULL

--- over_lag_with_a_default_in_batch
SET 'execution.runtime-mode' = 'batch';
SELECT id, LAG(qty, 1, -1) OVER (PARTITION BY customer ORDER BY ts) AS a FROM orders WHERE id <> 7;
--: batch
--: id INT | a INT NOT NULL
--= 1 | -1
--= 10 | 4
--= 11 | -1
--= 13 | 0
--= 14 | 7
--= 15 | 1
--= 16 | 1
--= 17 | 2
--= 2 | -1
--= 3 | 2
--= 4 | -1
--= 5 | 1
--= 6 | -1
--= 8 | -1
--= 9 | 5

--- order_by_limit_of_groups
SELECT customer, COUNT(*) AS n FROM orders WHERE customer IS NOT NULL GROUP BY customer ORDER BY n DESC, customer LIMIT 2;
--: streaming, updates
--: customer STRING | n BIGINT NOT NULL
--= 'ann' | 7
--= 'bob' | 5

--- order_by_a_column_that_is_left_out
SELECT id FROM orders ORDER BY weight DESC NULLS LAST, price LIMIT 2;
--: streaming, updates
--: id INT
--= 11
--= NULL

--- order_by_limit_in_a_subquery
SELECT o.id, p.kind FROM (SELECT id, price FROM orders WHERE price IS NOT NULL ORDER BY price, id LIMIT 6) AS o JOIN payments AS p ON o.id = p.order_id;
--: streaming, updates
--: id INT | kind STRING
--= 1 | 'card'
--= 10 | 'cash'
--= 7 | 'card'
--= 7 | 'card'

--- order_by_limit_with_nulls
SELECT g, d FROM numbers ORDER BY d, id DESC LIMIT 3;
--: streaming, updates
--: g STRING | d DOUBLE
--= 'a' | -1.5
--= 'z' | NULL
--= 'z' | NULL

--- order_by_limit_of_an_aggregate
SELECT COUNT(*) AS n, SUM(q) AS q FROM (SELECT qty AS q FROM orders WHERE qty IS NOT NULL ORDER BY qty DESC LIMIT 3);
--: streaming, updates
--: n BIGINT NOT NULL | q INT
--= 3 | 22

--- order_by_limit_beyond_the_rows
SELECT id FROM orders WHERE qty > 5 ORDER BY qty LIMIT 100;
--: streaming, updates
--: id INT
--= 16
--= 8
--= NULL

--- fetch_first
SELECT id, price FROM orders ORDER BY price DESC, id FETCH FIRST 3 ROWS ONLY;
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 11 | 99.99
--= 15 | 12.00
--= NULL | 12.34

--- fetch_next_after_offset
SELECT id, price FROM orders ORDER BY price DESC, id OFFSET 2 ROWS FETCH NEXT 2 ROWS ONLY;
--: streaming, updates
--: id INT | price DECIMAL(10, 2)
--= 15 | 12.00
--= 2 | 8.00

--- fetch_first_row
SELECT id, price FROM orders ORDER BY price DESC, id FETCH FIRST ROW ONLY;
--! refused: ParseException: Encountered "ROW" at line 1, column 66.

--- over_functions_that_are_the_same_once_computed
SELECT id, SUM(1) OVER w AS a, SUM(CHAR_LENGTH('b')) OVER w AS b FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--: streaming, stays
--: id INT | a INT NOT NULL | b INT NOT NULL
--= 1 | 1 | 1
--= 10 | 2 | 2
--= 11 | 1 | 1
--= 13 | 6 | 6
--= 14 | 4 | 4
--= 15 | 7 | 7
--= 16 | 3 | 3
--= 17 | 5 | 5
--= 2 | 1 | 1
--= 3 | 2 | 2
--= 4 | 1 | 1
--= 5 | 2 | 2
--= 6 | 1 | 1
--= 7 | 4 | 4
--= 7 | 4 | 4
--= 8 | 3 | 3
--= 9 | 5 | 5
--= NULL | 2 | 2


--- window_named_with_a_frame
SELECT id, SUM(qty) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, COUNT(*) OVER w AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--: batch
--: id INT | s INT | n BIGINT NOT NULL
--= 1 | 2 | 1
--= 10 | 5 | 2
--= 11 | -3 | 1
--= 13 | 12 | 6
--= 14 | 10 | 4
--= 15 | 13 | 7
--= 16 | 14 | 3
--= 17 | 13 | 5
--= 2 | 1 | 1
--= 3 | 7 | 2
--= 4 | 3 | 1
--= 5 | 1 | 2
--= 6 | 4 | 1
--= 7 | 11 | 4
--= 7 | 9 | 4
--= 8 | 8 | 3
--= 9 | 11 | 5
--= NULL | 3 | 2

--- window_named_with_an_order
SELECT id, COUNT(*) OVER (w ORDER BY ts) AS n FROM orders WINDOW w AS (PARTITION BY customer);
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 4
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- window_named_in_parentheses
SELECT id, COUNT(*) OVER (w) AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 4
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- window_of_another_name
SELECT id, COUNT(*) OVER w AS n FROM orders WINDOW v AS (PARTITION BY customer), w AS (v ORDER BY ts);
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 4
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- window_of_a_later_name
SELECT id, COUNT(*) OVER w AS n FROM orders WINDOW w AS (v ORDER BY ts), v AS (PARTITION BY customer);
--: streaming, stays
--: id INT | n BIGINT NOT NULL
--= 1 | 1
--= 10 | 2
--= 11 | 1
--= 13 | 6
--= 14 | 4
--= 15 | 7
--= 16 | 3
--= 17 | 5
--= 2 | 1
--= 3 | 2
--= 4 | 1
--= 5 | 2
--= 6 | 1
--= 7 | 4
--= 7 | 4
--= 8 | 3
--= 9 | 5
--= NULL | 2

--- window_named_twice
SELECT id, COUNT(*) OVER w AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts), w AS (ORDER BY ts);
--! refused: SqlValidatorException: Duplicate window names not allowed

--- window_that_is_divided_again
SELECT id, COUNT(*) OVER (w PARTITION BY qty ORDER BY ts) AS n FROM orders WINDOW w AS (PARTITION BY customer);
--! refused: SqlValidatorException: PARTITION BY not allowed with existing window reference

--- window_named_with_an_order_and_a_frame
SELECT id, SUM(qty) OVER (w ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders WINDOW w AS (PARTITION BY customer);
--: streaming, stays
--: id INT | s INT
--= 1 | 2
--= 10 | 5
--= 11 | -3
--= 13 | 12
--= 14 | 10
--= 15 | 13
--= 16 | 14
--= 17 | 13
--= 2 | 1
--= 3 | 7
--= 4 | 3
--= 5 | 1
--= 6 | 4
--= 7 | 11
--= 7 | 9
--= 8 | 8
--= 9 | 11
--= NULL | 3

--- window_that_is_ordered_again
SELECT id, COUNT(*) OVER (w ORDER BY ts) AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--! refused: SqlValidatorException: ORDER BY not allowed in both base and referenced windows

--- window_with_two_frames
SELECT id, SUM(qty) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
--! refused: SqlValidatorException: Referenced window cannot have framing declarations

--- window_of_an_inner_query
SELECT id, n, COUNT(*) OVER w AS m FROM (SELECT id, customer, ts, COUNT(*) OVER w AS n FROM orders WINDOW w AS (ORDER BY ts)) WINDOW w AS (PARTITION BY customer ORDER BY ts);
--: streaming, stays
--: id INT | n BIGINT NOT NULL | m BIGINT NOT NULL
--= 1 | 1 | 1
--= 10 | 12 | 2
--= 11 | 11 | 1
--= 13 | 14 | 6
--= 14 | 15 | 4
--= 15 | 16 | 7
--= 16 | 17 | 3
--= 17 | 18 | 5
--= 2 | 3 | 1
--= 3 | 2 | 2
--= 4 | 4 | 1
--= 5 | 8 | 2
--= 6 | 5 | 1
--= 7 | 8 | 4
--= 7 | 8 | 4
--= 8 | 10 | 3
--= 9 | 9 | 5
--= NULL | 13 | 2

--- window_name_in_other_case
SELECT id, COUNT(*) OVER W AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--! refused: SqlValidatorException: Window 'W' not found

--- window_name_that_is_unknown
SELECT id, COUNT(*) OVER v AS n FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts);
--! refused: SqlValidatorException: Window 'v' not found

--- qualify_over_a_window_with_a_name
SELECT id, customer FROM orders QUALIFY ROW_NUMBER() OVER w = 1 WINDOW w AS (PARTITION BY customer ORDER BY ts);
--! refused: ParseException: Encountered "WINDOW" at line 1, column 65.

--- qualify_after_the_window
SELECT id, customer FROM orders WINDOW w AS (PARTITION BY customer ORDER BY ts) QUALIFY ROW_NUMBER() OVER w = 1;
--: streaming, stays
--: id INT | customer STRING
--= 1 | 'ann'
--= 11 | 'dot'
--= 2 | 'bob'
--= 4 | NULL
--= 6 | 'cid'


--- latest_of_equal_times
SELECT id, item, ts FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY ts DESC) AS n FROM orders WHERE ts <= TIMESTAMP '2024-01-01 10:00:12') WHERE n = 1;
--: streaming, updates
--: id INT | item STRING | ts TIMESTAMP(3)
--= 7 | 'pen' | 2024-01-01 10:00:12.000000000

--- latest_to_come
SELECT customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY p DESC) AS n FROM (SELECT *, PROCTIME() AS p FROM orders)) WHERE n = 1;
--: streaming, updates
--: customer STRING | id INT
--= 'ann' | 15
--= 'bob' | 17
--= 'cid' | 16
--= 'dot' | NULL
--= NULL | 4

--- latest_of_equal_times_in_windows
SELECT id, window_end FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY ts DESC) AS n
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '13' SECOND)) WHERE ts <= TIMESTAMP '2024-01-01 10:00:12')
WHERE n = 1;
--: streaming, stays
--: id INT | window_end TIMESTAMP(3) NOT NULL
--= 2 | 2024-01-01 10:00:06.000000000
--= 7 | 2024-01-01 10:00:19.000000000

--- second_of_each
SELECT customer, price, n FROM (SELECT customer, price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders) WHERE n = 2;
--: streaming, updates
--: customer STRING | price DECIMAL(10, 2) | n BIGINT NOT NULL
--= 'ann' | 7.95 | 2
--= 'bob' | 7.95 | 2
--= 'cid' | 7.90 | 2
--= 'dot' | 12.34 | 2

--- second_of_each_without_the_number
SELECT customer, price FROM (SELECT customer, price, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS n FROM orders) WHERE n = 2;
--: streaming, updates
--: customer STRING | price DECIMAL(10, 2)
--= 'ann' | 7.95
--= 'bob' | 7.95
--= 'cid' | 7.90
--= 'dot' | 12.34

--- some_groups_counted
SELECT COUNT(*) AS n FROM (SELECT customer FROM (SELECT customer, COUNT(*) AS c FROM orders GROUP BY customer) WHERE c > 1 LIMIT 2);
--: streaming, updates
--: n BIGINT NOT NULL
--= 2

