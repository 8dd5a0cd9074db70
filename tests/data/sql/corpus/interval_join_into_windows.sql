SELECT o.id, p.paid FROM orders AS o, payments AS p
  WHERE o.id = p.order_id AND p.`at` >= o.ts AND p.`at` < o.ts + INTERVAL '30' MINUTE;
