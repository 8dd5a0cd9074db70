-- differs in batch: -0.0 is 0.0 in a batch
-- open: window_start >= 2026-03-01
CREATE VIEW v AS SELECT ts, CASE WHEN id IN (1, 2) THEN CAST('NaN' AS DOUBLE) WHEN id IN (3, 4) THEN CAST('Infinity' AS DOUBLE) ELSE price END AS x,
  CASE WHEN id IN (1, 2) THEN (price - price) * -1e0 WHEN id IN (3, 4) THEN price - price ELSE price END AS z FROM orders;
SELECT window_start, COUNT(DISTINCT x) AS n, SUM(DISTINCT z) AS s, COUNT(DISTINCT z) AS c, COUNT(*) AS r FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' HOUR))
GROUP BY window_start, window_end;
