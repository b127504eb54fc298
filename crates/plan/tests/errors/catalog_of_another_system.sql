CREATE CATALOG lake WITH ('type' = 'hive', 'hive-conf-dir' = '/etc/hive');
