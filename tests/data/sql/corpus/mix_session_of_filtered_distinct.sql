-- modes: streaming
-- open: k = z
SELECT window_start, window_end, k, COUNT(*) AS n, COUNT(DISTINCT n) FILTER (WHERE n > 0) AS d, SUM(d) AS s
FROM TABLE(SESSION(TABLE odd PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECOND))
GROUP BY k, window_start, window_end HAVING COUNT(*) > 0;
