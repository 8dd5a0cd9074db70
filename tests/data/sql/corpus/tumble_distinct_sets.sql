-- open: window_start >= 2026-03-01
SELECT window_start, shop, COUNT(DISTINCT customer) AS c, SUM(qty) AS q FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end, GROUPING SETS ((shop), ());
