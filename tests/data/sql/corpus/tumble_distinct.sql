-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(DISTINCT customer) AS n
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
