-- Revenue of each product so far. It changes with every order; --final shows only the rows at the end.
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

SELECT product, COUNT(*) AS orders, SUM(quantity * price) AS revenue
FROM orders
GROUP BY product;
