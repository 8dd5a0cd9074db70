CREATE TABLE target (shop STRING, n BIGINT, q INT, PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'raw', 'value.format' = 'csv');
INSERT INTO target SELECT shop, COUNT(*), MAX(qty) FROM goods WHERE shop IS NOT NULL GROUP BY shop;
SELECT * FROM target;
