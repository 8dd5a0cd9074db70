-- late: a row is deleted when its window is over
-- open: window_start >= 2026-01-01T00:10:00
SELECT window_start, COUNT(*) AS n, SUM(qty) AS s FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) WHERE qty > 4 GROUP BY window_start, window_end;
