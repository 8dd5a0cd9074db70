-- quick in batch
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(*) AS n
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
