SELECT SUM(amount) + (SELECT MAX(n) FROM shops) AS s, COUNT(*) AS n FROM orders HAVING COUNT(*) > (SELECT MIN(n) FROM shops);
