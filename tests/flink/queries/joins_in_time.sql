-- Joins that event time bounds.

--- interval_join
SELECT o.id, p.kind, o.ts AS ots, p.ts AS pts FROM orders AS o JOIN payments AS p
ON o.id = p.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' SECOND;
--: streaming, stays
--: id INT | kind STRING | ots TIMESTAMP(3) | pts TIMESTAMP(3)
--= 1 | 'card' | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:02.000000000
--= 10 | 'cash' | 2024-01-01 10:00:30.000000000 | 2024-01-01 10:00:31.000000000
--= 14 | 'card' | 2024-01-01 10:01:05.000000000 | 2024-01-01 10:01:10.000000000
--= 16 | 'cash' | 2024-01-01 10:01:59.999000000 | 2024-01-01 10:02:03.000000000
--= 17 | 'card' | 2024-01-01 10:02:00.000000000 | 2024-01-01 10:02:01.000000000
--= 2 | 'cash' | 2024-01-01 10:00:03.000000000 | 2024-01-01 10:00:08.000000000
--= 3 | 'card' | 2024-01-01 10:00:01.000000000 | 2024-01-01 10:00:05.000000000
--= 3 | 'cash' | 2024-01-01 10:00:01.000000000 | 2024-01-01 10:00:09.000000000
--= 5 | NULL | 2024-01-01 10:00:12.000000000 | 2024-01-01 10:00:13.000000000

--- interval_left_join
SELECT o.id, p.kind FROM orders AS o LEFT JOIN payments AS p
ON o.id = p.order_id AND p.ts BETWEEN o.ts - INTERVAL '1' SECOND AND o.ts + INTERVAL '5' SECOND;
--: streaming, stays
--: id INT | kind STRING
--= 1 | 'card'
--= 10 | 'cash'
--= 11 | NULL
--= 13 | NULL
--= 14 | 'card'
--= 15 | NULL
--= 16 | 'cash'
--= 17 | 'card'
--= 2 | 'cash'
--= 3 | 'card'
--= 4 | NULL
--= 5 | NULL
--= 6 | NULL
--= 7 | NULL
--= 7 | NULL
--= 8 | NULL
--= 9 | NULL
--= NULL | NULL

--- interval_right_join
SELECT o.id, p.order_id, p.kind FROM orders AS o RIGHT JOIN payments AS p
ON o.id = p.order_id AND o.ts BETWEEN p.ts - INTERVAL '5' SECOND AND p.ts;
--: streaming, stays
--: id INT | order_id INT | kind STRING
--= 1 | 1 | 'card'
--= 10 | 10 | 'cash'
--= 14 | 14 | 'card'
--= 16 | 16 | 'cash'
--= 17 | 17 | 'card'
--= 2 | 2 | 'cash'
--= 3 | 3 | 'card'
--= 5 | 5 | NULL
--= NULL | 13 | 'card'
--= NULL | 3 | 'cash'
--= NULL | 7 | 'card'
--= NULL | 99 | 'card'
--= NULL | NULL | 'card'

--- interval_full_join
SELECT o.id, p.order_id, p.amount FROM orders AS o FULL JOIN payments AS p
ON o.id = p.order_id AND o.ts BETWEEN p.ts - INTERVAL '5' SECOND AND p.ts;
--: streaming, stays
--: id INT | order_id INT | amount DECIMAL(10, 2)
--= 1 | 1 | 3.00
--= 10 | 10 | 1.60
--= 11 | NULL | NULL
--= 13 | NULL | NULL
--= 14 | 14 | 15.90
--= 15 | NULL | NULL
--= 16 | 16 | 71.10
--= 17 | 17 | 9.45
--= 2 | 2 | 8.00
--= 3 | 3 | 10.00
--= 4 | NULL | NULL
--= 5 | 5 | NULL
--= 6 | NULL | NULL
--= 7 | NULL | NULL
--= 7 | NULL | NULL
--= 8 | NULL | NULL
--= 9 | NULL | NULL
--= NULL | 13 | 7.95
--= NULL | 3 | 6.00
--= NULL | 7 | 7.00
--= NULL | 99 | 5.00
--= NULL | NULL | 1.00
--= NULL | NULL | NULL

