-- Rows of the connector datagen. Random values have one possible value here.

--- datagen_sequences
CREATE TEMPORARY TABLE g (a INT, b BIGINT, c STRING, d DOUBLE, e SMALLINT, f TINYINT, h FLOAT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '5',
  'fields.b.kind' = 'sequence', 'fields.b.start' = '-2', 'fields.b.end' = '2',
  'fields.c.kind' = 'sequence', 'fields.c.start' = '10', 'fields.c.end' = '14',
  'fields.d.kind' = 'sequence', 'fields.d.start' = '0', 'fields.d.end' = '4',
  'fields.e.kind' = 'sequence', 'fields.e.start' = '7', 'fields.e.end' = '11',
  'fields.f.kind' = 'sequence', 'fields.f.start' = '-5', 'fields.f.end' = '-1',
  'fields.h.kind' = 'sequence', 'fields.h.start' = '1', 'fields.h.end' = '5');
SELECT * FROM g;
--: streaming, stays
--: a INT | b BIGINT | c STRING | d DOUBLE | e SMALLINT | f TINYINT | h FLOAT
--= 1 | -2 | '10' | 0.0 | 7 | -5 | 1.0
--= 2 | -1 | '11' | 1.0 | 8 | -4 | 2.0
--= 3 | 0 | '12' | 2.0 | 9 | -3 | 3.0
--= 4 | 1 | '13' | 3.0 | 10 | -2 | 4.0
--= 5 | 2 | '14' | 4.0 | 11 | -1 | 5.0

--- datagen_shortest_sequence
CREATE TEMPORARY TABLE g (a INT, b BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '3',
  'fields.b.kind' = 'sequence', 'fields.b.start' = '1', 'fields.b.end' = '100');
SELECT COUNT(*) AS n, MAX(b) AS b FROM g;
--: streaming, updates
--: n BIGINT NOT NULL | b BIGINT
--= 3 | 3

--- datagen_bounds_of_whole_numbers
CREATE TEMPORARY TABLE g (a INT, b BIGINT, f SMALLINT, h TINYINT) WITH (
  'connector' = 'datagen', 'number-of-rows' = '100',
  'fields.a.min' = '7', 'fields.a.max' = '8', 'fields.b.min' = '-2', 'fields.b.max' = '-1',
  'fields.f.min' = '9', 'fields.f.max' = '11', 'fields.h.min' = '-3', 'fields.h.max' = '-1');
SELECT MIN(a) AS a, MAX(a) AS a2, MIN(b) AS b, MAX(b) AS b2, MIN(f) AS f, MAX(f) AS f2, MIN(h) AS h, MAX(h) AS h2 FROM g;
--: streaming, updates
--: a INT | a2 INT | b BIGINT | b2 BIGINT | f SMALLINT | f2 SMALLINT | h TINYINT | h2 TINYINT
--= 7 | 8 | -2 | -1 | 9 | 11 | -3 | -1

--- datagen_lengths
CREATE TEMPORARY TABLE g (a STRING, b VARCHAR(7), c CHAR(4), d BYTES, e ARRAY<INT>, f STRING) WITH (
  'connector' = 'datagen', 'number-of-rows' = '2', 'fields.f.length' = '12');
SELECT CHAR_LENGTH(a) AS a, CHAR_LENGTH(b) AS b, CHAR_LENGTH(c) AS c, CARDINALITY(e) AS e, CHAR_LENGTH(f) AS f, f SIMILAR TO '[0-9a-f]*' AS h FROM g;
--: streaming, stays
--: a INT | b INT | c INT | e INT | f INT | h BOOLEAN
--= 100 | 7 | 4 | 3 | 12 | true
--= 100 | 7 | 4 | 3 | 12 | true

--- datagen_nulls
CREATE TEMPORARY TABLE g (a INT, b STRING, c TIMESTAMP(3), d BOOLEAN) WITH ('connector' = 'datagen', 'number-of-rows' = '2',
  'fields.a.null-rate' = '1', 'fields.b.null-rate' = '1', 'fields.c.null-rate' = '1', 'fields.d.null-rate' = '1');
SELECT * FROM g;
--: streaming, stays
--: a INT | b STRING | c TIMESTAMP(3) | d BOOLEAN
--= NULL | NULL | NULL | NULL
--= NULL | NULL | NULL | NULL

--- datagen_bounds_of_random_values
CREATE TEMPORARY TABLE g (a INT, b BIGINT, c DOUBLE, d DECIMAL(8, 2), e TINYINT) WITH ('connector' = 'datagen', 'number-of-rows' = '200',
  'fields.a.min' = '1', 'fields.a.max' = '3', 'fields.b.min' = '-2', 'fields.b.max' = '-1', 'fields.c.min' = '0', 'fields.c.max' = '1',
  'fields.d.min' = '10', 'fields.d.max' = '11');
SELECT COUNT(*) AS n, MIN(a) AS lo, MAX(a) AS hi, COUNT(DISTINCT b) AS bs, MIN(c) >= 0 AND MAX(c) < 1 AS cs, MIN(d) >= 10 AND MAX(d) <= 11 AS ds FROM g;
--: streaming, updates
--: n BIGINT NOT NULL | lo INT | hi INT | bs BIGINT NOT NULL | cs BOOLEAN | ds BOOLEAN
--= 200 | 1 | 3 | 2 | true | true

--- datagen_nested
CREATE TEMPORARY TABLE g (r ROW<x INT, y STRING>, a ARRAY<INT>, m MAP<INT, INT>) WITH ('connector' = 'datagen', 'number-of-rows' = '2',
  'fields.r.x.min' = '4', 'fields.r.x.max' = '5', 'fields.r.y.length' = '3', 'fields.a.element.min' = '6', 'fields.a.element.max' = '7', 'fields.a.length' = '2',
  'fields.m.key.min' = '1', 'fields.m.key.max' = '2', 'fields.m.value.min' = '2', 'fields.m.value.max' = '3');
SELECT r.x IN (4, 5) AS x, CHAR_LENGTH(r.y) AS y, CARDINALITY(a) AS a, a[1] > 5 AS b, CARDINALITY(m) > 0 AS m FROM g;
--: streaming, stays
--: x BOOLEAN | y INT | a INT | b BOOLEAN | m BOOLEAN
--= true | 3 | 2 | true | true
--= true | 3 | 2 | true | true

--- datagen_computed_columns
CREATE TEMPORARY TABLE g (a INT, b AS a * 2, c AS 'x') WITH ('connector' = 'datagen', 'rows-per-second' = '100',
  'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '3');
SELECT * FROM g;
--: streaming, stays
--: a INT | b INT | c CHAR(1) NOT NULL
--= 1 | 2 | 'x'
--= 2 | 4 | 'x'
--= 3 | 6 | 'x'

--- datagen_unknown_option
CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen', 'fields.a.maximum' = '3', 'number-of-rows' = '1');
SELECT * FROM g;
--! refused: ValidationException: Unsupported options found for 'datagen'.

--- datagen_sequence_with_number_of_rows
CREATE TEMPORARY TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '5');
SELECT * FROM g;
--: streaming, stays
--: a INT
--= 1
--= 2

