SELECT window_start, shop FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, shop
INTERSECT SELECT window_start, shop FROM TABLE(TUMBLE(TABLE rates, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, shop;
