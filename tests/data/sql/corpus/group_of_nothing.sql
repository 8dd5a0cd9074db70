SELECT shop, COUNT(*) AS n FROM orders WHERE id > 1000 GROUP BY shop;
