-- Orders and revenue of each hour. A window gives its row when the watermark has passed its end.
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

SELECT window_start, COUNT(*) AS orders, SUM(quantity * price) AS revenue
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
