-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, customer, SUM(qty) AS q
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, CUBE (shop, customer);
