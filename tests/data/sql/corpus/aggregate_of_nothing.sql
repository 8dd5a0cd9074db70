SELECT COUNT(*) AS n, SUM(amount) AS s, AVG(qty) AS a, MAX(shop) AS m FROM orders WHERE id > 1000;
