-- differs in batch: without an order any row of a group may be the first and the last
-- open: window_start >= 2026-03-01
SELECT window_start, FIRST_VALUE(qty) AS f, LAST_VALUE(qty) AS l FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
