-- open: e >= 2026-03-01
SELECT window_end AS e, COUNT(DISTINCT shop) AS n, SUM(c) AS c FROM (SELECT window_start, window_end, shop, customer, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
  GROUP BY window_start, window_end, shop, customer) GROUP BY window_start, window_end;
