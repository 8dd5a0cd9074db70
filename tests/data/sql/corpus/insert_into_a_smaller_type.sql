CREATE TABLE target (a INT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT id FROM orders;
SELECT * FROM target;
