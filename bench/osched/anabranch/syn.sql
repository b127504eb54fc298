-- SYN for Anabranch: four paths of three stages, each over a generator of 500 rows/s. Each stage burns time by hashes, a different
-- number of them in each, and some pass on a part of their rows only. A window over rows of another key begins each stage, so rows
-- go through an exchange one by one.
SET 'job-name' = 'syn';

CREATE TABLE source0 (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '500',
    'seed' = '1',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results0 (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first0 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(v)))) AS v, ts FROM source0 WHERE MOD(k, 10) < 6;

CREATE VIEW second0 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v))))))))))) AS v, seen, ts
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first0
)
WHERE MOD(k, 100) < 80;

INSERT INTO results0
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v))))))))))))))) AS v, seen + again
FROM (
    SELECT k, v, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second0
);

CREATE TABLE source1 (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '500',
    'seed' = '2',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results1 (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first1 AS
SELECT k, SHA256(SHA256(SHA256(v))) AS v, ts FROM source1 WHERE MOD(k, 10) < 9;

CREATE VIEW second1 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v))))))))) AS v, seen, ts
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first1
)
WHERE MOD(k, 100) < 90;

INSERT INTO results1
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))))))))) AS v, seen + again
FROM (
    SELECT k, v, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second1
);

CREATE TABLE source2 (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '500',
    'seed' = '3',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results2 (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first2 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))))))) AS v, ts FROM source2 WHERE MOD(k, 10) < 7;

CREATE VIEW second2 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))) AS v, seen, ts
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first2
)
WHERE MOD(k, 100) < 60;

INSERT INTO results2
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))))))))) AS v, seen + again
FROM (
    SELECT k, v, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second2
);

CREATE TABLE source3 (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '500',
    'seed' = '4',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results3 (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first3 AS
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v))))))))) AS v, ts FROM source3 WHERE MOD(k, 10) < 9;

CREATE VIEW second3 AS
SELECT k, SHA256(SHA256(v)) AS v, seen, ts
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first3
)
WHERE MOD(k, 100) < 90;

INSERT INTO results3
SELECT k, SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(SHA256(v)))))))))))))))) AS v, seen + again
FROM (
    SELECT k, v, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second3
);
