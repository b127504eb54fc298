-- Records that are changes are read as versions where rows have a key, and an event time or metadata of the last record. Here without: 'place' is kept.
CREATE TABLE rates (k STRING, rate INT, at TIMESTAMP(3) METADATA FROM 'time' VIRTUAL, PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR at AS at)
  WITH ('connector' = 'changes');
CREATE TABLE people (id INT, name STRING, place INT METADATA VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE seen (id INT, name STRING, `time` TIMESTAMP(3) METADATA VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE orders (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 'orders');
CREATE TABLE out (id INT, rate INT) WITH ('connector' = 'print');
CREATE TABLE times (id INT, place INT, `time` TIMESTAMP(3)) WITH ('connector' = 'print');
INSERT INTO out SELECT o.id, r.rate FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k;
INSERT INTO times SELECT id, place, CAST(NULL AS TIMESTAMP(3)) FROM people;
INSERT INTO times SELECT id, 0, `time` FROM seen;
INSERT INTO out SELECT CAST(COUNT(*) AS INT), MAX(rate) FROM TABLE(TUMBLE(TABLE rates, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
