-- The tables of the queries. The rows of each are in a file of its name, JSON or CSV, in the order in which they come.

-- Out of order within the bound, equal rows, and NULL in each column but the event time.
CREATE TABLE orders (
  id INT, customer STRING, item STRING, qty INT, price DECIMAL(10, 2), weight DOUBLE, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);

CREATE TABLE payments (
  order_id INT, kind STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);

-- Rows that come after their windows have ended, and rows beyond the bound whose windows have not.
CREATE TABLE late_orders (
  id INT, customer STRING, qty INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
);

-- An instant as the event time.
CREATE TABLE clicks (
  visitor STRING, url STRING, ts TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
);

-- An event time that is NULL.
CREATE TABLE null_times (
  id INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
);

-- A column of each type.
CREATE TABLE numbers (
  id INT, g STRING, ti TINYINT, si SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, dc DECIMAL(10, 2), s STRING,
  b BOOLEAN, dt DATE, ts TIMESTAMP(3), p VARCHAR(5)
);

-- No rows.
CREATE TABLE nothing (
  id INT, g STRING, i INT, d DOUBLE, s STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts
);

CREATE TABLE nested (
  id INT, tags ARRAY<STRING>, items ARRAY<ROW<name STRING, qty INT>>, attrs MAP<STRING, INT>, r ROW<x INT, y STRING>
);

-- Keys that are NULL, keys that come twice, equal rows.
CREATE TABLE lefts (k INT, v STRING);
CREATE TABLE rights (k INT, w STRING);
-- The same without NULL.
CREATE TABLE some_keys (k INT NOT NULL);

-- Versions by time.
CREATE TABLE rates (
  currency STRING, rate DECIMAL(10, 4), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
);

CREATE TABLE trades (
  id INT, currency STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
);

-- Files of CSV.
CREATE TABLE lines_of_csv (id INT, name STRING, amount DECIMAL(6, 2), ok BOOLEAN, ts TIMESTAMP(3), day_of DATE);

-- Instants around changes of clocks: in New York and in Sao Paulo.
CREATE TABLE visits (
  id INT, who STRING, n INT, ts TIMESTAMP_LTZ(3),
  WATERMARK FOR ts AS ts - INTERVAL '10' MINUTE
);
