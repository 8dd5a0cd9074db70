SELECT id, amount FROM orders WHERE amount > (SELECT AVG(amount) FROM orders);
