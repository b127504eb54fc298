CREATE FUNCTION net(price DOUBLE, amount INT) RETURNS DECIMAL(10, 2) RETURN price * amount / 1.25;
CREATE FUNCTION size(amount INT) RETURNS STRING RETURN CASE WHEN amount > 3 THEN 'bulk' WHEN amount > 1 THEN 'few' ELSE 'one' END;
CREATE FUNCTION known(name STRING, otherwise STRING) RETURNS STRING RETURN COALESCE(UPPER(name), otherwise);
CREATE FUNCTION is_part(item STRING, pattern STRING) RETURNS BOOLEAN RETURN item SIMILAR TO pattern AND known(NULL, item) = item;
CREATE FUNCTION ratio(a INT, b INT) RETURNS INT RETURN CASE WHEN b <> 0 THEN a / b END;
CREATE TABLE orders (id BIGINT, customer STRING, item STRING, price DOUBLE, amount INT, at TIMESTAMP(3),
  label AS known(customer, 'no name'), WATERMARK FOR at AS at - INTERVAL '30' SECOND)
WITH ('connector' = 'filesystem', 'path' = '$DATA/orders', 'format' = 'json');
CREATE TABLE results (id BIGINT, label STRING, net DECIMAL(10, 2), size STRING, ratio INT) WITH ('connector' = 'collect');
INSERT INTO results SELECT id, label, net(price, amount), size(amount), ratio(10, amount - 1) FROM orders
WHERE is_part(item, '(tea|spoon|pot)');
INSERT INTO results SELECT COUNT(*), size(amount), SUM(net(price, amount)), known(MAX(customer), 'none'), ratio(SUM(amount), b => COUNT(*)) FROM orders
GROUP BY size(amount);
