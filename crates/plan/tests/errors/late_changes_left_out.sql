CREATE TABLE people (id BIGINT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'changes', 'scan.watermark.lateness' = 'partition');
