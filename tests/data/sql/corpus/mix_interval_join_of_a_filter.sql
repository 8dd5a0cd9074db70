-- modes: streaming
SELECT o.id, p.paid, q.paid AS other FROM orders AS o JOIN payments AS p ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '2' MINUTE
JOIN payments AS q ON q.order_id = p.order_id AND q.`at` BETWEEN p.`at` - INTERVAL '1' MINUTE AND p.`at` + INTERVAL '1' MINUTE AND q.paid <= p.paid;
