CREATE TABLE target (id BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json',
  'json.timestamp-format.standard' = 'ISO-8601');
INSERT INTO target SELECT id, ts FROM orders;
SELECT * FROM target;
