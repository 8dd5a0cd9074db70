-- modes: streaming
-- open: window_end >= 2026-03-01T00:00:05
SELECT window_end, k, n, m FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC, k DESC NULLS LAST) AS rn FROM (
 SELECT a.window_start, a.window_end, a.k, a.n, b.m FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE odd, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k) AS a
 LEFT JOIN (SELECT window_start, window_end, k, MAX(d) AS m FROM TABLE(TUMBLE(TABLE odd, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE d >= 0 GROUP BY window_start, window_end, k) AS b
 ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k)) WHERE rn <= 2;
