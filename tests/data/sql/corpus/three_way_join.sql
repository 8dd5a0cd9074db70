-- quick in streaming
SELECT o.id, s.city, p.paid FROM orders AS o JOIN shops AS s ON o.shop = s.shop LEFT JOIN payments AS p ON p.order_id = o.id;
