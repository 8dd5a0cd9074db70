-- quick in streaming
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, customer, SUM(qty) AS n
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, customer;
