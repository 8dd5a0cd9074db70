-- open: order_id = 3
SELECT o.id, p.order_id FROM orders AS o RIGHT JOIN payments AS p
  ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE;
