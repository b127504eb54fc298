CREATE TABLE clicks (id BIGINT NOT NULL, page STRING, user_id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = 'clicks');
CREATE TABLE pages (page STRING, owner STRING) WITH ('connector' = 'filesystem');
CREATE TABLE out (n BIGINT, what STRING) WITH ('connector' = 'print');
CREATE VIEW busy AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;
-- One source: a filter and a computed column of one reader, a join of the table with itself, a view read twice.
INSERT INTO out SELECT id, UPPER(page) FROM clicks WHERE user_id > 10;
INSERT INTO out SELECT a.id, b.page FROM clicks a JOIN clicks b ON a.id = b.user_id;
INSERT INTO out SELECT b.n, 'same' FROM busy a JOIN busy b ON a.n = b.n;
-- The time at which rows are read is another column.
INSERT INTO out SELECT id, CAST(PROCTIME() AS STRING) FROM clicks;
-- A static side is read to its end first: its reader has the table for itself.
INSERT INTO out SELECT id, owner FROM clicks JOIN pages ON clicks.page = pages.page;
INSERT INTO out SELECT 1, owner FROM pages;
-- Windows of processing time need another watermark, and another time of idleness is another source too.
CREATE VIEW clocked AS SELECT id, PROCTIME() AS read_at FROM clicks;
INSERT INTO out SELECT COUNT(*), 'by the clock' FROM TABLE(TUMBLE(TABLE clocked, DESCRIPTOR(read_at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
SET 'table.exec.source.idle-timeout' = '1 min';
INSERT INTO out SELECT id, 'idle' FROM clicks;
