CREATE TABLE target (id BIGINT, m MAP<STRING, INT>, n MAP<STRING, ARRAY<STRING>>)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json', 'json.map-null-key.mode' = 'DROP');
INSERT INTO target SELECT id, MAP[shop, qty], MAP['k', ARRAY[customer]] FROM orders WHERE shop IS NOT NULL;
SELECT * FROM target;
