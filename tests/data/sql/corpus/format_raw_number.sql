CREATE TABLE target (x BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
INSERT INTO target SELECT id FROM orders;
SELECT x FROM target;