--- interval_join_with_a_condition
SELECT o.id, p.kind FROM orders AS o LEFT JOIN payments AS p
ON o.id = p.order_id AND p.ts >= o.ts AND p.ts < o.ts + INTERVAL '1' MINUTE AND p.amount > 7;
--: streaming, stays
--: id INT | kind STRING
--= 1 | NULL
--= 10 | NULL
--= 11 | NULL
--= 13 | 'card'
--= 14 | 'card'
--= 15 | NULL
--= 16 | 'cash'
--= 17 | 'card'
--= 2 | 'cash'
--= 3 | 'card'
--= 4 | NULL
--= 5 | NULL
--= 6 | NULL
--= 7 | NULL
--= 7 | NULL
--= 8 | NULL
--= 9 | NULL
--= NULL | NULL

--- interval_join_in_where
SELECT o.id, p.kind FROM orders AS o, payments AS p
WHERE o.id = p.order_id AND p.ts > o.ts AND p.ts <= o.ts + INTERVAL '8' SECOND;
--: streaming, stays
--: id INT | kind STRING
--= 1 | 'card'
--= 10 | 'cash'
--= 14 | 'card'
--= 16 | 'cash'
--= 17 | 'card'
--= 2 | 'cash'
--= 3 | 'card'
--= 3 | 'cash'
--= 5 | NULL

--- interval_join_then_window
CREATE TEMPORARY VIEW paid AS SELECT o.ts FROM orders AS o JOIN payments AS p ON o.id = p.order_id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '30' SECOND;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE paid, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | window_end TIMESTAMP(3) NOT NULL | n BIGINT NOT NULL
--= 2024-01-01 10:00:00.000000000 | 2024-01-01 10:01:00.000000000 | 9
--= 2024-01-01 10:01:00.000000000 | 2024-01-01 10:02:00.000000000 | 2
--= 2024-01-01 10:02:00.000000000 | 2024-01-01 10:03:00.000000000 | 1

--- interval_semi_join
SELECT o.id FROM orders AS o WHERE o.id IN (SELECT p.order_id FROM payments AS p WHERE p.ts BETWEEN o.ts AND o.ts + INTERVAL '10' SECOND);
--: streaming, stays
--: id INT
--= 1
--= 10
--= 14
--= 16
--= 17
--= 2
--= 3
--= 5

--- window_join
SELECT o.id, p.order_id, o.window_start, o.window_end
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS o
JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS p
ON o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end;
--: streaming, stays
--: id INT | order_id INT | window_start TIMESTAMP(3) NOT NULL | window_end TIMESTAMP(3) NOT NULL
--= 1 | 1 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 10 | 10 | 2024-01-01 10:00:30.000000000 | 2024-01-01 10:00:40.000000000
--= 17 | 17 | 2024-01-01 10:02:00.000000000 | 2024-01-01 10:02:10.000000000
--= 2 | 2 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 3 | 3 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 3 | 3 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 5 | 5 | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000

--- window_left_join
SELECT o.id, p.kind, o.window_start
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS o
LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS p
ON o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end;
--: streaming, stays
--: id INT | kind STRING | window_start TIMESTAMP(3) NOT NULL
--= 1 | 'card' | 2024-01-01 10:00:00.000000000
--= 10 | 'cash' | 2024-01-01 10:00:30.000000000
--= 11 | NULL | 2024-01-01 10:00:20.000000000
--= 13 | NULL | 2024-01-01 10:00:40.000000000
--= 14 | NULL | 2024-01-01 10:01:00.000000000
--= 15 | NULL | 2024-01-01 10:01:00.000000000
--= 16 | NULL | 2024-01-01 10:01:50.000000000
--= 17 | 'card' | 2024-01-01 10:02:00.000000000
--= 2 | 'cash' | 2024-01-01 10:00:00.000000000
--= 3 | 'card' | 2024-01-01 10:00:00.000000000
--= 3 | 'cash' | 2024-01-01 10:00:00.000000000
--= 4 | NULL | 2024-01-01 10:00:00.000000000
--= 5 | NULL | 2024-01-01 10:00:10.000000000
--= 6 | NULL | 2024-01-01 10:00:00.000000000
--= 7 | NULL | 2024-01-01 10:00:10.000000000
--= 7 | NULL | 2024-01-01 10:00:10.000000000
--= 8 | NULL | 2024-01-01 10:00:20.000000000
--= 9 | NULL | 2024-01-01 10:00:10.000000000
--= NULL | NULL | 2024-01-01 10:00:30.000000000

