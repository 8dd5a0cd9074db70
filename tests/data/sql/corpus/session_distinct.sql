-- open: window_start >= 2026-03-01
SELECT shop, window_start, window_end, COUNT(DISTINCT customer) AS c, AVG(DISTINCT amount) AS a
FROM TABLE(SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY shop, window_start, window_end;
