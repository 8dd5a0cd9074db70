-- open: window_start >= 2026-03-01
SELECT window_start, AVG(amount) AS a, MIN(qty) AS low, MAX(customer) AS high
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
