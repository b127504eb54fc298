-- Makes the file orders.csv of this folder: 4000 orders of a shop on one day. The numbers look like chance and are not, so
-- the same file comes out each time:
--
--     anabranch run examples/first-hour/make_orders.sql --option orders.path=orders --parallelism 1

CREATE TABLE numbers (n BIGINT) WITH (
    'connector' = 'datagen',
    'rows-per-second' = 'unlimited',
    'partitions' = '1',                               -- the rows stay in their order
    'fields.n.kind' = 'sequence',
    'fields.n.start' = '1',
    'fields.n.end' = '4000'
);

CREATE TABLE orders (
    order_id    BIGINT NOT NULL,
    customer_id BIGINT,
    product     STRING,
    quantity    BIGINT,
    price       DECIMAL(10, 2),
    ordered_at  TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'csv', 'csv.header' = 'true');

-- A multiple of n modulo a prime: its digits are as good as chance for this.
CREATE VIEW chances AS SELECT n, MOD(n * 811290697, 2147483647) AS r FROM numbers;

CREATE VIEW chosen AS
SELECT
    n,
    -- Some customers buy more than others.
    1 + MOD(MOD(r, 40) * MOD(r / 40, 40), 40) AS customer_id,
    CAST(MOD(r / 1600, 5) AS INT) AS product,
    1 + MOD(r / 8000, 4) AS quantity,
    -- An order every seven seconds, and up to 19 s late.
    n * 7 - MOD(r / 32000, 20) AS seconds
FROM chances;

INSERT INTO orders
SELECT
    n,
    customer_id,
    SPLIT_INDEX('tea,coffee,cocoa,mug,kettle', ',', product),
    quantity,
    CAST(SPLIT_INDEX('4.50,6.80,5.20,9.90,34.00', ',', product) AS DECIMAL(10, 2)),
    TIMESTAMPADD(SECOND, CAST(seconds AS INT), TIMESTAMP '2026-03-02 08:00:20')
FROM chosen;
