CREATE TABLE target (k_id BIGINT, id BIGINT, shop STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read},
  'key.format' = 'json', 'key.fields' = 'k_id', 'key.fields-prefix' = 'k_', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY');
INSERT INTO target SELECT id * 10, id, shop FROM orders WHERE id < 5;
SELECT * FROM target;
