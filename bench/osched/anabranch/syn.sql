-- SYN for Anabranch: four paths of three stages, each over a generator of 500 rows/s. Each stage burns time by hashes, a different
-- number of them in each, and some pass on a part of their rows only. A window over rows of another key begins each stage, so rows
-- go through an exchange one by one.
-- What stands in braces differs from path to path: anabranch_engine.py makes the script of it.
SET 'job-name' = 'syn';

CREATE TABLE source{n} (
    k INT,
    v STRING,
    ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'datagen',
    'rows-per-second' = '500',
    'seed' = '{seed}',
    'fields.k.min' = '0',
    'fields.k.max' = '4999',
    'fields.v.length' = '16'
);

CREATE TABLE results{n} (k INT, v STRING, seen BIGINT) WITH ('connector' = 'blackhole');

CREATE VIEW first{n} AS
SELECT k, {first} AS v, ts FROM source{n} WHERE MOD(k, 10) < {tenths};

CREATE VIEW second{n} AS
SELECT k, {second} AS v, seen, ts
FROM (
    SELECT k, v, ts, COUNT(*) OVER (PARTITION BY MOD(k, 97) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS seen
    FROM first{n}
)
WHERE MOD(k, 100) < {hundredths};

INSERT INTO results{n}
SELECT k, {third} AS v, seen + again
FROM (
    SELECT k, v, seen, COUNT(*) OVER (PARTITION BY MOD(k, 89) ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS again
    FROM second{n}
);
