SELECT shop, SUM(qty) AS q FROM goods GROUP BY shop HAVING COUNT(*) > 1;
