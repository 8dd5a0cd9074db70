-- open: window_start >= 2026-03-01
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY c DESC, shop) AS place FROM (
  SELECT window_start, window_end, shop, COUNT(DISTINCT customer) AS c FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
  WHERE shop IS NOT NULL GROUP BY window_start, window_end, shop)) WHERE place <= 2;
