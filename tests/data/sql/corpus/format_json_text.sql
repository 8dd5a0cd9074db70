CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (id BIGINT, amount DECIMAL(10, 2), ts TIMESTAMP(3), `day` DATE, price DOUBLE, tags ARRAY<INT>)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT id, amount, ts, `day`, price, ARRAY[qty, 7] FROM orders;
SELECT * FROM told;
