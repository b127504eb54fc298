-- error: a subquery that stands for one value gives
CREATE TABLE orders (id BIGINT, item STRING) WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, other BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT id, (SELECT id FROM orders WHERE item = 'tea') FROM orders;
