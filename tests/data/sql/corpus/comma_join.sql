SELECT o.id, s.city FROM orders AS o, shops AS s WHERE o.shop = s.shop AND o.qty > 3;
