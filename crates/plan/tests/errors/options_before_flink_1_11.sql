CREATE TABLE orders (id INT) WITH (
  'connector.type' = 'kafka', 'connector.version' = 'universal', 'connector.topic' = 'a', 'connector.startup-mode' = 'earliest-offset',
  'connector.properties.0.key' = 'bootstrap.servers', 'connector.properties.bootstrap.servers' = 'localhost:9092', 'format.type' = 'csv',
  'format.field-delimiter' = ';', 'update-mode' = 'append'
);
