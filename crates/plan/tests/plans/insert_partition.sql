CREATE TABLE orders (id INT, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 'a');
CREATE TABLE days (dt STRING, id INT, hour_of INT) PARTITIONED BY (dt, hour_of) WITH ('connector' = 'filesystem', 'path' = 'out');
INSERT INTO days PARTITION (hour_of = '7', dt = '2024-01-01') SELECT id FROM orders;
INSERT INTO days PARTITION (dt = 'x') (hour_of, id) SELECT 1, id FROM orders;
