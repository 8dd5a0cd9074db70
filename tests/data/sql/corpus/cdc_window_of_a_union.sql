CREATE VIEW v AS SELECT shop, ts FROM visits UNION ALL SELECT shop, ts FROM orders;
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
