SELECT o.id, s.city FROM orders AS o LEFT JOIN shops AS s ON o.shop = s.shop AND o.qty > 3 AND s.n < 3;
