-- open: window_end >= 2026-03-01T10:00
SELECT window_start, window_end, shop, COUNT(*) AS n FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY))
GROUP BY window_start, window_end, shop;
