-- open: window_start >= 2026-03-01
CREATE VIEW paid AS SELECT id, amount, ts FROM orders WHERE amount IS NOT NULL;
SELECT window_start, SUM(amount) AS s FROM TABLE(TUMBLE(TABLE paid, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
