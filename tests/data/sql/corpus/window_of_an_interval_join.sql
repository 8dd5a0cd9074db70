-- open: window_start >= 2026-01-01T00:10:00
CREATE VIEW paid_orders AS SELECT o.id, o.ts, p.paid FROM orders AS o, payments AS p
  WHERE o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE;
SELECT window_start, window_end, COUNT(*) AS n, SUM(paid) AS s
FROM TABLE(TUMBLE(TABLE paid_orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
