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
CREATE TABLE nested (
    id INT, person ROW<name STRING, address ROW<city STRING NOT NULL, zip INT>>, tags ARRAY<ROW<k STRING, v ARRAY<INT>>>,
    raw BYTES, t TIME, n NUMERIC(5, 2) COMMENT 'a number', `the day` DATE,
    CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'all types' WITH ('connector' = 'stream');
CREATE TABLE out (city STRING, zip INT, n DOUBLE, d STRING) WITH ('connector' = 'print');
DESCRIBE nested;
INSERT INTO out SELECT person.address.city, nested.person.address.zip, n, DATE_FORMAT(`the day`, 'yyyy/MM/dd ''at'' HH') FROM nested WHERE person.name <> 'x';
