CREATE TABLE views (user_id STRING, page_id STRING, ad_id STRING, at TIMESTAMP(3), WATERMARK FOR at AS at)
WITH ('connector' = 'stream');
CREATE TABLE days (ad_id STRING, day STRING, name STRING) WITH ('connector' = 'filesystem');
CREATE TABLE results (a STRING, b STRING, c STRING) WITH ('connector' = 'print');
INSERT INTO results
SELECT page_id, DATE_FORMAT(window_start, 'HH:mm'), ad_id
FROM TABLE(TUMBLE(TABLE views, DESCRIPTOR(at), INTERVAL '10' SECOND)) WHERE user_id = 'x';
INSERT INTO results
SELECT v.page_id, d.name, v.ad_id
FROM TABLE(TUMBLE(TABLE views, DESCRIPTOR(at), INTERVAL '10' SECOND)) v
JOIN days d ON v.ad_id = d.ad_id AND DATE_FORMAT(v.window_start, 'yyyy') = d.day
WHERE user_id = 'x';
