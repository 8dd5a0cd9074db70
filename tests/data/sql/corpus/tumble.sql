-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(*) AS n, SUM(amount) AS s
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
