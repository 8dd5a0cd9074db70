-- kinder in streaming: Flink plans a sum that takes nothing back for rows of several windows
-- open: window_end >= 2026-03-01
SELECT window_end, SUM(DISTINCT qty) AS s, AVG(DISTINCT amount) AS a FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
