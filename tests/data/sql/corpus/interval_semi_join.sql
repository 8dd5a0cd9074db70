-- quick in batch
SELECT id FROM orders AS o WHERE EXISTS (SELECT 1 FROM payments AS p
  WHERE p.order_id = o.id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE);
