-- open: window_start >= 2026-03-01
SELECT id, window_time, window_start FROM TABLE(SESSION(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR));
