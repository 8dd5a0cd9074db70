CREATE VIEW v AS SELECT shop AS k, qty * 2 AS q, ts AS t FROM visits WHERE qty > 3;
SELECT window_start, k, SUM(q) AS q FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(t), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, k;
