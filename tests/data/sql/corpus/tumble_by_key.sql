-- quick in streaming
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, COUNT(*) AS n, AVG(price) AS p
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY shop, window_start, window_end;
