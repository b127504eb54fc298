-- Options in the spellings of scripts: values without quotes, options for which there is no use here, and a library.
SET execution.checkpointing.interval = 3s;
SET table.exec.state.ttl=1h;
SET pipeline.name=my-job_2;
SET table.local-time-zone = Asia/Shanghai;
SET parallelism.default=2;
SET state.backend.rocksdb.localdir=/tmp/rocks;
SET fs.oss.endpoint = https://oss.example:8020/a//b;
SET 's3.endpoint' = 'http://minio:9000';
SET 'table.exec.spill-compression.enabled' = 'true';
SET 'table.exec.source.cdc-events-duplicate' = 'false';
ADD JAR '/opt/flink/lib/connector.jar';
CREATE TABLE t (a INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 't');
CREATE TABLE out (d STRING, n BIGINT, PRIMARY KEY (d) NOT ENFORCED) WITH ('connector' = 'upsert-kafka');
INSERT INTO out SELECT DATE_FORMAT(ts, 'yyyy-MM-dd'), COUNT(*) FROM t WHERE ts < '9999-12-31 00:00:00' GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd');
