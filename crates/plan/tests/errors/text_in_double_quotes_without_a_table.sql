CREATE TABLE out (page STRING) WITH ('connector' = 'print');
INSERT INTO out SELECT "home";
