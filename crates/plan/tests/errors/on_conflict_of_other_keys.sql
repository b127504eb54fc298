CREATE TABLE visits (page STRING, who INT) WITH ('connector' = 'kafka', 'topic' = 'visits');
CREATE TABLE results (page STRING, n BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO results SELECT page, COUNT(*) FROM visits GROUP BY page ON CONFLICT DO NOTHING;
