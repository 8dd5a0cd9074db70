SELECT window_start, window_end, COUNT(*) AS n, SUM(amount) AS s
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
