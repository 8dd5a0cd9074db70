-- modes: streaming
CREATE TABLE target (shop STRING, n BIGINT, PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, COUNT(*) FROM orders WHERE shop IS NOT NULL GROUP BY shop ON CONFLICT DO NOTHING;
SELECT * FROM target;
