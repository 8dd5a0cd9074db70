-- open: window_start >= 2026-03-01
SELECT window_start, COUNT(*) FILTER (WHERE qty > 2) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
WHERE shop IS NOT NULL GROUP BY window_start, window_end;
