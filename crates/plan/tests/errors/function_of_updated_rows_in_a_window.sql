CREATE TABLE people (id INT, v DOUBLE, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts) WITH ('connector' = 'changes');
CREATE TABLE out (c DOUBLE) WITH ('connector' = 'print');
INSERT INTO out SELECT CORR(v, id) FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
