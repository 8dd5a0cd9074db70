-- open: window_start >= 2026-01-01T00:15
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end
UNION ALL
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(`at`), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end;
