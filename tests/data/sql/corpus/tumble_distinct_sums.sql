-- quick in streaming
-- open: window_start >= 2026-03-01
SELECT window_start, shop, COUNT(DISTINCT customer) AS c, SUM(DISTINCT qty) AS s, AVG(DISTINCT qty) AS a, MIN(DISTINCT qty) AS l,
  MAX(DISTINCT qty) AS m, SUM(DISTINCT amount) AS d, AVG(DISTINCT amount) AS da, SUM(DISTINCT price) AS p, AVG(DISTINCT price) AS pa, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, shop;
