-- open: window_start >= 2026-03-01
-- quick in batch
SELECT window_start, shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY ts DESC) AS place
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) WHERE place = 1;
