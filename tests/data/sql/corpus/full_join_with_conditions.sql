SELECT o.id, s.shop FROM orders AS o FULL JOIN shops AS s ON o.shop = s.shop AND o.qty > 3 AND s.n > 1;
