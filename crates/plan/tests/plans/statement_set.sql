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
SET 'job-name' = 'both';
SET 'epoch-interval' = '1 s';
SET parallelism.default = 3;
CREATE TEMPORARY TABLE a (id BIGINT) WITH ('connector' = 'print');
CREATE TABLE IF NOT EXISTS a (other STRING) WITH ('connector' = 'print');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO a SELECT id FROM clicks;
  INSERT INTO a WITH big AS (SELECT * FROM clicks WHERE id > 10) SELECT id + 1 FROM big;
END;
SHOW TABLES;
SET;
