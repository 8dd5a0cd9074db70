SELECT shop, SUM(amount - (SELECT MIN(amount) FROM orders)) AS s FROM orders GROUP BY shop;
