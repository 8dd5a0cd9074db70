-- open: window_start >= 2026-03-01
WITH many AS (SELECT id, ts FROM orders WHERE qty > 1)
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE many, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
