-- open: window_start >= 2026-03-01
SELECT window_start, shop, id, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY qty DESC, id) AS n
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE))) WHERE n = 2;
