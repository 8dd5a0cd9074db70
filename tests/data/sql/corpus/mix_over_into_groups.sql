-- modes: streaming
-- open: k = z
SELECT k, SUM(d) AS s, COUNT(before) AS n FROM (SELECT k, n - LAG(n) OVER (PARTITION BY k ORDER BY ts) AS d, LAG(n, 2) OVER (PARTITION BY k ORDER BY ts) AS before FROM odd) GROUP BY k;
