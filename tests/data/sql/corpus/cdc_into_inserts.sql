-- kinder in batch: a batch reads the rows of now, and they are only inserted
CREATE TABLE target (shop STRING, n BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT shop, COUNT(*) FROM goods GROUP BY shop;
SELECT * FROM target;
