-- error: items.csv line 1
CREATE TABLE items (item BIGINT) WITH ('connector' = 'filesystem', 'path' = '$DATA/items.csv', 'format' = 'json');
CREATE TABLE results (item BIGINT) WITH ('connector' = 'collect');
INSERT INTO results SELECT item FROM items;
