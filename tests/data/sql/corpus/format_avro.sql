CREATE TABLE target (id BIGINT, shop STRING, amount DECIMAL(10, 2), price DOUBLE, qty INT, `day` DATE)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'avro');
INSERT INTO target SELECT id, shop, amount, price, qty, `day` FROM orders;
SELECT * FROM target;
