SELECT o.id, c.city FROM orders AS o JOIN cities AS c ON o.shop = c.shop;
