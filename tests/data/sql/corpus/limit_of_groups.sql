SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop LIMIT 20;
