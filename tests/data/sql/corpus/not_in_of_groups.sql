SELECT id, shop FROM orders WHERE amount > 1 AND shop NOT IN (SELECT MAX(shop) FROM shops GROUP BY n / 3);