--- window_full_join
SELECT o.id, p.order_id, COALESCE(o.window_start, p.window_start) AS s, COALESCE(o.window_end, p.window_end) AS e
FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS o
FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS p
ON o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end;
--: streaming, stays
--: id INT | order_id INT | s TIMESTAMP(3) | e TIMESTAMP(3)
--= 1 | 1 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 10 | 10 | 2024-01-01 10:00:30.000000000 | 2024-01-01 10:00:40.000000000
--= 11 | NULL | 2024-01-01 10:00:20.000000000 | 2024-01-01 10:00:30.000000000
--= 13 | NULL | 2024-01-01 10:00:40.000000000 | 2024-01-01 10:00:50.000000000
--= 14 | NULL | 2024-01-01 10:01:00.000000000 | 2024-01-01 10:01:10.000000000
--= 15 | NULL | 2024-01-01 10:01:00.000000000 | 2024-01-01 10:01:10.000000000
--= 16 | NULL | 2024-01-01 10:01:50.000000000 | 2024-01-01 10:02:00.000000000
--= 17 | 17 | 2024-01-01 10:02:00.000000000 | 2024-01-01 10:02:10.000000000
--= 2 | 2 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 3 | 3 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 3 | 3 | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 4 | NULL | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 5 | 5 | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000
--= 6 | NULL | 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:10.000000000
--= 7 | NULL | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000
--= 7 | NULL | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000
--= 8 | NULL | 2024-01-01 10:00:20.000000000 | 2024-01-01 10:00:30.000000000
--= 9 | NULL | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000
--= NULL | 13 | 2024-01-01 10:00:50.000000000 | 2024-01-01 10:01:00.000000000
--= NULL | 14 | 2024-01-01 10:01:10.000000000 | 2024-01-01 10:01:20.000000000
--= NULL | 16 | 2024-01-01 10:02:00.000000000 | 2024-01-01 10:02:10.000000000
--= NULL | 7 | 2024-01-01 10:00:20.000000000 | 2024-01-01 10:00:30.000000000
--= NULL | 99 | 2024-01-01 10:00:20.000000000 | 2024-01-01 10:00:30.000000000
--= NULL | NULL | 2024-01-01 10:00:10.000000000 | 2024-01-01 10:00:20.000000000
--= NULL | NULL | 2024-01-01 10:00:30.000000000 | 2024-01-01 10:00:40.000000000

--- window_semi_join
SELECT id, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS o
WHERE EXISTS (SELECT 1 FROM (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS p
  WHERE o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end);
--: streaming, stays
--: id INT | window_start TIMESTAMP(3) NOT NULL
--= 1 | 2024-01-01 10:00:00.000000000
--= 10 | 2024-01-01 10:00:30.000000000
--= 17 | 2024-01-01 10:02:00.000000000
--= 2 | 2024-01-01 10:00:00.000000000
--= 3 | 2024-01-01 10:00:00.000000000
--= 5 | 2024-01-01 10:00:10.000000000

--- window_anti_join
SELECT id, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS o
WHERE NOT EXISTS (SELECT 1 FROM (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND))) AS p
  WHERE o.id = p.order_id AND o.window_start = p.window_start AND o.window_end = p.window_end);
--: streaming, stays
--: id INT | window_start TIMESTAMP(3) NOT NULL
--= 11 | 2024-01-01 10:00:20.000000000
--= 13 | 2024-01-01 10:00:40.000000000
--= 14 | 2024-01-01 10:01:00.000000000
--= 15 | 2024-01-01 10:01:00.000000000
--= 16 | 2024-01-01 10:01:50.000000000
--= 4 | 2024-01-01 10:00:00.000000000
--= 6 | 2024-01-01 10:00:00.000000000
--= 7 | 2024-01-01 10:00:10.000000000
--= 7 | 2024-01-01 10:00:10.000000000
--= 8 | 2024-01-01 10:00:20.000000000
--= 9 | 2024-01-01 10:00:10.000000000
--= NULL | 2024-01-01 10:00:30.000000000

--- window_join_of_aggregates
SELECT o.window_start, o.window_end, n, total FROM (
  SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end) AS o
JOIN (
  SELECT window_start, window_end, SUM(amount) AS total FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end) AS p
ON o.window_start = p.window_start AND o.window_end = p.window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | window_end TIMESTAMP(3) NOT NULL | n BIGINT NOT NULL | total DECIMAL(38, 2)
--= 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:30.000000000 | 11 | 40.00
--= 2024-01-01 10:00:30.000000000 | 2024-01-01 10:01:00.000000000 | 3 | 9.55
--= 2024-01-01 10:01:00.000000000 | 2024-01-01 10:01:30.000000000 | 2 | 15.90
--= 2024-01-01 10:02:00.000000000 | 2024-01-01 10:02:30.000000000 | 1 | 80.55

