CREATE TABLE days (dt DATE, id INT) PARTITIONED BY (dt) WITH ('connector' = 'filesystem', 'path' = 'out');
INSERT INTO days PARTITION (dt = 'soon') SELECT 1;
