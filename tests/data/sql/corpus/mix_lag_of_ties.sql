-- modes: streaming
-- open: id = 11
SELECT id, LAG(n) OVER (PARTITION BY k ORDER BY ts) AS before_n, LAG(id, 2) OVER (PARTITION BY k ORDER BY ts) AS earlier FROM odd;
