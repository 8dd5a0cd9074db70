SELECT o.id, p.paid FROM orders AS o JOIN payments AS p
  ON o.id = p.order_id AND o.ts BETWEEN p.`at` - INTERVAL '10' SECOND AND p.`at` + INTERVAL '5' SECOND;
