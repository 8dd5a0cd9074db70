SELECT o.id, s.city, s.n FROM orders AS o LEFT JOIN shops AS s ON o.shop = s.shop AND s.n > 1;
