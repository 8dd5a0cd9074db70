-- quick in streaming
SELECT o.id, p.paid FROM orders AS o JOIN payments AS p
  ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE;
