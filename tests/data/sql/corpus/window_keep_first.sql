-- open: window_start >= 2026-03-01
SELECT window_start, shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY ts) AS place
  FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))) WHERE place <= 1;
