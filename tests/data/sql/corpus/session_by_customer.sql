-- quick in streaming
-- open: window_end >= 2026-03-01
SELECT window_start, window_end, customer, SUM(qty) AS q
FROM TABLE(SESSION(TABLE orders PARTITION BY customer, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end, customer;
