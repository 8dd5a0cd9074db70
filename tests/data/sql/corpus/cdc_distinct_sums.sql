SELECT shop, SUM(DISTINCT qty) AS s, AVG(DISTINCT price) AS p FROM goods GROUP BY shop;
