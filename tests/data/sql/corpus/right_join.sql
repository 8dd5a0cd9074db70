SELECT o.id, s.city FROM orders AS o RIGHT JOIN shops AS s ON o.shop = s.shop;
