-- open: window_start >= 2026-03-01
SELECT window_start, window_end, SUM(qty) AS q, COUNT(DISTINCT id) FILTER (WHERE qty > 2) AS n
FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) WHERE shop <> 's2' GROUP BY window_start, window_end;
