SELECT o.id, s.city FROM orders AS o LEFT JOIN shops AS s ON o.shop = s.shop AND s.n > 1 WHERE o.id < 8;
