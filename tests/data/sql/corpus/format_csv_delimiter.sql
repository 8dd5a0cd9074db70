CREATE TABLE target (id BIGINT, a STRING, b STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'csv',
  'csv.field-delimiter' = '|', 'csv.null-literal' = 'nil');
INSERT INTO target SELECT id, shop, customer FROM orders;
SELECT * FROM target;
