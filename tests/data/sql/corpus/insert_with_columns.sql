CREATE TABLE target (a BIGINT, b STRING, c INT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target (c, a) SELECT qty, id FROM orders WHERE id < 4;
SELECT * FROM target;
