CREATE TABLE visits (page STRING) WITH ('connector' = 'kafka', 'topic' = 'visits');
CREATE TABLE results (page STRING, n BIGINT, seen TIMESTAMP_LTZ(3)) WITH ('connector' = 'changes');
INSERT INTO results SELECT page, COUNT(*), CURRENT_TIMESTAMP FROM visits GROUP BY page;
