CREATE TABLE visits (page STRING) WITH ('connector' = 'kafka', 'topic' = 'visits');
CREATE TABLE results (page STRING, n BIGINT, seen TIMESTAMP_LTZ(3), PRIMARY KEY (page, seen) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO results SELECT page, COUNT(*), CURRENT_TIMESTAMP FROM visits GROUP BY page;
