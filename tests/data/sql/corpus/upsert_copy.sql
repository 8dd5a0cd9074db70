CREATE TABLE target (shop STRING, city STRING, PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, UPPER(city) FROM cities WHERE people > 1;
SELECT * FROM target;
