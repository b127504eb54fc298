CREATE TABLE orders (id INT) WITH ('connector' = 'kafka', 'topic' = 'a');
CREATE TABLE days (dt STRING, id INT) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = 'out');
INSERT INTO days PARTITION (id = 1) SELECT 'a';
