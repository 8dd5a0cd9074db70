-- open: window_start >= 2026-03-01
CREATE VIEW minutes AS SELECT window_start AS b, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, window_time;
SELECT b.window_start, b.window_end, SUM(b.n) AS n FROM TABLE(TUMBLE(TABLE minutes, DESCRIPTOR(window_time), INTERVAL '10' MINUTE)) AS b
GROUP BY b.window_start, b.window_end;
