CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (id BIGINT, a STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), price DOUBLE, b BOOLEAN)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'csv', 'csv.field-delimiter' = ';');
INSERT INTO target SELECT id, customer || ';"' || shop, amount, ts, price, qty > 2 FROM orders;
SELECT * FROM told;
