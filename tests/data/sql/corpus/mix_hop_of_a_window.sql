-- modes: streaming
-- open: window_end >= 2026-03-01T10:02:00
CREATE VIEW minutes AS SELECT window_time AS t, shop, COUNT(*) AS n, MAX(amount) AS m FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time, shop;
SELECT window_start, window_end, SUM(n) AS n, MAX(m) AS m, COUNT(DISTINCT shop) AS d FROM TABLE(HOP(TABLE minutes, DESCRIPTOR(t), INTERVAL '2' MINUTE, INTERVAL '4' MINUTE)) GROUP BY window_start, window_end;
