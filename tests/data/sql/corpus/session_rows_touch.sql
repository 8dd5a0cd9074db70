-- quick
-- open: window_start >= 2026-02-28
SELECT * FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY)) WHERE id > 1;
