CREATE TABLE lines (id INT, line STRING, separator STRING, place INT)
WITH ('connector' = 'filesystem', 'path' = '$DATA/lines.json', 'format' = 'json');
CREATE TABLE results (id INT, first STRING, second STRING, chosen STRING, is_absent BOOLEAN) WITH ('connector' = 'collect');
INSERT INTO results
SELECT id, SPLIT_INDEX(line, ',', 0), SPLIT_INDEX(line, ',', 1), SPLIT_INDEX(line, separator, place),
  SPLIT_INDEX(line, separator, place) IS NULL
FROM lines;
