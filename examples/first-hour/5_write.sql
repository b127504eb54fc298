-- Two tables of files from one reading of the orders: large orders, and the hours. A job of a cluster runs it as well.
-- Start Anabranch in the folder that has examples/: paths are relative to that.

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

CREATE TABLE large_orders (order_id BIGINT, product STRING, total DECIMAL(20, 2))
WITH ('connector' = 'filesystem', 'path' = 'first-hour/large_orders', 'format' = 'csv');

CREATE TABLE hours (window_start TIMESTAMP(3), orders BIGINT, revenue DECIMAL(20, 2))
WITH ('connector' = 'filesystem', 'path' = 'first-hour/hours', 'format' = 'csv');

INSERT INTO large_orders
SELECT order_id, product, quantity * price FROM orders WHERE quantity * price > 130;

INSERT INTO hours
SELECT window_start, COUNT(*), SUM(quantity * price)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
