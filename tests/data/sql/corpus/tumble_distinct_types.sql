-- open: window_start >= 2026-03-01
SELECT window_start, COUNT(DISTINCT amount) AS a, COUNT(DISTINCT ts) AS t, COUNT(DISTINCT `day`) AS d, COUNT(DISTINCT qty > 2) AS b
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
