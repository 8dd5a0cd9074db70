-- modes: streaming
-- open: window_end >= 2026-03-01T00:00:00
SELECT id, k, window_start, window_end FROM TABLE(SESSION(TABLE odd PARTITION BY k, DESCRIPTOR(ts), INTERVAL '8' SECOND));
