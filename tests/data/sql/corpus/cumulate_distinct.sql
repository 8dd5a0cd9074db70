-- open: window_end >= 2026-03-02 or window_end = 2026-03-01T12:00:00
SELECT window_start, window_end, COUNT(DISTINCT customer) AS c, COUNT(DISTINCT qty) AS q
FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end;
