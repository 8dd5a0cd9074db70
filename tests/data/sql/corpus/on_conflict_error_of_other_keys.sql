-- modes: streaming
CREATE TABLE target (shop STRING, id INT, PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, id FROM visits WHERE shop IS NOT NULL ON CONFLICT DO ERROR;
SELECT * FROM target;
