-- modes: streaming
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS place FROM (
  SELECT window_start, window_end, shop, COUNT(*) AS n
  FROM TABLE(SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) GROUP BY window_start, window_end, shop)) WHERE place <= 1;
