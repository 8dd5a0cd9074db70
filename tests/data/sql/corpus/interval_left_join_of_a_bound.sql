-- modes: streaming
-- open: id = 11 or id = 13 or id = 15
SELECT o.id, p.paid FROM orders AS o LEFT JOIN payments AS p
  ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE AND o.qty > 2 AND o.amount > o.price;
