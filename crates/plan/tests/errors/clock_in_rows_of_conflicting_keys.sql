CREATE TABLE visits (page STRING, who INT) WITH ('connector' = 'kafka', 'topic' = 'visits');
CREATE TABLE results (n BIGINT, page STRING, t TIMESTAMP_LTZ(3), PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO results SELECT COUNT(*), page, CURRENT_TIMESTAMP FROM visits GROUP BY page;
