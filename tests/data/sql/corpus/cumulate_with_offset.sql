-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, MAX(qty) AS q
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE, INTERVAL '-2' MINUTE)) GROUP BY window_start, window_end, shop;
