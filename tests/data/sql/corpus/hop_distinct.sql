-- open: window_end >= 2026-03-01
SELECT window_start, window_end, COUNT(DISTINCT customer) FILTER (WHERE qty > 1) AS c, COUNT(DISTINCT shop) AS s, COUNT(DISTINCT qty) FILTER (WHERE shop = 's1') AS q
FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
