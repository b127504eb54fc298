-- One job of several stages, whose source gives more than a core can take. Windows over rows of different keys separate the stages,
-- so rows go through an exchange one by one; hashes burn time, most of it in the middle.
SET 'job-name' = 'stages';

CREATE TABLE source (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '50000',
    'seed' = '1',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first AS
SELECT k, SHA256(SHA256(v)) AS v, ts FROM source;

CREATE VIEW second AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))) AS v, ts, seen
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first
);

INSERT INTO results
SELECT k, SHA256(SHA256(SHA256(v))) AS v, seen + again
FROM (
    SELECT k, v, ts, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second
);
