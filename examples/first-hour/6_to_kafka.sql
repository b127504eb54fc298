-- Fills a topic with the orders of the file, one JSON object in each message. A topic that does not exist is created.
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

CREATE TABLE topic (
    order_id    BIGINT NOT NULL,
    customer_id BIGINT,
    product     STRING,
    quantity    BIGINT,
    price       DECIMAL(10, 2),
    ordered_at  TIMESTAMP(3)
) WITH (
    'connector' = 'kafka',
    'topic' = 'first-hour-orders',
    'properties.bootstrap.servers' = '127.0.0.1:9092',
    'format' = 'json'
);

INSERT INTO topic SELECT order_id, customer_id, product, quantity, price, ordered_at FROM orders;
