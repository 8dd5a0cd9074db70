SELECT shop, COUNT(*) AS n, MAX(price) AS dear FROM goods GROUP BY shop HAVING SUM(qty) >= (SELECT AVG(qty) FROM goods);
