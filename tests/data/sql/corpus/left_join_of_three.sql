SELECT o.id, s.city, p.paid FROM orders AS o LEFT JOIN shops AS s ON o.shop = s.shop LEFT JOIN payments AS p ON o.id = p.order_id;
