-- open: window_start >= 2026-03-01
CREATE TABLE target (window_start TIMESTAMP(3), n BIGINT, s DECIMAL(38, 2))
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT window_start, COUNT(*), SUM(amount)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
SELECT * FROM target;
