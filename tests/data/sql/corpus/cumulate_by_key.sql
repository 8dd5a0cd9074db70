-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, SUM(amount) AS s
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end, shop;