--- temporal_join
SELECT t.id, t.currency, r.rate, t.amount * r.rate AS euros FROM trades AS t JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
--: streaming, stays
--: id INT | currency STRING | rate DECIMAL(10, 4) | euros DECIMAL(21, 6)
--= 2 | 'EUR' | 1.1000 | 11.000000
--= 3 | 'YEN' | 0.0065 | 6.500000
--= 4 | 'EUR' | 1.2000 | 12.000000
--= 7 | 'EUR' | 1.1500 | 23.000000
--= 8 | 'CHF' | 1.0500 | NULL
--= 9 | 'YEN' | 0.0070 | 3.500000

--- temporal_left_join
SELECT t.id, t.currency, r.rate, r.ts FROM trades AS t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
--: streaming, stays
--: id INT | currency STRING | rate DECIMAL(10, 4) | ts TIMESTAMP(3)
--= 1 | 'EUR' | NULL | NULL
--= 2 | 'EUR' | 1.1000 | 2024-01-01 10:00:00.000000000
--= 3 | 'YEN' | 0.0065 | 2024-01-01 10:00:00.000000000
--= 4 | 'EUR' | 1.2000 | 2024-01-01 10:00:10.000000000
--= 5 | NULL | NULL | NULL
--= 6 | 'CHF' | NULL | NULL
--= 7 | 'EUR' | 1.1500 | 2024-01-01 10:00:20.000000000
--= 8 | 'CHF' | 1.0500 | 2024-01-01 10:00:25.000000000
--= 9 | 'YEN' | 0.0070 | 2024-01-01 10:00:30.000000000

--- temporal_join_with_a_condition
SELECT t.id, r.rate FROM trades AS t LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency AND r.rate > 1;
--: streaming, stays
--: id INT | rate DECIMAL(10, 4)
--= 1 | NULL
--= 2 | 1.1000
--= 3 | NULL
--= 4 | 1.2000
--= 5 | NULL
--= 6 | NULL
--= 7 | 1.1500
--= 8 | 1.0500
--= 9 | NULL

--- temporal_join_of_a_view
CREATE TEMPORARY VIEW latest AS SELECT currency, rate, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY currency ORDER BY ts DESC) AS n FROM rates) WHERE n = 1;
SELECT t.id, r.rate FROM trades AS t JOIN latest FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
--: streaming, stays
--: id INT | rate DECIMAL(10, 4)
--= 2 | 1.1000
--= 3 | 0.0065
--= 4 | 1.2000
--= 7 | 1.1500
--= 8 | 1.0500
--= 9 | 0.0070

--- temporal_join_then_window
CREATE TEMPORARY VIEW converted AS SELECT t.ts, t.amount * r.rate AS euros FROM trades AS t JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency;
SELECT window_start, window_end, SUM(euros) AS euros FROM TABLE(TUMBLE(TABLE converted, DESCRIPTOR(ts), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | window_end TIMESTAMP(3) NOT NULL | euros DECIMAL(38, 6)
--= 2024-01-01 10:00:00.000000000 | 2024-01-01 10:00:30.000000000 | 52.500000
--= 2024-01-01 10:00:30.000000000 | 2024-01-01 10:01:00.000000000 | 3.500000

--- join_drops_the_event_time
SELECT o.ts, p.kind FROM orders AS o JOIN payments AS p ON o.id = p.order_id;
--: streaming, stays
--: ts TIMESTAMP(3) | kind STRING
--= 2024-01-01 10:00:00.000000000 | 'card'
--= 2024-01-01 10:00:01.000000000 | 'card'
--= 2024-01-01 10:00:01.000000000 | 'cash'
--= 2024-01-01 10:00:03.000000000 | 'cash'
--= 2024-01-01 10:00:12.000000000 | 'card'
--= 2024-01-01 10:00:12.000000000 | 'card'
--= 2024-01-01 10:00:12.000000000 | NULL
--= 2024-01-01 10:00:30.000000000 | 'cash'
--= 2024-01-01 10:00:40.000000000 | 'card'
--= 2024-01-01 10:01:05.000000000 | 'card'
--= 2024-01-01 10:01:59.999000000 | 'cash'
--= 2024-01-01 10:02:00.000000000 | 'card'

