-- late: a row is deleted when its window is over
-- open: e >= 2026-03-01
SELECT HOP_START(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS s, HOP_END(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE) AS e, COUNT(*) AS n FROM visits GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE);
