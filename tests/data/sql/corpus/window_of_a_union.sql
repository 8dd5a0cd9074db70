-- open: window_start >= 2026-01-01T00:10:00
CREATE VIEW events AS SELECT ts, id FROM orders UNION ALL SELECT `at`, order_id FROM payments;
SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end;
