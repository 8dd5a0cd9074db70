-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, customer, COUNT(*) AS n
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end, ROLLUP (shop, customer);
