-- differs in batch: the first row of a group without an order is any of them
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, shop, FIRST_VALUE(id) AS f, LAST_VALUE(id) AS l, MIN(price) AS mi, MAX(customer) AS ma
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, shop;
