-- open: window_start >= 2026-01-01T00:02:00
SELECT window_start, shop FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, shop
INTERSECT SELECT window_start, shop FROM TABLE(TUMBLE(TABLE rates, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, shop;
