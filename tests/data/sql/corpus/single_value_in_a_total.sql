SELECT COUNT(*) AS n, SUM(amount) AS s FROM orders WHERE amount < (SELECT AVG(amount) FROM orders);
