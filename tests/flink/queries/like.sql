-- Tables that are like others.

--- like
CREATE TEMPORARY TABLE more (more_qty AS qty + 1) LIKE orders;
SELECT * FROM more WHERE id < 4;
--: streaming, stays
--: id INT | customer STRING | item STRING | qty INT | price DECIMAL(10, 2) | weight DOUBLE | ts TIMESTAMP(3) | more_qty INT
--= 1 | 'ann' | 'pen' | 2 | 1.50 | 0.5 | 2024-01-01 10:00:00.000000000 | 3
--= 2 | 'bob' | 'ink' | 1 | 8.00 | 1.25 | 2024-01-01 10:00:03.000000000 | 2
--= 3 | 'ann' | 'pad' | 5 | 3.20 | 2.0 | 2024-01-01 10:00:01.000000000 | 6

--- like_with_new_columns
CREATE TEMPORARY TABLE more (place STRING, big AS qty > 2) LIKE late_orders;
SELECT * FROM more WHERE id < 4;
--: streaming, stays
--: id INT | customer STRING | qty INT | ts TIMESTAMP(3) | place STRING | big BOOLEAN
--= 1 | 'ann' | 1 | 2024-01-01 10:00:01.000000000 | NULL | false
--= 2 | 'bob' | 2 | 2024-01-01 10:00:09.000000000 | NULL | false
--= 3 | 'ann' | 4 | 2024-01-01 10:00:17.000000000 | NULL | true

--- like_without_watermark
CREATE TEMPORARY TABLE more LIKE orders (EXCLUDING WATERMARKS);
SELECT customer, MAX(id) AS last FROM more GROUP BY customer;
--: streaming, updates
--: customer STRING | last INT
--= 'ann' | 15
--= 'bob' | 17
--= 'cid' | 16
--= 'dot' | 11
--= NULL | 4

--- like_with_another_watermark
CREATE TEMPORARY TABLE more (WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) LIKE late_orders (OVERWRITING WATERMARKS);
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE more, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
--: streaming, stays
--: window_start TIMESTAMP(3) NOT NULL | n BIGINT NOT NULL
--= 2024-01-01 10:00:00.000000000 | 4
--= 2024-01-01 10:00:10.000000000 | 3
--= 2024-01-01 10:00:20.000000000 | 1
--= 2024-01-01 10:00:30.000000000 | 1
--= 2024-01-01 10:00:40.000000000 | 1

--- like_with_two_watermarks
CREATE TEMPORARY TABLE more (WATERMARK FOR ts AS ts - INTERVAL '1' HOUR) LIKE late_orders;
SELECT id FROM more;
--! refused: ValidationException: There already exists a watermark spec for column 'ts' in the base table. You might want to specify EXCLUDING WATERMARKS or OVERWRITING WATERMARKS.

--- like_with_a_column_twice
CREATE TEMPORARY TABLE more (id BIGINT) LIKE orders;
SELECT id FROM more;
--! refused: ValidationException: A column named 'id' already exists in the base table.

--- like_with_an_option_twice
CREATE TEMPORARY TABLE numbered (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '9');
CREATE TEMPORARY TABLE more WITH ('number-of-rows' = '3') LIKE numbered (INCLUDING ALL);
SELECT n FROM more;
--! refused: ValidationException: There already exists an option ['number-of-rows' -> '2']  in the base table. You might want to specify EXCLUDING OPTIONS or OVERWRITING OPTIONS.

--- like_with_another_option
CREATE TEMPORARY TABLE numbered (n INT, twice AS n * 2) WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '9');
CREATE TEMPORARY TABLE more (twice AS n + n + 1, thrice AS n * 3) WITH ('number-of-rows' = '3') LIKE numbered (OVERWRITING GENERATED);
SELECT * FROM more;
--: streaming, stays
--: n INT | twice INT | thrice INT
--= 1 | 3 | 3
--= 2 | 5 | 6
--= 3 | 7 | 9

--- like_with_a_computed_column_twice
CREATE TEMPORARY TABLE numbered (n INT, twice AS n * 2) WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '9');
CREATE TEMPORARY TABLE more (twice AS n + n + 1) LIKE numbered;
SELECT * FROM more;
--! refused: ValidationException: A generated column named 'twice' already exists in the base table. You might want to specify EXCLUDING GENERATED or OVERWRITING GENERATED.

--- like_without_all
CREATE TEMPORARY TABLE numbered (n INT, twice AS n * 2) WITH ('connector' = 'blackhole');
CREATE TEMPORARY TABLE more WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '9') LIKE numbered (EXCLUDING ALL INCLUDING GENERATED);
SELECT * FROM more;
--: streaming, stays
--: n INT | twice INT
--= 1 | 2
--= 2 | 4

--- like_with_commas
CREATE TEMPORARY TABLE more LIKE orders (EXCLUDING WATERMARKS, INCLUDING GENERATED);
SELECT id FROM more WHERE id < 3;
--! refused: ParseException: Encountered "," at line 1, column 62.

--- like_of_a_view
CREATE TEMPORARY VIEW more AS SELECT id FROM orders;
CREATE TEMPORARY TABLE most LIKE more;
SELECT id FROM most;
--! refused: ValidationException: Source table '`default_catalog`.`default_database`.`more`' of the LIKE clause can not be a VIEW, at line 1, column 34

--- names_of_catalog_and_database
SELECT l.v, r.w FROM default_catalog.default_database.lefts AS l JOIN default_database.rights AS r ON l.k = r.k;
--: streaming, stays
--: v STRING | w STRING
--= 'b' | 'p'
--= 'b' | 'p'
--= 'b' | 'q'
--= 'b' | 'q'
--= 'c' | 'p'
--= 'c' | 'q'
--= 'd' | 'r'
--= 'd' | 'r'
--= NULL | NULL

