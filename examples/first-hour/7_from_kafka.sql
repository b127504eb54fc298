-- Orders and revenue of each hour, as in 2_hours.sql: only the WITH of the table differs.
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
    'connector' = 'kafka',
    'topic' = 'first-hour-orders',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'scan.startup.mode' = 'earliest-offset',
    'format' = 'json'
);

SELECT window_start, COUNT(*) AS orders, SUM(quantity * price) AS revenue
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
