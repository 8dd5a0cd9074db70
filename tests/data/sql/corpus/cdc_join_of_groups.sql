-- quick in streaming
SELECT c.city, g.q FROM cities AS c JOIN (SELECT shop, SUM(qty) AS q FROM goods GROUP BY shop) AS g ON c.shop = g.shop;
