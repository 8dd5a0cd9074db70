SELECT o.id, c.city FROM orders AS o LEFT JOIN cities AS c ON o.shop = c.shop;
