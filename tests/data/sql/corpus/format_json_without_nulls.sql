CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (id BIGINT, shop STRING, qty INT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json',
  'json.encode.ignore-null-fields' = 'true');
INSERT INTO target SELECT id, shop, qty FROM orders WHERE id IN (6, 7);
SELECT * FROM told;
