-- open: window_start >= 2026-02-28T12:00:00
SELECT window_start, window_end, shop, SUM(qty) AS q
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end, ROLLUP (shop);
