CREATE TABLE Orders (Id BIGINT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ('connector' = 'stream');
CREATE TABLE `orders.old` (Id BIGINT) WITH ('connector' = 'filesystem');
CREATE TABLE results (Id BIGINT) WITH ('connector' = 'print');
INSERT INTO results SELECT o.Id FROM Orders o JOIN `orders.old` ON o.Id = `orders.old`.Id;
