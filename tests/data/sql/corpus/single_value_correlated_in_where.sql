SELECT id, shop, amount FROM orders AS o WHERE amount > (SELECT AVG(amount) FROM orders WHERE shop = o.shop);
