CREATE TABLE events (
    user_id STRING, page_id STRING, ad_id STRING, event_type STRING, price DOUBLE, amount INT,
    event_time BIGINT,
    ts AS TO_TIMESTAMP_LTZ(event_time, 3),
    WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'stream', 'scan.idle-timeout' = '10 s');
CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE campaigns WITH ('connector' = 'ad_campaigns');
CREATE TABLE rates (currency STRING, rate DECIMAL(10, 4), valid DATE) WITH ('connector' = 'filesystem');
CREATE TABLE by_page (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'sink.parallelism' = '3');
CREATE TABLE numbers (n BIGINT, pages BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE seen (page STRING NOT NULL, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
CREATE TABLE shown (page STRING, n BIGINT) WITH ('connector' = 'print');
INSERT INTO by_page SELECT CAST(page AS STRING), COUNT(*) FROM clicks WHERE page IS NOT NULL GROUP BY page HAVING COUNT(*) > 1;
INSERT INTO numbers SELECT n, COUNT(*) FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) GROUP BY n;
INSERT INTO seen SELECT DISTINCT page FROM clicks;
INSERT INTO shown SELECT page, COUNT(*) FROM clicks GROUP BY page UNION ALL SELECT 'x', 1 FROM clicks;
CREATE TABLE in_database (page STRING, n BIGINT, PRIMARY KEY (page) NOT ENFORCED) WITH ('connector' = 'jdbc');
INSERT INTO in_database SELECT page, COUNT(*) FROM clicks GROUP BY page;
