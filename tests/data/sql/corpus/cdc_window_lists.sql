-- late: a row is deleted when its window is over
-- open: window_start >= 2026-03-01
SELECT window_start, LISTAGG(shop) AS l FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
