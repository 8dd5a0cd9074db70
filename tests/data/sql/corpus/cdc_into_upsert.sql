CREATE TABLE target (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT, q INT)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, COUNT(*), SUM(qty) FROM goods WHERE shop IS NOT NULL GROUP BY shop;
SELECT * FROM target;
