CREATE TABLE target (id BIGINT, a ARRAY<INT>, r ROW<x STRING, y INT>)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'csv', 'csv.array-element-delimiter' = '|');
INSERT INTO target SELECT id, ARRAY[qty, 7], ROW(shop, qty) FROM orders WHERE qty IS NOT NULL AND shop IS NOT NULL;
SELECT * FROM target;
