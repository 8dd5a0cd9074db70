-- quick in streaming
SELECT shop, COUNT(*) AS n, SUM(qty) AS q, SUM(price) AS p FROM goods GROUP BY shop;
