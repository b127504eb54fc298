CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json', 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '5 s');
CREATE TABLE readings (n BIGINT, sensor STRING, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '60' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/readings', 'format' = 'json', 'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '0 s', 'scan.watermark.alignment.update-interval' = '10 ms');
CREATE TABLE results (id BIGINT, n BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'collect');
INSERT INTO results
SELECT o.id, r.n, r.at FROM orders o JOIN readings r ON o.amount = r.n AND r.at BETWEEN o.at - INTERVAL '20' SECOND AND o.at + INTERVAL '20' SECOND;
INSERT INTO results
SELECT COUNT(*), COUNT(at), window_start FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '10' SECOND)) GROUP BY window_start, window_end;
