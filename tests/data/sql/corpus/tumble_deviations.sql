-- open: window_start >= 2026-03-01
SELECT window_start, window_end, STDDEV_POP(price) AS a, VAR_SAMP(price) AS b
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
