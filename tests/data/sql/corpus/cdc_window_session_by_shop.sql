-- differs in batch: the rows of now make the sessions, and rows that went do not make them longer
-- open: window_start >= 2026-03-01
SELECT shop, window_start, window_end, COUNT(*) AS n FROM TABLE(SESSION(TABLE visits PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY shop, window_start, window_end;
