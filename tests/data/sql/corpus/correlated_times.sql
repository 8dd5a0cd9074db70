-- modes: batch
SELECT id FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM payments AS p
  WHERE p.order_id = o.id AND p.paid * 2 > o.amount + 1 AND p.`at` < o.ts + INTERVAL '1' HOUR);
