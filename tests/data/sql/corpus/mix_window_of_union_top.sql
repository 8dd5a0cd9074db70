-- modes: streaming
-- open: window_end >= 2026-03-01T10:05:00
SELECT window_end, shop, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end ORDER BY n DESC, shop DESC NULLS LAST) AS rn FROM (
 SELECT window_start, window_end, shop, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end, GROUPING SETS ((shop), ()))) WHERE rn <= 2;
