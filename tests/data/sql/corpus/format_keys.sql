CREATE TABLE target (shop STRING, id BIGINT, amount DECIMAL(10, 2)) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read},
  'key.format' = 'raw', 'key.fields' = 'shop', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY');
INSERT INTO target SELECT shop, id, amount FROM orders WHERE shop IS NOT NULL;
SELECT * FROM target;
