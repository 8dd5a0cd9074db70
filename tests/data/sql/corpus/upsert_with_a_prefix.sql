CREATE TABLE target (k_shop STRING, shop STRING, n BIGINT, PRIMARY KEY (k_shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'key.fields-prefix' = 'k_',
  'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY');
INSERT INTO target SELECT shop, MAX(customer), COUNT(*) FROM orders WHERE shop IS NOT NULL GROUP BY shop;
SELECT * FROM target;
