-- quick in streaming
-- open: window_start >= 2026-03-01
SELECT id, window_start, window_end FROM TABLE(SESSION(TABLE orders PARTITION BY shop, DESCRIPTOR(ts), INTERVAL '2' MINUTE));
