-- open: window_start >= 2026-03-01
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT id, ts FROM orders WHERE qty > 1), DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
