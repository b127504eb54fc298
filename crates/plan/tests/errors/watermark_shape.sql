CREATE TABLE t (a STRING, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts * 2) WITH ('connector' = 'stream');
