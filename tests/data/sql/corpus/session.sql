-- quick in batch
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, COUNT(*) AS n
FROM TABLE(SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end, shop;
