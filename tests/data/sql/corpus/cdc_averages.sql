SELECT shop, AVG(qty) AS q, AVG(price) AS p, COUNT(price) AS n FROM goods GROUP BY shop;
