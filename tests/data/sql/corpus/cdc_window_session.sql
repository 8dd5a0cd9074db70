-- differs in batch: the rows of now make the sessions, and rows that went do not make them longer
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, COUNT(*) AS n, SUM(qty) AS s FROM TABLE(SESSION(TABLE visits, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end;
