SELECT window_start, shop, SUM(qty) AS s FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, shop HAVING COUNT(*) > 1;
