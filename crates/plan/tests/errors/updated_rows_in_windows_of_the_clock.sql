CREATE TABLE people (id BIGINT, p AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'changes');
CREATE TABLE out (n BIGINT) WITH ('connector' = 'print');
INSERT INTO out
SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE people, DESCRIPTOR(p), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
