-- modes: streaming
-- open: window_end >= 2026-03-01T00:00:00
SELECT window_start, window_end, k, COUNT(*) AS c, SUM(n) AS s, MAX(d) AS most
FROM TABLE(HOP(TABLE odd, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND, INTERVAL '-1' SECOND)) GROUP BY window_start, window_end, k;
