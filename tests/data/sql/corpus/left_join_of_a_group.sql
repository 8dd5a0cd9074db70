SELECT s.shop, g.n FROM shops AS s LEFT JOIN (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) AS g ON s.shop = g.shop;
