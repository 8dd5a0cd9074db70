-- open: window_start >= 2026-03-01
SELECT window_start, COUNT(*) AS n
FROM TABLE(TUMBLE(DATA => TABLE orders, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' DAY)) GROUP BY window_start, window_end;
