-- open: window_end >= 2026-03-01T10:00:00
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '10' MINUTE)) WHERE id > 12 GROUP BY window_start, window_end;
