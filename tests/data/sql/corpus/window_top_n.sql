-- open: window_start >= 2026-03-01
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY s DESC) AS place FROM (
  SELECT window_start, window_end, shop, SUM(amount) AS s FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
  WHERE shop IS NOT NULL AND amount IS NOT NULL GROUP BY window_start, window_end, shop)) WHERE place <= 2;
