CREATE TABLE target (id BIGINT, ts TIMESTAMP(0), amount DECIMAL(6, 1), shop VARCHAR(1), customer CHAR(4))
WITH ('connector' = 'filesystem', 'path' = '${out}/sink_precision', 'format' = 'json');
INSERT INTO target SELECT id, ts, amount, shop, customer FROM orders;
SELECT * FROM target;
