CREATE TABLE target (`day` TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT `day` FROM orders;
SELECT * FROM target;
