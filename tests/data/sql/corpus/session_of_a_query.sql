-- open: s >= 2026-03-01
SELECT window_start AS s, COUNT(*) AS n FROM TABLE(SESSION((SELECT shop, ts FROM orders) PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '30' MINUTE)) GROUP BY shop, window_start, window_end;
