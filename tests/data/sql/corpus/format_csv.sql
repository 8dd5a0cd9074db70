CREATE TABLE target (id BIGINT, shop STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), `day` DATE)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'csv');
INSERT INTO target SELECT id, shop || ', "x"', amount, ts, `day` FROM orders WHERE shop IS NOT NULL AND amount IS NOT NULL;
SELECT * FROM target;
