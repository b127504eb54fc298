CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (what STRING, item STRING, window_start TIMESTAMP(3), window_end TIMESTAMP(3), n BIGINT, place BIGINT) WITH ('connector' = 'collect');
CREATE VIEW counts AS
SELECT item, window_start, window_end, window_time, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY item, window_start, window_end, window_time;
INSERT INTO results
SELECT 'of counts', item, window_start, window_end, n, place
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, item) AS place FROM counts) WHERE place <= 2;
INSERT INTO results
SELECT 'of rows', item, window_start, window_end, id, place
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, item ORDER BY at DESC) AS place
      FROM TABLE(HOP(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND, INTERVAL '10' SECOND))) WHERE place = 1 AND id < 7;
CREATE VIEW best AS
SELECT item, window_time AS wt, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC, item DESC) AS place FROM counts) WHERE place <= 1;
INSERT INTO results
SELECT 'again', MAX(item), window_start, window_end, SUM(n), COUNT(*) FROM TABLE(TUMBLE(TABLE best, DESCRIPTOR(wt), INTERVAL '30' SECOND)) GROUP BY window_start, window_end;
INSERT INTO results
SELECT 'sessions', item, window_start, window_end, n, place
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place FROM (
  SELECT item, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE orders PARTITION BY item, DESCRIPTOR(at), INTERVAL '9' SECOND)) GROUP BY item, window_start, window_end
)) WHERE place <= 1;
