CREATE TABLE t (a STRING, WATERMARK FOR ts AS ts) WITH ('connector' = 'stream');
