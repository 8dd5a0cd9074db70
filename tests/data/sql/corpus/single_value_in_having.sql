SELECT shop, SUM(amount) AS s FROM orders GROUP BY shop HAVING SUM(amount) > (SELECT AVG(amount) FROM orders);
