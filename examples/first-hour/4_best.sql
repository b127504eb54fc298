-- The best customer of every two hours: orders joined with a table that is read once, at the start.
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

CREATE TABLE customers (customer_id BIGINT, name STRING, city STRING) WITH (
    'connector' = 'filesystem',
    'path' = 'examples/first-hour/customers.csv',
    'format' = 'csv',
    'csv.header' = 'true'
);

SELECT window_start, name, city, revenue
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY revenue DESC) AS place
    FROM (
        SELECT window_start, window_end, name, city, SUM(quantity * price) AS revenue
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '2' HOUR)) o
        JOIN customers c ON o.customer_id = c.customer_id
        GROUP BY window_start, window_end, name, city
    )
)
WHERE place = 1;
