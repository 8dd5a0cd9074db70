-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end;
