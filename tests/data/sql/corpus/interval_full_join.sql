-- open: id >= 11
SELECT o.id, p.order_id, p.paid FROM orders AS o FULL JOIN payments AS p
  ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE
  WHERE p.order_id IS NULL OR p.order_id <> 3;
