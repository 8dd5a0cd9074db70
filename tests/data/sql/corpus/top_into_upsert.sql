CREATE TABLE target (shop STRING, n BIGINT, id BIGINT, PRIMARY KEY (shop, n) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, n, id FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS n FROM orders WHERE shop IS NOT NULL) WHERE n <= 2;
SELECT * FROM target;
