-- open: window_start >= 2026-03-01
SELECT window_start, shop FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end, shop HAVING COUNT(DISTINCT customer) > 1;
