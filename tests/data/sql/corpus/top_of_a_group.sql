SELECT shop, SUM(qty) AS q FROM orders GROUP BY shop ORDER BY q DESC LIMIT 2;
