SELECT shop, COUNT(DISTINCT customer) AS n, SUM(DISTINCT qty) AS s FROM orders GROUP BY shop;
