-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(*) AS n, SUM(qty) AS q
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE)) GROUP BY window_start, window_end;
