CREATE TABLE target (id BIGINT, shop STRING, amount DECIMAL(10, 2), price DOUBLE, ts TIMESTAMP(3), `day` DATE)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT id, shop, amount, price, ts, `day` FROM orders;
SELECT * FROM target;
