CREATE TABLE mine (id BIGINT, shop STRING) WITH ('connector' = 'kafka', 'topic' = 'nowhere', ${read}, 'format' = 'json');
ALTER TABLE mine SET ('topic' = '${in}orders');
ALTER TABLE mine RENAME TO yours;
SELECT id, shop FROM yours;
