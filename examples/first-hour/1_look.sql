-- The first orders of a file.
--
--     anabranch run examples/first-hour/1_look.sql
--
-- Start Anabranch in the folder that has examples/: the path of the table is relative to that.

CREATE TABLE orders (
    order_id    BIGINT NOT NULL,
    customer_id BIGINT,
    product     STRING,
    quantity    BIGINT,
    price       DECIMAL(10, 2),
    ordered_at  TIMESTAMP(3),
    WATERMARK FOR ordered_at AS ordered_at - INTERVAL '20' SECOND   -- an order is at most 20 s late
) WITH (
    'connector' = 'filesystem',
    'path' = 'examples/first-hour/orders.csv',
    'format' = 'csv',
    'csv.header' = 'true'
);

SELECT order_id, product, quantity, price, ordered_at FROM orders LIMIT 5;
