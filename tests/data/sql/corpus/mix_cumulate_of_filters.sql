-- modes: streaming
-- open: window_end >= 2026-03-01T00:00:10
SELECT window_start, window_end, k, COUNT(*) FILTER (WHERE n > 0) AS a, MAX(d) FILTER (WHERE v > 1) AS b, SUM(e) AS s, MIN(ts) AS t FROM TABLE(CUMULATE(TABLE odd, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '40' SECOND)) WHERE k <> 'zz' OR k IS NULL GROUP BY window_start, window_end, k HAVING COUNT(*) > 0;
