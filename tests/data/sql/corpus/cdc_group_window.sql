-- late: a row is deleted when its window is over
-- open: s >= 2026-03-01
SELECT TUMBLE_START(ts, INTERVAL '10' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '10' MINUTE) AS e, shop, COUNT(*) AS n, MIN(qty) AS q FROM visits GROUP BY TUMBLE(ts, INTERVAL '10' MINUTE), shop;
