SELECT window_start, shop, GROUPING(shop) AS g, COUNT(*) AS n, SUM(qty) FILTER (WHERE price > 1) AS s FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end, GROUPING SETS ((shop), ());
