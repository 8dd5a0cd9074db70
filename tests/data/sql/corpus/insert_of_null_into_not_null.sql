CREATE TABLE target (shop STRING NOT NULL) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT shop FROM orders;
SELECT * FROM target;
