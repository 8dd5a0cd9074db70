-- modes: streaming
CREATE TABLE target (shop STRING, id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT shop, id FROM orders WHERE shop IS NOT NULL ON CONFLICT DO DEDUPLICATE;
SELECT * FROM target;
